-- concurrently
-- A payment is found by the end of its reference, which is all that some operators repeat.
DROP INDEX CONCURRENTLY IF EXISTS transactions_by_ending;
CREATE INDEX CONCURRENTLY transactions_by_ending ON transactions (right(gateway_reference, 12));

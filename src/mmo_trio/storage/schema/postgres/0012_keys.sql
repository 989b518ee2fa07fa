-- concurrently
-- Keys that begin with the reference, as intents have: one index finds a row by its reference with the brand and without
-- it. They replace the keys and two more indexes in the next migration.
DROP INDEX CONCURRENTLY IF EXISTS transactions_key;
CREATE UNIQUE INDEX CONCURRENTLY transactions_key ON transactions (gateway_reference, brand);
DROP INDEX CONCURRENTLY IF EXISTS reference_uses_key;
CREATE UNIQUE INDEX CONCURRENTLY reference_uses_key ON reference_uses (merchant_reference, brand, nth);

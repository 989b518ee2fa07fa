-- concurrently
-- By what operators look: every other name of a payment, all brands' payments and those that are pending in the order
-- of their creation, callbacks that weren't delivered, and what the suspense book says of a payment.
DROP INDEX CONCURRENTLY IF EXISTS transactions_by_msisdn;
CREATE INDEX CONCURRENTLY transactions_by_msisdn ON transactions (msisdn, created_at) WHERE msisdn IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS transactions_by_reconciliation;
CREATE INDEX CONCURRENTLY transactions_by_reconciliation ON transactions (reconciliation_reference, created_at)
    WHERE reconciliation_reference IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS transactions_by_receipt;
CREATE INDEX CONCURRENTLY transactions_by_receipt ON transactions (provider_receipt, created_at)
    WHERE provider_receipt IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS transactions_by_time;
CREATE INDEX CONCURRENTLY transactions_by_time ON transactions (created_at, gateway_reference);
DROP INDEX CONCURRENTLY IF EXISTS transactions_pending;
CREATE INDEX CONCURRENTLY transactions_pending ON transactions (created_at, gateway_reference)
    WHERE wake_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS callbacks_failed;
CREATE INDEX CONCURRENTLY callbacks_failed ON callbacks (id) WHERE outcome <> 'delivered';
DROP INDEX CONCURRENTLY IF EXISTS suspense_by_transaction;
CREATE INDEX CONCURRENTLY suspense_by_transaction ON suspense (gateway_reference)
    WHERE gateway_reference IS NOT NULL;

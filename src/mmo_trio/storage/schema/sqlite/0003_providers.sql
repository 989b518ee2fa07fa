-- A payment is found by the end of its reference, which is all that some operators repeat.
CREATE INDEX transactions_by_ending ON transactions (substr(gateway_reference, -12));

-- Providers that a person has closed for new payments.
CREATE TABLE closed_providers (
    name TEXT PRIMARY KEY,
    closed_at INTEGER NOT NULL,
    closed_by TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

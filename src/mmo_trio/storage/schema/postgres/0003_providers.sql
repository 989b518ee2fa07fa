-- A payment is found by the end of its reference, which is all that some operators repeat.
CREATE INDEX transactions_by_ending ON transactions (right(gateway_reference, 12));

-- Providers that a person has closed for new payments.
CREATE TABLE closed_providers (
    name text PRIMARY KEY,
    closed_at bigint NOT NULL,
    closed_by text NOT NULL,
    reason text NOT NULL
);

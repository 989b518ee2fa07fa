-- Providers that a person has closed for new payments.
CREATE TABLE closed_providers (
    name text PRIMARY KEY,
    closed_at bigint NOT NULL,
    closed_by text NOT NULL,
    reason text NOT NULL
);

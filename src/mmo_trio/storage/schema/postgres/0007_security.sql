-- When the key was said to be known to somebody else: nothing is sent any more for payments that it made.
ALTER TABLE api_keys ADD COLUMN leaked_at bigint;

-- The audit log's rows are authenticated: `mac` is an HMAC of the number and the hash, `key_id` names its key. Rows of
-- earlier versions have neither. `audit_keys` holds the audit keys of earlier master keys, sealed with the present one.
ALTER TABLE audit ADD COLUMN key_id text;
ALTER TABLE audit ADD COLUMN mac text;

CREATE TABLE audit_keys (
    id text PRIMARY KEY,
    sealed bytea NOT NULL
);

-- The second factors of console users. `sealed` is the secret in use, `pending` one that is not confirmed yet;
-- `last_step` is the last accepted step of time. A recovery code is removed when it is used.
CREATE TABLE second_factors (
    operator text PRIMARY KEY,
    sealed bytea,
    confirmed_at bigint,
    last_step bigint NOT NULL DEFAULT 0,
    pending bytea
);

CREATE TABLE recovery_codes (
    operator text NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (operator, digest)
);
-- How the payments before under the same merchantReference ended, as all of them had: 'success' when one was paid,
-- 'failed' when none was (C12). A version that knows nothing of it leaves NULL: then those payments are read.
ALTER TABLE reference_uses ADD COLUMN earlier text;

-- From what a later process continues the gateway's own time: the clocks as they were together, for each start of a
-- machine. This server's clock measures how long ago that was.
CREATE TABLE clock_records (
    boot_id text PRIMARY KEY,
    monotonic bigint NOT NULL,
    time bigint NOT NULL,
    utc bigint NOT NULL,
    served_until bigint NOT NULL,
    saved_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What operators' unsigned notifications say of money that was received, until it is settled; a settled claim stays, so
-- that its receipt settles nothing else (S4).
CREATE TABLE deposit_claims (
    provider text NOT NULL,
    receipt text NOT NULL,
    version integer NOT NULL,
    wake_at bigint,
    claim bytea NOT NULL,
    PRIMARY KEY (provider, receipt)
);

CREATE INDEX deposit_claims_by_wake ON deposit_claims (wake_at) WHERE wake_at IS NOT NULL;

-- Which master keys the secrets of this store are sealed with, by their ids; two while one replaces the other, which has
-- ended then. A process with other master keys can't serve this store.
CREATE TABLE master_keys (
    generation bigint PRIMARY KEY,
    id text NOT NULL UNIQUE,
    added_at bigint NOT NULL,
    ended_at bigint
);

-- Brands whose payments are not submitted any more, until staff release them.
CREATE TABLE brand_holds (
    brand text PRIMARY KEY,
    held_at bigint NOT NULL,
    held_by text NOT NULL
);

-- What brands use of their limits: pending payments (day 0), and the amounts of a day, counted since 1970-01-01. Only
-- brands with limits have rows.
CREATE TABLE brand_usage (
    brand text NOT NULL,
    counter text NOT NULL,
    day bigint NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (brand, counter)
) WITH (fillfactor = 50);

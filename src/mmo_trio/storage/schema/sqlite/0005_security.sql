-- When the key was said to be known to somebody else: nothing is sent any more for payments that it made.
ALTER TABLE api_keys ADD COLUMN leaked_at INTEGER;

-- The audit log's rows are authenticated: `mac` is an HMAC of the number and the hash, `key_id` names its key. Rows of
-- earlier versions have neither. `audit_keys` holds the audit keys of earlier master keys, sealed with the present one.
ALTER TABLE audit ADD COLUMN key_id TEXT;
ALTER TABLE audit ADD COLUMN mac TEXT;

CREATE TABLE audit_keys (
    id TEXT PRIMARY KEY,
    sealed BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The second factors of console users. `sealed` is the secret in use, `pending` one that is not confirmed yet;
-- `last_step` is the last accepted step of time. A recovery code is removed when it is used.
CREATE TABLE second_factors (
    operator TEXT PRIMARY KEY,
    sealed BLOB,
    confirmed_at INTEGER,
    last_step INTEGER NOT NULL DEFAULT 0,
    pending BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE recovery_codes (
    operator TEXT NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (operator, digest)
) STRICT, WITHOUT ROWID;
-- How the payments before under the same merchantReference ended, as all of them had: 'success' when one was paid,
-- 'failed' when none was (C12). A version that knows nothing of it leaves NULL: then those payments are read.
ALTER TABLE reference_uses ADD COLUMN earlier TEXT;

-- From what a later process continues the gateway's own time: the clocks as they were together, for each start of the
-- machine.
CREATE TABLE clock_records (
    boot_id TEXT PRIMARY KEY,
    monotonic INTEGER NOT NULL,
    time INTEGER NOT NULL,
    utc INTEGER NOT NULL,
    served_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What operators' unsigned notifications say of money that was received, until it is settled; a settled claim stays, so
-- that its receipt settles nothing else (S4).
CREATE TABLE deposit_claims (
    provider TEXT NOT NULL,
    receipt TEXT NOT NULL,
    version INTEGER NOT NULL,
    wake_at INTEGER,
    claim BLOB NOT NULL,
    PRIMARY KEY (provider, receipt)
) STRICT, WITHOUT ROWID;

CREATE INDEX deposit_claims_by_wake ON deposit_claims (wake_at) WHERE wake_at IS NOT NULL;

-- Which master keys the secrets of this store are sealed with, by their ids; two while one replaces the other, which has
-- ended then. A process with other master keys can't serve this store.
CREATE TABLE master_keys (
    generation INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    added_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;

-- Brands whose payments are not submitted any more, until staff release them.
CREATE TABLE brand_holds (
    brand TEXT PRIMARY KEY,
    held_at INTEGER NOT NULL,
    held_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What brands use of their limits: pending payments (day 0), and the amounts of a day, counted since 1970-01-01. Only
-- brands with limits have rows.
CREATE TABLE brand_usage (
    brand TEXT NOT NULL,
    counter TEXT NOT NULL,
    day INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    PRIMARY KEY (brand, counter)
) STRICT, WITHOUT ROWID;

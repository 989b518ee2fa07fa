-- By what else operators look for a payment; see office/handles.py. Rows of before are filled in from what they hold.
ALTER TABLE transactions ADD COLUMN msisdn TEXT;
ALTER TABLE transactions ADD COLUMN reconciliation_reference TEXT;
ALTER TABLE transactions ADD COLUMN provider_receipt TEXT;

UPDATE transactions SET
    msisdn = CASE WHEN type <> 'tax' THEN 
        substr(ltrim(json_extract(substr(CAST(order_row AS TEXT), 9), '$[10][1]'), '+'), 1, 255) END,
    reconciliation_reference = nullif(json_extract(substr(CAST(order_row AS TEXT), 9), '$[12]'),
        json_extract(substr(CAST(order_row AS TEXT), 9), '$[11]')),
    provider_receipt = substr(json_extract(substr(CAST(progress AS TEXT), 9), '$[4]'), 1, 255)
WHERE json_valid(substr(CAST(order_row AS TEXT), 9)) AND json_valid(substr(CAST(progress AS TEXT), 9));

CREATE INDEX transactions_by_msisdn ON transactions (msisdn, created_at) WHERE msisdn IS NOT NULL;
CREATE INDEX transactions_by_reconciliation ON transactions (reconciliation_reference, created_at)
    WHERE reconciliation_reference IS NOT NULL;
CREATE INDEX transactions_by_receipt ON transactions (provider_receipt, created_at)
    WHERE provider_receipt IS NOT NULL;

-- All brands' payments, and those that are pending, in the order of their creation.
CREATE INDEX transactions_by_time ON transactions (created_at, gateway_reference);
CREATE INDEX transactions_pending ON transactions (created_at, gateway_reference) WHERE wake_at IS NOT NULL;

CREATE INDEX callbacks_failed ON callbacks (id) WHERE outcome <> 'delivered';
CREATE INDEX suspense_by_transaction ON suspense (gateway_reference) WHERE gateway_reference IS NOT NULL;

-- How many payments there were, counted in the commit that makes or ends them; see office/figures.py.
CREATE TABLE figures (
    span INTEGER NOT NULL,
    began_at INTEGER NOT NULL,
    brand TEXT NOT NULL,
    method TEXT NOT NULL,
    provider TEXT NOT NULL,
    status TEXT NOT NULL,
    latency_s INTEGER NOT NULL,
    times INTEGER NOT NULL,
    PRIMARY KEY (span, began_at, brand, method, provider, status, latency_s)
) STRICT, WITHOUT ROWID;

-- When merchants' breakers opened and closed.
CREATE TABLE breaker_changes (
    brand TEXT NOT NULL,
    at INTEGER NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (brand, at)
) STRICT, WITHOUT ROWID;

CREATE INDEX breaker_changes_by_time ON breaker_changes (at);

-- People who may sign in at the console, and their browsers.
CREATE TABLE operators (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    added_at INTEGER NOT NULL,
    disabled_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    digest BLOB PRIMARY KEY,
    operator TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Payments that an operator wants to end by hand.
CREATE TABLE proposals (
    id INTEGER PRIMARY KEY,
    gateway_reference TEXT NOT NULL,
    brand TEXT NOT NULL,
    error_code TEXT,
    provider_reference TEXT,
    reason TEXT NOT NULL,
    evidence TEXT NOT NULL,
    proposed_by TEXT NOT NULL,
    proposed_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    decided_by TEXT,
    decided_at INTEGER,
    remark TEXT
) STRICT;

CREATE INDEX proposals_by_transaction ON proposals (gateway_reference);
CREATE INDEX proposals_by_state ON proposals (state, id);

-- Who did what; rows are only ever added, and each holds the hash of the one before. The head says where it ends.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    act TEXT NOT NULL,
    about TEXT NOT NULL,
    detail TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT;

CREATE INDEX audit_by_subject ON audit (about, number);

CREATE TABLE audit_head (
    number INTEGER NOT NULL,
    hash TEXT NOT NULL
) STRICT;

INSERT INTO audit_head (number, hash) VALUES (0, '0000000000000000000000000000000000000000000000000000000000000000');

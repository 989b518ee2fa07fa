-- By what else operators look for a payment; see office/handles.py. What was written
-- before, or is written by a version that knows nothing of it, isn't found by these.
ALTER TABLE transactions ADD COLUMN msisdn text;
ALTER TABLE transactions ADD COLUMN reconciliation_reference text;
ALTER TABLE transactions ADD COLUMN provider_receipt text;

-- How many payments there were, counted in the commit that makes or ends them; see office/figures.py. Each holder has
-- rows of its own, so that no node waits for another.
CREATE TABLE figures (
    span bigint NOT NULL,
    began_at bigint NOT NULL,
    brand text NOT NULL,
    method text NOT NULL,
    provider text NOT NULL,
    status text NOT NULL,
    latency_s integer NOT NULL,
    holder bigint NOT NULL,
    times bigint NOT NULL,
    PRIMARY KEY (span, began_at, brand, method, provider, status, latency_s, holder)
) WITH (fillfactor = 50);

-- When merchants' breakers opened and closed.
CREATE TABLE breaker_changes (
    brand text NOT NULL,
    at bigint NOT NULL,
    state text NOT NULL,
    PRIMARY KEY (brand, at)
);

CREATE INDEX breaker_changes_by_time ON breaker_changes (at);

-- People who may sign in at the console, and their browsers.
CREATE TABLE operators (
    name text PRIMARY KEY,
    role text NOT NULL,
    password_hash text NOT NULL,
    added_at bigint NOT NULL,
    disabled_at bigint
);

CREATE TABLE sessions (
    digest bytea PRIMARY KEY,
    operator text NOT NULL,
    began_at bigint NOT NULL,
    seen_at bigint NOT NULL
);

-- Payments that an operator wants to end by hand.
CREATE TABLE proposals (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    gateway_reference text NOT NULL,
    brand text NOT NULL,
    error_code text,
    provider_reference text,
    reason text NOT NULL,
    evidence text NOT NULL,
    proposed_by text NOT NULL,
    proposed_at bigint NOT NULL,
    state text NOT NULL,
    decided_by text,
    decided_at bigint,
    remark text
);

CREATE INDEX proposals_by_transaction ON proposals (gateway_reference);
CREATE INDEX proposals_by_state ON proposals (state, id);

-- Who did what; rows are only ever added, and each holds the hash of the one before. The head says where it ends.
CREATE TABLE audit (
    number bigint PRIMARY KEY,
    at bigint NOT NULL,
    actor text NOT NULL,
    act text NOT NULL,
    about text NOT NULL,
    detail text NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL
);

CREATE INDEX audit_by_subject ON audit (about, number);

CREATE TABLE audit_head (
    number bigint NOT NULL,
    hash text NOT NULL
);

INSERT INTO audit_head (number, hash) VALUES (0, repeat('0', 64));

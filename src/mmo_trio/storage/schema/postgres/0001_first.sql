-- A payment. `order_row`, `progress` and `object` each begin with their own checksum; see rows.py.
-- The other columns repeat what queries look for.
CREATE TABLE transactions (
    brand text NOT NULL,
    gateway_reference text NOT NULL,
    type text NOT NULL,
    method text NOT NULL,
    status text NOT NULL,
    created_at bigint NOT NULL,
    version integer NOT NULL,
    wake_at bigint,
    page_token text,
    order_row bytea NOT NULL,
    progress bytea NOT NULL,
    object bytea NOT NULL,
    PRIMARY KEY (brand, gateway_reference)
);

CREATE INDEX transactions_by_reference ON transactions (gateway_reference);
CREATE INDEX transactions_by_creation ON transactions (brand, created_at, gateway_reference);
CREATE INDEX transactions_by_wake ON transactions (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX transactions_by_page ON transactions (page_token) WHERE page_token IS NOT NULL;

-- Every use of a merchantReference, counted from 1; the newest counts (C12). Two nodes that use one at the same moment
-- claim the same number: the second fails.
CREATE TABLE reference_uses (
    brand text NOT NULL,
    merchant_reference text NOT NULL,
    nth integer NOT NULL,
    at bigint NOT NULL,
    gateway_reference text NOT NULL,
    PRIMARY KEY (brand, merchant_reference, nth)
);

CREATE INDEX reference_uses_by_reference ON reference_uses (merchant_reference);

-- Offline deposits that became transactions (S4). The one key without a brand: money that arrived is the same money,
-- whichever brand it was believed to be for.
CREATE TABLE deposits (
    provider text NOT NULL,
    provider_reference text NOT NULL,
    brand text NOT NULL,
    gateway_reference text NOT NULL,
    PRIMARY KEY (provider, provider_reference)
);

-- Processes that take on kept intents. One is alive while its lease runs, by this server's clock; number 0 is nobody,
-- to whom administration leaves what it schedules.
CREATE TABLE holders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    alive_until timestamptz NOT NULL
);

INSERT INTO holders (id, alive_until) OVERRIDING SYSTEM VALUE VALUES (0, '-infinity');

-- Kept intents that are not concluded.
CREATE TABLE intents (
    brand text NOT NULL,
    gateway_reference text NOT NULL,
    kind text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    holder bigint NOT NULL,
    PRIMARY KEY (brand, gateway_reference, kind)
);

CREATE INDEX intents_by_holder ON intents (holder, id);
CREATE INDEX intents_by_reference ON intents (gateway_reference);

-- What became of callbacks (K3, K4).
CREATE TABLE callbacks (
    brand text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    gateway_reference text NOT NULL,
    outcome text NOT NULL,
    url text NOT NULL,
    status integer,
    duration_ms bigint NOT NULL,
    detail text NOT NULL,
    at bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (brand, id)
);

CREATE INDEX callbacks_by_transaction ON callbacks (gateway_reference);
CREATE INDEX callbacks_by_recording ON callbacks (id);

-- The suspense book (S4, S5). `identity` is a digest of provider, reason, gateway_reference and told.
CREATE TABLE suspense (
    identity bytea PRIMARY KEY,
    id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    reason text NOT NULL,
    provider text NOT NULL,
    told text NOT NULL,
    gateway_reference text,
    brand text,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    times integer NOT NULL,
    closed_at bigint,
    closed_by text,
    note text
);

CREATE INDEX suspense_open ON suspense (first_at, id) WHERE closed_at IS NULL;

-- Who did what, when, from where to where; rows are only ever added. The brand is '' where there is none.
CREATE TABLE journal (
    brand text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    at bigint NOT NULL,
    what text NOT NULL,
    actor text NOT NULL,
    gateway_reference text,
    stage_before text,
    stage_after text,
    detail text NOT NULL,
    PRIMARY KEY (brand, id)
);

CREATE INDEX journal_by_transaction ON journal (gateway_reference) WHERE gateway_reference IS NOT NULL;

CREATE TABLE brands (
    id text PRIMARY KEY,
    brand text NOT NULL
);

-- API keys: a digest to find them by, sealed text to send back in callbacks (A4, A5).
CREATE TABLE api_keys (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    brand text NOT NULL REFERENCES brands (id) ON DELETE CASCADE,
    digest bytea NOT NULL UNIQUE,
    sealed bytea NOT NULL,
    added_at bigint NOT NULL,
    retired_at bigint
);

CREATE INDEX api_keys_by_brand ON api_keys (brand, id);

-- One row for each commit of late, by which it is learnt whether a commit whose answer was lost took place; `is_void`
-- says that it didn't and never will. The latest stamp stays.
CREATE TABLE batches (
    id uuid PRIMARY KEY,
    stamp bigint NOT NULL,
    is_void boolean NOT NULL DEFAULT false,
    touched_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX batches_by_stamp ON batches (stamp);
CREATE INDEX batches_by_age ON batches (touched_at);

-- One row: nothing is created at or below this instant any more, so that a walk over earlier records is complete (R7).
CREATE TABLE horizon (
    at bigint NOT NULL
);

INSERT INTO horizon (at) VALUES (0);

-- Called inside a commit: what was decided from isn't what is stored any more.
CREATE FUNCTION still_so(is_so boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF is_so IS NOT TRUE THEN
        RAISE EXCEPTION 'what was decided from has changed' USING ERRCODE = 'MMO01';
    END IF;
END
$$;

-- A payment. `order_row`, `progress` and `object` each begin with their own checksum; see rows.py.
-- The other columns repeat what queries look for. New rows have growing ids, in the order of created_at (R7).
CREATE TABLE transactions (
    id INTEGER PRIMARY KEY,
    gateway_reference TEXT NOT NULL UNIQUE,
    brand TEXT NOT NULL,
    type TEXT NOT NULL,
    method TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    wake_at INTEGER,
    page_token TEXT,
    order_row BLOB NOT NULL,
    progress BLOB NOT NULL,
    object BLOB NOT NULL
) STRICT;

CREATE INDEX transactions_by_creation ON transactions (brand, created_at, gateway_reference);
CREATE INDEX transactions_by_wake ON transactions (wake_at) WHERE wake_at IS NOT NULL;
CREATE UNIQUE INDEX transactions_by_page ON transactions (page_token) WHERE page_token IS NOT NULL;

-- Every use of a merchantReference; the newest counts (C12).
CREATE TABLE reference_uses (
    merchant_reference TEXT NOT NULL,
    brand TEXT NOT NULL,
    at INTEGER NOT NULL,
    gateway_reference TEXT NOT NULL,
    PRIMARY KEY (merchant_reference, brand, at)
) STRICT, WITHOUT ROWID;

-- Offline deposits that became transactions (S4).
CREATE TABLE deposits (
    provider TEXT NOT NULL,
    provider_reference TEXT NOT NULL,
    gateway_reference TEXT NOT NULL,
    PRIMARY KEY (provider, provider_reference)
) STRICT, WITHOUT ROWID;

-- Kept intents that are not concluded. Ids are never used twice: what was handed out once lies below a mark.
CREATE TABLE intents (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    gateway_reference TEXT NOT NULL,
    kind TEXT NOT NULL,
    is_held INTEGER NOT NULL,
    UNIQUE (gateway_reference, kind)
) STRICT;

CREATE INDEX intents_of_nobody ON intents (id) WHERE is_held = 0;

-- What became of callbacks (K3, K4).
CREATE TABLE callbacks (
    id INTEGER PRIMARY KEY,
    gateway_reference TEXT NOT NULL,
    brand TEXT NOT NULL,
    outcome TEXT NOT NULL,
    url TEXT NOT NULL,
    status INTEGER,
    duration_ms INTEGER NOT NULL,
    detail TEXT NOT NULL,
    at INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

CREATE INDEX callbacks_by_transaction ON callbacks (gateway_reference);
CREATE INDEX callbacks_by_brand ON callbacks (brand);

-- The suspense book (S4, S5). `identity` is a digest of provider, reason, gateway_reference and told.
CREATE TABLE suspense (
    id INTEGER PRIMARY KEY,
    identity BLOB NOT NULL UNIQUE,
    reason TEXT NOT NULL,
    provider TEXT NOT NULL,
    told TEXT NOT NULL,
    gateway_reference TEXT,
    brand TEXT,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    times INTEGER NOT NULL,
    closed_at INTEGER,
    closed_by TEXT,
    note TEXT
) STRICT;

CREATE INDEX suspense_open ON suspense (id) WHERE closed_at IS NULL;

-- Who did what, when, from where to where; rows are only ever added.
CREATE TABLE journal (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    what TEXT NOT NULL,
    actor TEXT NOT NULL,
    gateway_reference TEXT,
    brand TEXT,
    stage_before TEXT,
    stage_after TEXT,
    detail TEXT NOT NULL
) STRICT;

CREATE INDEX journal_by_transaction ON journal (gateway_reference) WHERE gateway_reference IS NOT NULL;

CREATE TABLE brands (
    id TEXT PRIMARY KEY,
    brand TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- API keys: a digest to find them by, sealed text to send back in callbacks (A4, A5).
CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    brand TEXT NOT NULL REFERENCES brands (id) ON DELETE CASCADE,
    digest BLOB NOT NULL UNIQUE,
    sealed BLOB NOT NULL,
    added_at INTEGER NOT NULL,
    retired_at INTEGER
) STRICT;

CREATE INDEX api_keys_by_brand ON api_keys (brand);

-- One row: the latest instant that is stored anywhere.
CREATE TABLE latest_stamp (
    at INTEGER NOT NULL
) STRICT;

INSERT INTO latest_stamp (at) VALUES (0);

-- A payment. `order_row`, `progress` and `object` each begin with their own checksum; see sql/serialization.py. The other
-- columns repeat what queries look for. New rows have growing ids, in the order of created_at (R7).
CREATE TABLE transactions (
    id INTEGER PRIMARY KEY,
    gateway_reference TEXT NOT NULL UNIQUE,
    brand TEXT NOT NULL,
    type TEXT NOT NULL,
    method TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    is_simulated INTEGER NOT NULL,
    page_token TEXT,
    msisdn TEXT,
    reconciliation_reference TEXT,
    order_row BLOB NOT NULL,
    wake_at INTEGER,
    provider_receipt TEXT,
    status TEXT NOT NULL,
    version INTEGER NOT NULL,
    progress BLOB NOT NULL,
    object BLOB NOT NULL
) STRICT;

CREATE INDEX transactions_by_creation ON transactions (brand, created_at, gateway_reference);
CREATE INDEX transactions_by_wake ON transactions (wake_at) WHERE wake_at IS NOT NULL;
CREATE UNIQUE INDEX transactions_by_page ON transactions (page_token) WHERE page_token IS NOT NULL;

-- By what operators look for a payment, of which some repeat only the end of its reference.
CREATE INDEX transactions_by_ending ON transactions (substr(gateway_reference, -12));
CREATE INDEX transactions_by_msisdn ON transactions (msisdn, created_at) WHERE msisdn IS NOT NULL;
CREATE INDEX transactions_by_reconciliation ON transactions (reconciliation_reference, created_at)
    WHERE reconciliation_reference IS NOT NULL;
CREATE INDEX transactions_by_receipt ON transactions (provider_receipt, created_at)
    WHERE provider_receipt IS NOT NULL;

-- All brands' payments, and those that are pending, in the order of their creation.
CREATE INDEX transactions_by_time ON transactions (created_at, gateway_reference);
CREATE INDEX transactions_pending ON transactions (created_at, gateway_reference) WHERE wake_at IS NOT NULL;

-- Every use of a merchantReference; the newest counts (C12). `earlier` says how the payments before under it ended, as all
-- of them had: 'success' when one was paid, 'failed' when none was. `is_lost` says of a use that a
-- restored store lacks its payment.
CREATE TABLE reference_uses (
    merchant_reference TEXT NOT NULL,
    brand TEXT NOT NULL,
    at INTEGER NOT NULL,
    gateway_reference TEXT NOT NULL,
    earlier TEXT NOT NULL,
    is_lost INTEGER NOT NULL,
    PRIMARY KEY (merchant_reference, brand, at)
) STRICT, WITHOUT ROWID;

-- Offline deposits that became transactions; each stays, so that its receipt is never booked again (S4).
CREATE TABLE deposits (
    provider TEXT NOT NULL,
    provider_reference TEXT NOT NULL,
    gateway_reference TEXT NOT NULL,
    PRIMARY KEY (provider, provider_reference)
) STRICT, WITHOUT ROWID;

-- What operators' unsigned notifications say of money that was received, until it is settled; a settled claim stays, so
-- that its receipt settles nothing else (S4). `payment` is the one that its bill reference names.
CREATE TABLE deposit_claims (
    provider TEXT NOT NULL, receipt TEXT NOT NULL, version INTEGER NOT NULL, wake_at INTEGER, payment TEXT,
    claim BLOB NOT NULL,
    PRIMARY KEY (provider, receipt)
) STRICT, WITHOUT ROWID;

CREATE INDEX deposit_claims_by_wake ON deposit_claims (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX deposit_claims_by_payment ON deposit_claims (payment) WHERE wake_at IS NOT NULL AND payment IS NOT NULL;

-- Money of payments that staff ask back: all reversals of a payment are one row, as their sum is limited. `asked_at` is
-- that of the newest, `wake_at` the earliest, `unfinished` counts those that have not ended, and `changed_at` says when
-- one was asked for or ended last: merchants list them by it.
CREATE TABLE reversals (
    payment TEXT PRIMARY KEY, version INTEGER NOT NULL, asked_at INTEGER NOT NULL, wake_at INTEGER,
    unfinished INTEGER NOT NULL, brand TEXT NOT NULL, changed_at INTEGER NOT NULL, reversals BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX reversals_by_wake ON reversals (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX reversals_by_time ON reversals (asked_at, payment);
CREATE INDEX reversals_unfinished ON reversals (asked_at, payment) WHERE unfinished > 0;
CREATE INDEX reversals_by_brand ON reversals (brand, changed_at, payment);

-- When the payments to a provider's account were last listed, and until when they are known.
CREATE TABLE deposit_listings (
    provider TEXT PRIMARY KEY, begun_at INTEGER NOT NULL, listed_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Kept intents that are not concluded. Ids are never used twice: what was handed out once lies below a mark. A question
-- about a payment that has ended has the last three: the own time of the oldest that had no answer, the text of the hints
-- that caused it, and the id that the provider gave the payment.
CREATE TABLE intents (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    gateway_reference TEXT NOT NULL,
    kind TEXT NOT NULL,
    is_held INTEGER NOT NULL,
    since INTEGER,
    hint TEXT,
    provider_reference TEXT,
    UNIQUE (gateway_reference, kind)
) STRICT;

CREATE INDEX intents_of_nobody ON intents (id) WHERE is_held = 0;

-- What became of callbacks (K3, K4).
CREATE TABLE callbacks (
    id INTEGER PRIMARY KEY, gateway_reference TEXT NOT NULL, brand TEXT NOT NULL, outcome TEXT NOT NULL,
    url TEXT NOT NULL, status INTEGER, duration_ms INTEGER NOT NULL, detail TEXT NOT NULL, at INTEGER NOT NULL
) STRICT;

CREATE INDEX callbacks_by_transaction ON callbacks (gateway_reference);
CREATE INDEX callbacks_by_brand ON callbacks (brand);
CREATE INDEX callbacks_failed ON callbacks (id) WHERE outcome <> 'delivered';

-- The bodies of merchants' responses to callbacks, where there was one; `at` repeats that of the callback. They are kept
-- for a shorter time.
CREATE TABLE callback_bodies (
    at INTEGER NOT NULL, brand TEXT NOT NULL, gateway_reference TEXT NOT NULL, body BLOB NOT NULL
) STRICT;

CREATE INDEX callback_bodies_by_time ON callback_bodies (at);

-- The suspense book (S4, S5). `identity` is a digest of provider, reason, gateway_reference and told.
CREATE TABLE suspense (
    id INTEGER PRIMARY KEY, identity BLOB NOT NULL UNIQUE, reason TEXT NOT NULL, provider TEXT NOT NULL,
    told TEXT NOT NULL, gateway_reference TEXT, brand TEXT, first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL, times INTEGER NOT NULL, closed_at INTEGER, closed_by TEXT, note TEXT
) STRICT;

CREATE INDEX suspense_open ON suspense (id) WHERE closed_at IS NULL;
CREATE INDEX suspense_by_transaction ON suspense (gateway_reference) WHERE gateway_reference IS NOT NULL;

-- Who did what, when, from where to where; rows are only ever added.
CREATE TABLE journal (
    id INTEGER PRIMARY KEY, at INTEGER NOT NULL, what TEXT NOT NULL, actor TEXT NOT NULL,
    gateway_reference TEXT, brand TEXT, stage_before TEXT, stage_after TEXT, detail TEXT NOT NULL
) STRICT;

CREATE INDEX journal_by_transaction ON journal (gateway_reference) WHERE gateway_reference IS NOT NULL;

CREATE TABLE brands (id TEXT PRIMARY KEY, brand TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- API keys: a digest to find them by, sealed text to send back in callbacks (A4, A5). Nothing is sent any more for payments
-- that a leaked key made.
CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT, brand TEXT NOT NULL REFERENCES brands (id) ON DELETE CASCADE,
    digest BLOB NOT NULL UNIQUE, sealed BLOB NOT NULL, added_at INTEGER NOT NULL, retired_at INTEGER,
    leaked_at INTEGER
) STRICT;

CREATE INDEX api_keys_by_brand ON api_keys (brand);

-- Brands whose payments are not submitted any more, until staff release them.
CREATE TABLE brand_holds (
    brand TEXT PRIMARY KEY, held_at INTEGER NOT NULL, held_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What brands use of their limits: pending payments (day 0), and the amounts of a day, counted since 1970-01-01. Only
-- brands with limits have rows.
CREATE TABLE brand_usage (
    brand TEXT NOT NULL, counter TEXT NOT NULL, day INTEGER NOT NULL, amount INTEGER NOT NULL,
    PRIMARY KEY (brand, counter)
) STRICT, WITHOUT ROWID;

-- Changes of brands that a user proposes and another one decides on, with both versions of the brand.
CREATE TABLE configuration_changes (
    id INTEGER PRIMARY KEY, brand TEXT NOT NULL, version_before TEXT NOT NULL, version_after TEXT NOT NULL,
    reason TEXT NOT NULL, proposed_by TEXT NOT NULL, proposed_at INTEGER NOT NULL, state TEXT NOT NULL,
    decided_by TEXT, decided_at INTEGER, remark TEXT, reverted_by TEXT, reverted_at INTEGER
) STRICT;

CREATE INDEX configuration_changes_by_brand ON configuration_changes (brand, id);
CREATE INDEX configuration_changes_by_state ON configuration_changes (state, id);

-- Requests that limits or flows of a brand refused, for the back-test of a changed configuration: a bounded number for each
-- brand and day, without personal data. `minor` is a number, which may be larger than what an integer of the database holds.
CREATE TABLE refused_requests (
    gateway_reference TEXT PRIMARY KEY, brand TEXT NOT NULL, at INTEGER NOT NULL, cause TEXT NOT NULL,
    operation TEXT NOT NULL, method TEXT NOT NULL, country TEXT NOT NULL, minor TEXT NOT NULL,
    currency TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX refused_requests_by_brand ON refused_requests (brand, at, gateway_reference);
CREATE INDEX refused_requests_by_time ON refused_requests (at, gateway_reference);

-- How many there were on each day, by UTC, and how many of them are in the table above.
CREATE TABLE refusal_days (
    brand TEXT NOT NULL, day INTEGER NOT NULL, times INTEGER NOT NULL, recorded INTEGER NOT NULL,
    PRIMARY KEY (brand, day)
) STRICT, WITHOUT ROWID;

-- Providers that a person has closed for new payments.
CREATE TABLE closed_providers (
    name TEXT PRIMARY KEY, closed_at INTEGER NOT NULL, closed_by TEXT NOT NULL, reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What processes and commands tell each other about accounts with providers, such as what the last check has found.
CREATE TABLE provider_notes (
    provider TEXT NOT NULL, topic TEXT NOT NULL, subject TEXT NOT NULL, at INTEGER NOT NULL, content TEXT NOT NULL,
    PRIMARY KEY (provider, topic, subject)
) STRICT, WITHOUT ROWID;

-- What was in our accounts with providers, by the gateway's own time.
CREATE TABLE provider_balances (
    provider TEXT NOT NULL, account TEXT NOT NULL, at INTEGER NOT NULL, minor INTEGER NOT NULL, currency TEXT NOT NULL,
    is_float INTEGER NOT NULL,
    PRIMARY KEY (provider, account, at)
) STRICT, WITHOUT ROWID;

CREATE INDEX provider_balances_by_time ON provider_balances (at);

-- The merchants' breakers as they were kept last, each with its own checksum; see sql/serialization.py (K5).
CREATE TABLE breakers (brand TEXT PRIMARY KEY, breaker BLOB NOT NULL) STRICT, WITHOUT ROWID;

-- When merchants' breakers opened and closed.
CREATE TABLE breaker_changes (
    brand TEXT NOT NULL, at INTEGER NOT NULL, state TEXT NOT NULL,
    PRIMARY KEY (brand, at)
) STRICT, WITHOUT ROWID;

CREATE INDEX breaker_changes_by_time ON breaker_changes (at);

-- How many payments there were, and how much money in minor units, counted in the commit that makes or ends them; those
-- of a quarter of an hour by brand, provider and status alone.
CREATE TABLE figures (
    span INTEGER NOT NULL, began_at INTEGER NOT NULL, brand TEXT NOT NULL, method TEXT NOT NULL,
    provider TEXT NOT NULL, is_simulated INTEGER NOT NULL, status TEXT NOT NULL, latency_s INTEGER NOT NULL,
    type TEXT NOT NULL, currency TEXT NOT NULL, error_code TEXT NOT NULL, times INTEGER NOT NULL,
    minor INTEGER NOT NULL,
    PRIMARY KEY (span, began_at, brand, method, provider, is_simulated, status, latency_s, type, currency,
        error_code)
) STRICT, WITHOUT ROWID;

-- People who may sign in at the console, and their browsers.
CREATE TABLE console_users (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, password_hash TEXT NOT NULL, added_at INTEGER NOT NULL,
    disabled_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    digest BLOB PRIMARY KEY, user_name TEXT NOT NULL, began_at INTEGER NOT NULL, seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What users have typed, sealed: searches, and forms that were sent after the end of their session.
CREATE TABLE console_inputs (
    user_name TEXT NOT NULL, id TEXT NOT NULL, sealed BLOB NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (user_name, id)
) STRICT, WITHOUT ROWID;

-- Attempts to sign in of the last minutes that have failed, or whose end is not known yet, by the name that was given and
-- the network of the address.
CREATE TABLE sign_in_attempts (name TEXT NOT NULL, network TEXT NOT NULL, at INTEGER NOT NULL) STRICT;

CREATE INDEX sign_in_attempts_by_name ON sign_in_attempts (name, at);
CREATE INDEX sign_in_attempts_by_network ON sign_in_attempts (network, at);
CREATE INDEX sign_in_attempts_by_time ON sign_in_attempts (at);

-- The second factors of console users. `sealed` is the secret in use, `pending` one that is not confirmed yet;
-- `last_step` is the last accepted step of time. A recovery code is removed when it is used.
CREATE TABLE second_factors (
    user_name TEXT PRIMARY KEY, sealed BLOB, confirmed_at INTEGER, last_step INTEGER NOT NULL DEFAULT 0,
    pending BLOB, wrong_codes INTEGER NOT NULL DEFAULT 0, wrong_codes_since INTEGER, locked_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE recovery_codes (
    user_name TEXT NOT NULL, digest BLOB NOT NULL,
    PRIMARY KEY (user_name, digest)
) STRICT, WITHOUT ROWID;

-- Payments that a user wants to end by hand.
CREATE TABLE proposals (
    id INTEGER PRIMARY KEY, gateway_reference TEXT NOT NULL, brand TEXT NOT NULL, error_code TEXT,
    provider_reference TEXT, reason TEXT NOT NULL, evidence TEXT NOT NULL, proposed_by TEXT NOT NULL,
    proposed_at INTEGER NOT NULL, state TEXT NOT NULL, decided_by TEXT, decided_at INTEGER, remark TEXT
) STRICT;

CREATE INDEX proposals_by_transaction ON proposals (gateway_reference);
CREATE UNIQUE INDEX proposals_unfinished ON proposals (gateway_reference) WHERE state IN ('open', 'approved');
CREATE INDEX proposals_by_state ON proposals (state, id);

-- Who did what; rows are only ever added, and each holds the hash of the one before. `mac` is an HMAC of the number and the
-- hash, `key_id` names its key. The head says where the log ends.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY, at INTEGER NOT NULL, actor TEXT NOT NULL, act TEXT NOT NULL,
    about TEXT NOT NULL, detail TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL,
    key_id TEXT NOT NULL, mac TEXT NOT NULL
) STRICT;

CREATE INDEX audit_by_subject ON audit (about, number);
CREATE INDEX audit_by_actor ON audit (actor, number);
CREATE INDEX audit_changes ON audit (number)
    WHERE act NOT IN ('personal_data_viewed', 'signed_in', 'signed_out', 'sign_in_failed');

CREATE TABLE audit_head (number INTEGER NOT NULL, hash TEXT NOT NULL) STRICT;

INSERT INTO audit_head (number, hash) VALUES (0, '0000000000000000000000000000000000000000000000000000000000000000');

-- The audit keys of earlier master keys, sealed with the present one.
CREATE TABLE audit_keys (id TEXT PRIMARY KEY, sealed BLOB NOT NULL) STRICT, WITHOUT ROWID;

-- Which master keys the secrets of this store are sealed with, by their ids; two while one replaces the other, which has
-- ended then. A process with other master keys can't serve this store.
CREATE TABLE master_keys (
    generation INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, added_at INTEGER NOT NULL, ended_at INTEGER
) STRICT;

-- What the serving process keeps in memory of brands, keys and closed providers. The generation grows with each change of
-- these, in the transaction that makes it; a process that finds another one reads them again. `process` is the one that
-- serves or served last, and `in_use` the generation that it uses; NULL before one has said it.
CREATE TABLE configuration (generation INTEGER NOT NULL, process TEXT, in_use INTEGER) STRICT;

INSERT INTO configuration (generation) VALUES (1);

-- One row: the latest instant that is stored anywhere.
CREATE TABLE latest_stamp (at INTEGER NOT NULL) STRICT;

INSERT INTO latest_stamp (at) VALUES (0);

-- From what a later process continues the gateway's own time: the clocks as they were together, for each start of the
-- machine.
CREATE TABLE clock_records (
    boot_id TEXT PRIMARY KEY, monotonic INTEGER NOT NULL, time INTEGER NOT NULL, utc INTEGER NOT NULL,
    served_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row: which store this is, and how far it has come (`mmo_sansio.resilience.store_mark`). Commits of serving processes
-- raise the epoch, at most once a second, and each commit of a command raises the other one. `former_ids` are what it was
-- named before it was restored from a backup, with spaces between. `log_name` and `log_epoch` say which write-ahead log was
-- seen last, and an epoch that the database file had before that was begun.
CREATE TABLE store_state (
    id TEXT NOT NULL, epoch INTEGER NOT NULL, command_epoch INTEGER NOT NULL, raised_at INTEGER NOT NULL,
    former_ids TEXT NOT NULL, log_name TEXT NOT NULL DEFAULT '', log_epoch INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO store_state (id, epoch, command_epoch, raised_at, former_ids) VALUES (lower(hex(randomblob(16))), 0, 0, 0, '');

-- Brands of a store that was restored, until staff have closed the gap behind its backup: they take no payments.
CREATE TABLE restored_brands (brand TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- Where the walks over old rows go on, and when they last ended.
CREATE TABLE retention_state (what TEXT PRIMARY KEY, position TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- The one process that works at it, until when.
CREATE TABLE retention_lease (holder TEXT NOT NULL, held_until INTEGER NOT NULL) STRICT;

INSERT INTO retention_lease (holder, held_until) VALUES ('', 0);

-- What PostgreSQL has as tables of their own, by the same names.
CREATE VIEW wakes AS
    SELECT brand, gateway_reference, created_at, wake_at FROM transactions WHERE wake_at IS NOT NULL;

CREATE VIEW receipts AS
    SELECT provider_receipt AS receipt, brand, gateway_reference FROM transactions WHERE provider_receipt IS NOT NULL;

CREATE VIEW counts AS
    SELECT span, began_at, brand, method, provider, is_simulated, status, latency_s, type, currency, error_code,
        times, minor
    FROM figures;

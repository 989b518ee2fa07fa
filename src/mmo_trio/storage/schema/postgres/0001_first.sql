-- A payment. `order_row`, `progress` and `object` each begin with their own checksum; see sql/serialization.py. The other
-- columns repeat what queries look for. A step of a payment is a HOT update: no index holds, and no index condition reads,
-- what a step changes. So when a pending payment wakes, and the receipts of providers, are in tables of their own; pages
-- are left half empty, for the steps of their payments; and what a step changes comes after `order_row`, which therefore
-- isn't part of what the write-ahead log repeats. `object` is empty while a payment is pending.
--
-- Each payment is written again when it ends and when it is masked. By the server's default a fifth of a table has to be
-- dead before its space is used again, of 10 million rows 2 million; with the factor here a fiftieth. The keys begin with the reference: one index finds a row by it with the brand and without it.
CREATE TABLE transactions (
    gateway_reference text NOT NULL,
    brand text NOT NULL,
    type text NOT NULL,
    method text NOT NULL,
    created_at bigint NOT NULL,
    is_simulated smallint NOT NULL,
    page_token text,
    msisdn text,
    reconciliation_reference text,
    order_row bytea NOT NULL,
    status text NOT NULL,
    version integer NOT NULL,
    progress bytea NOT NULL,
    object bytea NOT NULL,
    PRIMARY KEY (gateway_reference, brand)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX transactions_by_creation ON transactions (brand, created_at, gateway_reference);
CREATE INDEX transactions_by_page ON transactions (page_token) WHERE page_token IS NOT NULL;

-- By what operators look for a payment, of which some repeat only the end of its reference; and all brands' payments in the
-- order of their creation.
CREATE INDEX transactions_by_ending ON transactions (right(gateway_reference, 12));
CREATE INDEX transactions_by_msisdn ON transactions (msisdn, created_at) WHERE msisdn IS NOT NULL;
CREATE INDEX transactions_by_reconciliation ON transactions (reconciliation_reference, created_at)
    WHERE reconciliation_reference IS NOT NULL;
CREATE INDEX transactions_by_time ON transactions (created_at, gateway_reference);

-- When pending payments wake; each has one row, which is found by its `wake_at`.
CREATE TABLE wakes (
    brand text NOT NULL,
    gateway_reference text NOT NULL,
    created_at bigint NOT NULL,
    wake_at bigint NOT NULL
);

-- Which payments wake next; and which have been pending for long.
CREATE INDEX wakes_by_time ON wakes (wake_at);
CREATE INDEX wakes_by_creation ON wakes (created_at);

-- Providers' receipts, by which staff look for a payment.
CREATE TABLE receipts (brand text NOT NULL, gateway_reference text NOT NULL, receipt text NOT NULL);

CREATE INDEX receipts_by_receipt ON receipts (receipt);

-- Every use of a merchantReference, counted from 1; the newest counts (C12). Two nodes that use one at the same moment
-- claim the same number: the second fails. `earlier` says how the payments before under it ended, as all of them had:
-- 'success' when one was paid, 'failed' when none was. `is_lost` says of a use that a restored store
-- lacks its payment.
CREATE TABLE reference_uses (
    brand text NOT NULL,
    merchant_reference text NOT NULL,
    nth integer NOT NULL,
    at bigint NOT NULL,
    gateway_reference text NOT NULL,
    earlier text NOT NULL,
    is_lost boolean NOT NULL,
    PRIMARY KEY (merchant_reference, brand, nth)
);

-- Offline deposits that became transactions; each stays, so that its receipt is never booked again (S4). The one key
-- without a brand: money that arrived is the same money, whichever brand it was believed to be for.
CREATE TABLE deposits (
    provider text NOT NULL,
    provider_reference text NOT NULL,
    brand text NOT NULL,
    gateway_reference text NOT NULL,
    PRIMARY KEY (provider, provider_reference)
);

-- What operators' unsigned notifications say of money that was received, until it is settled; a settled claim stays, so
-- that its receipt settles nothing else (S4). `payment` is the one that its bill reference names.
CREATE TABLE deposit_claims (
    provider text NOT NULL, receipt text NOT NULL, version integer NOT NULL, wake_at bigint, payment text,
    claim bytea NOT NULL,
    PRIMARY KEY (provider, receipt)
);

CREATE INDEX deposit_claims_by_wake ON deposit_claims (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX deposit_claims_by_payment ON deposit_claims (payment) WHERE wake_at IS NOT NULL AND payment IS NOT NULL;

-- Money of payments that staff ask back: all reversals of a payment are one row, as their sum is limited. `asked_at` is
-- that of the newest, `wake_at` the earliest, `unfinished` counts those that have not ended, and `changed_at` says when
-- one was asked for or ended last: merchants list them by it.
CREATE TABLE reversals (
    payment text PRIMARY KEY, version integer NOT NULL, asked_at bigint NOT NULL, wake_at bigint,
    unfinished integer NOT NULL, brand text NOT NULL, changed_at bigint NOT NULL, reversals bytea NOT NULL
);

CREATE INDEX reversals_by_wake ON reversals (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX reversals_by_time ON reversals (asked_at, payment);
CREATE INDEX reversals_unfinished ON reversals (asked_at, payment) WHERE unfinished > 0;
CREATE INDEX reversals_by_brand ON reversals (brand, changed_at, payment);

-- When the payments to a provider's account were last listed, and until when they are known.
CREATE TABLE deposit_listings (
    provider text PRIMARY KEY, begun_at bigint NOT NULL, listed_until bigint NOT NULL
);

-- Processes that take on kept intents. One is alive while its lease runs, by this server's clock; number 0 is nobody, to
-- whom administration leaves what it schedules. `is_over` is said of a holder whose lease has ended, once and for all:
-- nobody takes a channel before it is said of its holder. `configuration` is the generation that the process uses; NULL
-- for one that has not said it yet.
CREATE TABLE holders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    alive_until timestamptz NOT NULL,
    is_over boolean NOT NULL DEFAULT false,
    process text,
    configuration bigint
);

INSERT INTO holders (id, alive_until) OVERRIDING SYSTEM VALUE VALUES (0, '-infinity');

-- The leases that run, among all that ended in the last 30 days: they are asked for several times a second.
CREATE INDEX holders_running ON holders (id) WHERE NOT is_over;

-- Kept intents that are not concluded: few, and found by their payment. `fence` is the one under which a callback was
-- claimed last, or how often a question was asked anew; 0: unclaimed, or once. A question about a payment that has ended
-- has the last three: the own time of the oldest that had no answer, the text of the hints that caused it, and the id that
-- the provider gave the payment.
CREATE TABLE intents (
    gateway_reference text NOT NULL,
    kind text NOT NULL,
    brand text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    holder bigint NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    since bigint,
    hint text,
    provider_reference text,
    PRIMARY KEY (gateway_reference, kind, brand)
);

CREATE INDEX intents_by_holder ON intents (holder, id);
CREATE INDEX intents_by_channel ON intents (brand, id) WHERE kind = 'callback';

-- Merchants' channels: who sends a merchant's callbacks, under which fence, and the merchant's breaker as it was kept last
-- (K3, K5). Holder 0 is nobody. A fence never falls.
CREATE TABLE channels (brand text PRIMARY KEY, holder bigint NOT NULL, fence bigint NOT NULL, breaker bytea);

-- When merchants' breakers opened and closed.
CREATE TABLE breaker_changes (brand text NOT NULL, at bigint NOT NULL, state text NOT NULL, PRIMARY KEY (brand, at));

CREATE INDEX breaker_changes_by_time ON breaker_changes (at);

-- What only ages is partitioned by time, so that ageing is dropping a table: see partitions.py, which makes and drops the
-- partitions. The partition for what has none of its own is always there, so no insert fails for the lack of one.

-- Who did what, when, from where to where; rows are only ever added. The brand is '' where there is none. It has no key:
-- nothing refers to a line.
CREATE SEQUENCE journal_ids;

CREATE TABLE journal (
    brand text NOT NULL, id bigint NOT NULL DEFAULT nextval('journal_ids'), at bigint NOT NULL,
    what text NOT NULL, actor text NOT NULL, gateway_reference text, stage_before text, stage_after text,
    detail text NOT NULL
) PARTITION BY RANGE (at);

ALTER SEQUENCE journal_ids OWNED BY journal.id;
CREATE TABLE journal_default PARTITION OF journal DEFAULT;

-- The timeline of a payment, and whether a payment has one (`mmo db check`).
CREATE INDEX journal_by_transaction ON journal (gateway_reference) WHERE gateway_reference IS NOT NULL;

-- What became of callbacks (K3, K4).
CREATE SEQUENCE callback_ids;

CREATE TABLE callbacks (
    brand text NOT NULL, id bigint NOT NULL DEFAULT nextval('callback_ids'), gateway_reference text NOT NULL,
    outcome text NOT NULL, url text NOT NULL, status integer, duration_ms bigint NOT NULL,
    detail text NOT NULL, at bigint NOT NULL
) PARTITION BY RANGE (at);

ALTER SEQUENCE callback_ids OWNED BY callbacks.id;
CREATE TABLE callbacks_default PARTITION OF callbacks DEFAULT;

-- The callbacks of one payment; the newest of all; and the newest that were not delivered.
CREATE INDEX callbacks_by_transaction ON callbacks (gateway_reference);
CREATE INDEX callbacks_by_recording ON callbacks (id);
CREATE INDEX callbacks_failed ON callbacks (id) WHERE outcome <> 'delivered';

-- The bodies of merchants' responses to callbacks, where there was one. Found by `at`, which repeats that of the callback.
-- They are kept for a shorter time.
CREATE TABLE callback_bodies (
    brand text NOT NULL, gateway_reference text NOT NULL, at bigint NOT NULL, body bytea NOT NULL
) PARTITION BY RANGE (at);

CREATE TABLE callback_bodies_default PARTITION OF callback_bodies DEFAULT;
CREATE INDEX callback_bodies_by_time ON callback_bodies (at);

-- The suspense book (S4, S5). `identity` is a digest of provider, reason, gateway_reference and told.
CREATE TABLE suspense (
    identity bytea PRIMARY KEY, id bigint GENERATED ALWAYS AS IDENTITY UNIQUE, reason text NOT NULL,
    provider text NOT NULL, told text NOT NULL, gateway_reference text, brand text, first_at bigint NOT NULL,
    last_at bigint NOT NULL, times integer NOT NULL, closed_at bigint, closed_by text, note text
);

CREATE INDEX suspense_open ON suspense (first_at, id) WHERE closed_at IS NULL;
CREATE INDEX suspense_by_transaction ON suspense (gateway_reference) WHERE gateway_reference IS NOT NULL;

CREATE TABLE brands (id text PRIMARY KEY, brand text NOT NULL);

-- API keys: a digest to find them by, sealed text to send back in callbacks (A4, A5). Nothing is sent any more for payments
-- that a leaked key made.
CREATE TABLE api_keys (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    brand text NOT NULL REFERENCES brands (id) ON DELETE CASCADE, digest bytea NOT NULL UNIQUE,
    sealed bytea NOT NULL, added_at bigint NOT NULL, retired_at bigint, leaked_at bigint
);

CREATE INDEX api_keys_by_brand ON api_keys (brand, id);

-- Brands whose payments are not submitted any more, until staff release them.
CREATE TABLE brand_holds (brand text PRIMARY KEY, held_at bigint NOT NULL, held_by text NOT NULL);

-- What brands use of their limits: pending payments (day 0), and the amounts of a day, counted since 1970-01-01. Only
-- brands with limits have rows.
CREATE TABLE brand_usage (
    brand text NOT NULL, counter text NOT NULL, day bigint NOT NULL, amount bigint NOT NULL,
    PRIMARY KEY (brand, counter)
) WITH (fillfactor = 50);

-- Changes of brands that a user proposes and another one decides on, with both versions of the brand.
CREATE TABLE configuration_changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, brand text NOT NULL, version_before text NOT NULL,
    version_after text NOT NULL, reason text NOT NULL, proposed_by text NOT NULL, proposed_at bigint NOT NULL,
    state text NOT NULL, decided_by text, decided_at bigint, remark text, reverted_by text, reverted_at bigint
);

CREATE INDEX configuration_changes_by_brand ON configuration_changes (brand, id);
CREATE INDEX configuration_changes_by_state ON configuration_changes (state, id);

-- Requests that limits or flows of a brand refused, for the back-test of a changed configuration: a bounded number for each
-- brand and day, without personal data. `minor` is a number, which may be larger than what an integer of the database holds.
CREATE TABLE refused_requests (
    gateway_reference text PRIMARY KEY, brand text NOT NULL, at bigint NOT NULL, cause text NOT NULL,
    operation text NOT NULL, method text NOT NULL, country text NOT NULL, minor text NOT NULL,
    currency text NOT NULL
);

CREATE INDEX refused_requests_by_brand ON refused_requests (brand, at, gateway_reference);
CREATE INDEX refused_requests_by_time ON refused_requests (at, gateway_reference);

-- How many there were on each day, by UTC, and how many of them are in the table above.
CREATE TABLE refusal_days (
    brand text NOT NULL, day bigint NOT NULL, times bigint NOT NULL, recorded bigint NOT NULL,
    PRIMARY KEY (brand, day)
);

-- Providers that a person has closed for new payments.
CREATE TABLE closed_providers (
    name text PRIMARY KEY, closed_at bigint NOT NULL, closed_by text NOT NULL, reason text NOT NULL
);

-- What processes and commands tell each other about accounts with providers, such as what the last check has found.
CREATE TABLE provider_notes (
    provider text NOT NULL, topic text NOT NULL, subject text NOT NULL, at bigint NOT NULL, content text NOT NULL,
    PRIMARY KEY (provider, topic, subject)
);

-- What was in our accounts with providers, by the gateway's own time.
CREATE TABLE provider_balances (
    provider text NOT NULL, account text NOT NULL, at bigint NOT NULL, minor bigint NOT NULL, currency text NOT NULL,
    is_float integer NOT NULL,
    PRIMARY KEY (provider, account, at)
);

CREATE INDEX provider_balances_by_time ON provider_balances (at);

-- How many payments there were, and how much money in minor units, for each span; those of a quarter of an hour by
-- brand, provider and status alone. Each holder has rows of its own, so that no node waits for another.
CREATE TABLE figures (
    span bigint NOT NULL, began_at bigint NOT NULL, brand text NOT NULL, method text NOT NULL,
    provider text NOT NULL, is_simulated smallint NOT NULL, status text NOT NULL, latency_s integer NOT NULL,
    type text NOT NULL, currency text NOT NULL, error_code text NOT NULL,
    holder bigint NOT NULL, times bigint NOT NULL, minor bigint NOT NULL,
    PRIMARY KEY (span, began_at, brand, method, provider, is_simulated, status, latency_s, type, currency,
        error_code, holder)
) WITH (fillfactor = 50);

-- What commits have counted since it was added to `figures`: payments by the shortest span, in which each was created or
-- ended. A commit only adds rows, so no commit waits for another.
CREATE TABLE figure_deltas (
    began_at bigint NOT NULL, brand text NOT NULL, method text NOT NULL, provider text NOT NULL,
    is_simulated smallint NOT NULL, status text NOT NULL, latency_s integer NOT NULL, type text NOT NULL,
    currency text NOT NULL, error_code text NOT NULL, times integer NOT NULL, minor bigint NOT NULL
);

-- The figures as they are now, for each span. Each column has one type in all three parts: a condition on one of several
-- types is not passed on to them, and all figures are read.
CREATE VIEW counts AS
    SELECT span, began_at, brand, method, provider, is_simulated, status, latency_s, type, currency, error_code,
        times, minor
    FROM figures
    UNION ALL
    SELECT span, began_at - mod(began_at, span), brand, method, provider, is_simulated, status, latency_s, type,
        currency, error_code, times::bigint, minor
    FROM figure_deltas CROSS JOIN (VALUES (3600000000), (86400000000)) AS spans (span)
    UNION ALL
    SELECT 900000000::bigint, began_at, brand, ''::text, provider, is_simulated, status, 0, ''::text, ''::text, ''::text,
        times::bigint, minor
    FROM figure_deltas;

-- People who may sign in at the console, and their browsers.
CREATE TABLE console_users (
    name text PRIMARY KEY, role text NOT NULL, password_hash text NOT NULL, added_at bigint NOT NULL,
    disabled_at bigint
);

CREATE TABLE sessions (
    digest bytea PRIMARY KEY, user_name text NOT NULL, began_at bigint NOT NULL, seen_at bigint NOT NULL
);

-- What users have typed, sealed: searches, and forms that were sent after the end of their session.
CREATE TABLE console_inputs (
    user_name text NOT NULL, id text NOT NULL, sealed bytea NOT NULL, at bigint NOT NULL, PRIMARY KEY (user_name, id)
);

-- Attempts to sign in of the last minutes that have failed, or whose end is not known yet, by the name that was given and
-- the network of the address.
CREATE TABLE sign_in_attempts (name text NOT NULL, network text NOT NULL, at bigint NOT NULL);

CREATE INDEX sign_in_attempts_by_name ON sign_in_attempts (name, at);
CREATE INDEX sign_in_attempts_by_network ON sign_in_attempts (network, at);
CREATE INDEX sign_in_attempts_by_time ON sign_in_attempts (at);

-- The second factors of console users. `sealed` is the secret in use, `pending` one that is not confirmed yet;
-- `last_step` is the last accepted step of time. A recovery code is removed when it is used.
CREATE TABLE second_factors (
    user_name text PRIMARY KEY, sealed bytea, confirmed_at bigint, last_step bigint NOT NULL DEFAULT 0,
    pending bytea, wrong_codes bigint NOT NULL DEFAULT 0, wrong_codes_since bigint, locked_at bigint
);

CREATE TABLE recovery_codes (user_name text NOT NULL, digest bytea NOT NULL, PRIMARY KEY (user_name, digest));

-- Payments that a user wants to end by hand.
CREATE TABLE proposals (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, gateway_reference text NOT NULL, brand text NOT NULL,
    error_code text, provider_reference text, reason text NOT NULL, evidence text NOT NULL,
    proposed_by text NOT NULL, proposed_at bigint NOT NULL, state text NOT NULL, decided_by text,
    decided_at bigint, remark text
);

CREATE INDEX proposals_by_transaction ON proposals (gateway_reference);
CREATE UNIQUE INDEX proposals_unfinished ON proposals (gateway_reference) WHERE state IN ('open', 'approved');
CREATE INDEX proposals_by_state ON proposals (state, id);

-- Who did what; rows are only ever added, and each holds the hash of the one before. `mac` is an HMAC of the number and the
-- hash, `key_id` names its key. The head says where the log ends.
CREATE TABLE audit (
    number bigint PRIMARY KEY, at bigint NOT NULL, actor text NOT NULL, act text NOT NULL, about text NOT NULL,
    detail text NOT NULL, previous text NOT NULL, hash text NOT NULL, key_id text NOT NULL, mac text NOT NULL
);

CREATE INDEX audit_by_subject ON audit (about, number);
CREATE INDEX audit_by_actor ON audit (actor, number);
CREATE INDEX audit_changes ON audit (number)
    WHERE act NOT IN ('personal_data_viewed', 'signed_in', 'signed_out', 'sign_in_failed');

CREATE TABLE audit_head (number bigint NOT NULL, hash text NOT NULL);

INSERT INTO audit_head (number, hash) VALUES (0, repeat('0', 64));

-- The audit keys of earlier master keys, sealed with the present one.
CREATE TABLE audit_keys (id text PRIMARY KEY, sealed bytea NOT NULL);

-- Which master keys the secrets of this store are sealed with, by their ids; two while one replaces the other, which has
-- ended then. A process with other master keys can't serve this store.
CREATE TABLE master_keys (
    generation bigint PRIMARY KEY, id text NOT NULL UNIQUE, added_at bigint NOT NULL, ended_at bigint
);

-- What processes keep in memory of brands, keys and closed providers. The generation grows with each change of these, in
-- the transaction that makes it; a process that finds another one reads them again.
CREATE TABLE configuration (generation bigint NOT NULL);

INSERT INTO configuration (generation) VALUES (1);

-- One row for each commit of late, by which it is learnt whether a commit whose answer was lost took place; `is_void`
-- says that it didn't and never will. Ids begin with their time, and old rows are a range of them. The row of the smallest
-- id holds the latest stamp of the deleted ones.
CREATE TABLE batches (
    id uuid PRIMARY KEY, stamp bigint NOT NULL, is_void boolean NOT NULL DEFAULT false,
    touched_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row: nothing is created at or below this instant any more, so that a walk over earlier records is complete (R7).
CREATE TABLE horizon (at bigint NOT NULL);

INSERT INTO horizon (at) VALUES (0);

-- From what a later process continues the gateway's own time: the clocks as they were together, for each start of a
-- machine. This server's clock measures how long ago that was.
CREATE TABLE clock_records (
    boot_id text PRIMARY KEY, monotonic bigint NOT NULL, time bigint NOT NULL, utc bigint NOT NULL,
    served_until bigint NOT NULL, saved_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row: which store this is, and how far it has come (`mmo_sansio.resilience.store_mark`). Commits of serving processes
-- raise the epoch, at most once a second, and each commit of a command raises the other one. `former_ids` are what it was
-- named before it was restored from a backup, with spaces between.
CREATE TABLE store_state (
    id text NOT NULL, epoch bigint NOT NULL, command_epoch bigint NOT NULL, raised_at bigint NOT NULL,
    former_ids text NOT NULL
);

INSERT INTO store_state (id, epoch, command_epoch, raised_at, former_ids)
VALUES (replace(gen_random_uuid()::text, '-', ''), 0, 0, 0, '');

-- Brands of a store that was restored, until staff have closed the gap behind its backup: they take no payments.
CREATE TABLE restored_brands (brand text PRIMARY KEY);

-- Where the walks over old rows go on, and when they last ended.
CREATE TABLE retention_state (what text PRIMARY KEY, position text NOT NULL);

-- The one process that works at it, until when.
CREATE TABLE retention_lease (holder text NOT NULL, held_until bigint NOT NULL);

INSERT INTO retention_lease (holder, held_until) VALUES ('', 0);

-- Called inside a commit: what was decided from isn't what is stored any more.
CREATE FUNCTION still_so(is_so boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF is_so IS NOT TRUE THEN
        RAISE EXCEPTION 'what was decided from has changed' USING ERRCODE = 'MMO01';
    END IF;
END
$$;

-- Called inside a commit that creates payments, with the earliest time of their creation: readers of records wait for its
-- end from now on, and nothing may be created at or below the horizon (R7). Its second statement sees what was committed
-- before the lock was taken, also where the call is part of a statement that began earlier.
CREATE FUNCTION check_creation(earliest bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(5066063, 1);
    IF (SELECT at <= earliest FROM horizon) IS NOT TRUE THEN
        RAISE EXCEPTION 'what was decided from has changed' USING ERRCODE = 'MMO01';
    END IF;
END
$$;

-- Called inside a commit that begins to submit payments of these brands, with spaces between: who puts a brand on hold
-- waits for its end from now on, and none of them may be on hold. It sees what was committed before, like check_creation.
CREATE FUNCTION check_submission(brands text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(5066063, 5);
    IF EXISTS (SELECT FROM brand_holds WHERE brand = ANY (string_to_array(brands, ' '))) THEN
        RAISE EXCEPTION 'what was decided from has changed' USING ERRCODE = 'MMO01';
    END IF;
END
$$;

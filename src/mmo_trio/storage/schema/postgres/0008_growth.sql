-- alone
-- needs: 8
-- What only ages is partitioned by time, so that ageing is dropping a table: see partitions.py, which makes and drops the
-- partitions. Rows of before stay where they are: their tables become the first partitions. The partition for what has
-- none of its own is always there, so no insert fails for the lack of one.

-- Who did what, when, from where to where; rows are only ever added. The brand is '' where there is none. It has no key:
-- nothing refers to a line.
ALTER TABLE journal RENAME TO journal_first;
ALTER INDEX journal_by_transaction RENAME TO journal_first_by_transaction;
ALTER TABLE journal_first DROP CONSTRAINT journal_pkey;

CREATE SEQUENCE journal_ids;
SELECT setval('journal_ids', last_value, is_called) FROM journal_id_seq;
ALTER TABLE journal_first ALTER COLUMN id DROP IDENTITY;
ALTER TABLE journal_first ALTER COLUMN id SET DEFAULT nextval('journal_ids');

CREATE TABLE journal (
    brand text NOT NULL,
    id bigint NOT NULL DEFAULT nextval('journal_ids'),
    at bigint NOT NULL,
    what text NOT NULL,
    actor text NOT NULL,
    gateway_reference text,
    stage_before text,
    stage_after text,
    detail text NOT NULL
) PARTITION BY RANGE (at);

ALTER SEQUENCE journal_ids OWNED BY journal.id;

-- The timeline of a payment, and whether a payment has one (`mmo db check`).
CREATE INDEX journal_by_transaction ON journal (gateway_reference) WHERE gateway_reference IS NOT NULL;

-- What became of callbacks (K3, K4). `body` is that of a response which an earlier version has recorded; later ones are in
-- callback_bodies, which are kept for a shorter time.
ALTER TABLE callbacks RENAME TO callbacks_first;
ALTER INDEX callbacks_by_transaction RENAME TO callbacks_first_by_transaction;
ALTER INDEX callbacks_by_recording RENAME TO callbacks_first_by_recording;
ALTER INDEX callbacks_failed RENAME TO callbacks_first_failed;
ALTER TABLE callbacks_first DROP CONSTRAINT callbacks_pkey;
ALTER TABLE callbacks_first ALTER COLUMN body DROP NOT NULL;

CREATE SEQUENCE callback_ids;
SELECT setval('callback_ids', last_value, is_called) FROM callbacks_id_seq;
ALTER TABLE callbacks_first ALTER COLUMN id DROP IDENTITY;
ALTER TABLE callbacks_first ALTER COLUMN id SET DEFAULT nextval('callback_ids');

CREATE TABLE callbacks (
    brand text NOT NULL,
    id bigint NOT NULL DEFAULT nextval('callback_ids'),
    gateway_reference text NOT NULL,
    outcome text NOT NULL,
    url text NOT NULL,
    status integer,
    duration_ms bigint NOT NULL,
    detail text NOT NULL,
    at bigint NOT NULL,
    body bytea
) PARTITION BY RANGE (at);

ALTER SEQUENCE callback_ids OWNED BY callbacks.id;

-- The callbacks of one payment; the newest of all; and the newest that were not delivered.
CREATE INDEX callbacks_by_transaction ON callbacks (gateway_reference);
CREATE INDEX callbacks_by_recording ON callbacks (id);
CREATE INDEX callbacks_failed ON callbacks (id) WHERE outcome <> 'delivered';

-- The bodies of merchants' responses to callbacks, where there was one. Found by `at`, which repeats that of the callback.
CREATE TABLE callback_bodies (
    brand text NOT NULL,
    gateway_reference text NOT NULL,
    at bigint NOT NULL,
    body bytea NOT NULL
) PARTITION BY RANGE (at);

CREATE INDEX callback_bodies_by_time ON callback_bodies (at);

CREATE TABLE journal_default PARTITION OF journal DEFAULT;
CREATE TABLE callbacks_default PARTITION OF callbacks DEFAULT;
CREATE TABLE callback_bodies_default PARTITION OF callback_bodies DEFAULT;

-- The tables of before end with the month of their latest row, or with this month. They are read once for that.
DO $$
DECLARE
    named text;
    latest bigint;
    following timestamp;
BEGIN
    FOREACH named IN ARRAY ARRAY['journal', 'callbacks'] LOOP
        EXECUTE format('SELECT coalesce(max(at), 0) FROM %I', named || '_first') INTO latest;
        following := date_trunc('month', greatest(clock_timestamp(), to_timestamp(latest / 1000000)) AT TIME ZONE 'UTC')
            + interval '1 month';
        EXECUTE format(
            'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%s)',
            named, named || '_first', extract(epoch FROM following)::bigint * 1000000
        );
    END LOOP;
END
$$;

-- How the payment of a use ended, once it was moved to the archive; NULL while it is stored (C12). A deposit stays, too,
-- so that its receipt is never booked again (S4).
ALTER TABLE reference_uses ADD COLUMN ended text;
ALTER TABLE deposits ADD COLUMN ended text;

-- Where the walks over old rows go on, when they last ended, and the end of the archive.
CREATE TABLE retention_state (
    what text PRIMARY KEY,
    position text NOT NULL
);

-- The one process that works at it, until when.
CREATE TABLE retention_lease (
    holder text NOT NULL,
    held_until bigint NOT NULL
);

INSERT INTO retention_lease (holder, held_until) VALUES ('', 0);

-- Payments. A step of a payment is a HOT update: no index holds, and no index condition reads, what a step changes. So
-- when a pending payment wakes, and the receipts of providers, are in tables of their own. `version_before` is the version
-- of payments of which the present version has written nothing, and `provider_receipt` the receipt that an earlier version
-- has recorded. `object` is empty while a payment is pending. Pages are left half empty, for the steps of their payments;
-- `version` comes after `order_row`, which therefore isn't part of what the write-ahead log repeats.
ALTER TABLE transactions RENAME COLUMN version TO version_before;
ALTER TABLE transactions ALTER COLUMN version_before DROP NOT NULL;
ALTER TABLE transactions ADD COLUMN version integer;
ALTER TABLE transactions SET (fillfactor = 50);

-- When pending payments wake; each has one row, which is found by its `wake_at`.
CREATE TABLE wakes (
    brand text NOT NULL,
    gateway_reference text NOT NULL,
    created_at bigint NOT NULL,
    wake_at bigint NOT NULL
);

INSERT INTO wakes (brand, gateway_reference, created_at, wake_at)
    SELECT brand, gateway_reference, created_at, wake_at FROM transactions WHERE wake_at IS NOT NULL;

-- Which payments wake next; and which have been pending for long.
CREATE INDEX wakes_by_time ON wakes (wake_at);
CREATE INDEX wakes_by_creation ON wakes (created_at);

DROP INDEX transactions_by_wake;
DROP INDEX transactions_pending;
ALTER TABLE transactions DROP COLUMN wake_at;

-- Providers' receipts, by which staff look for a payment.
CREATE TABLE receipts (
    brand text NOT NULL,
    gateway_reference text NOT NULL,
    receipt text NOT NULL
);

CREATE INDEX receipts_by_receipt ON receipts (receipt);

-- Kept intents are few, and found by their payment.
ALTER TABLE intents DROP CONSTRAINT intents_pkey;
ALTER TABLE intents ADD PRIMARY KEY (gateway_reference, kind, brand);
DROP INDEX intents_by_reference;

-- What commits have counted since it was added to `figures`: payments by the shortest span, in which each was created or
-- ended. A commit only adds rows, so no commit waits for another.
CREATE TABLE figure_deltas (
    began_at bigint NOT NULL,
    brand text NOT NULL,
    method text NOT NULL,
    provider text NOT NULL,
    status text NOT NULL,
    latency_s integer NOT NULL,
    times integer NOT NULL
);

-- The figures as they are now, for each span.
CREATE VIEW counts AS
    SELECT span, began_at, brand, method, provider, status, latency_s, times FROM figures
    UNION ALL
    SELECT span, began_at - mod(began_at, span), brand, method, provider, status, latency_s, times
    FROM figure_deltas CROSS JOIN (VALUES (3600000000), (86400000000)) AS spans (span);

-- Ids of commits begin with their time, and old rows are a range of them. The row of the smallest id holds the latest
-- stamp of the deleted ones. No commit of before is in doubt for anybody, as no process of before is there.
DROP INDEX batches_by_stamp;
DROP INDEX batches_by_age;
DELETE FROM batches WHERE stamp < (SELECT max(stamp) FROM batches);
DELETE FROM batches WHERE id > (SELECT id FROM batches ORDER BY id LIMIT 1);
UPDATE batches SET id = '00000000-0000-0000-0000-000000000000';

-- The leases that run, among all that ended in the last 30 days: they are asked for several times a second.
CREATE INDEX holders_running ON holders (id) WHERE NOT is_over;

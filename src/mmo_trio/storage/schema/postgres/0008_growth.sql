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

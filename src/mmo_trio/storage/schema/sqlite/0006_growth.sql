-- The bodies of merchants' responses to callbacks, where there was one; `at` repeats that of the callback. They are kept
-- for a shorter time. `callbacks.body` is that of a response which an earlier version has recorded.
CREATE TABLE callback_bodies (
    at INTEGER NOT NULL,
    brand TEXT NOT NULL,
    gateway_reference TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT;

CREATE INDEX callback_bodies_by_time ON callback_bodies (at);

-- How the payment of a use ended, once it was moved to the archive; NULL while it is stored (C12). A deposit stays, too,
-- so that its receipt is never booked again (S4).
ALTER TABLE reference_uses ADD COLUMN ended TEXT;
ALTER TABLE deposits ADD COLUMN ended TEXT;

-- Where the walks over old rows go on, when they last ended, and the end of the archive.
CREATE TABLE retention_state (
    what TEXT PRIMARY KEY,
    position TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The one process that works at it, until when.
CREATE TABLE retention_lease (
    holder TEXT NOT NULL,
    held_until INTEGER NOT NULL
) STRICT;

INSERT INTO retention_lease (holder, held_until) VALUES ('', 0);

-- What PostgreSQL has as tables of their own, by the same names.
CREATE VIEW wakes AS
    SELECT brand, gateway_reference, created_at, wake_at FROM transactions WHERE wake_at IS NOT NULL;

CREATE VIEW receipts AS
    SELECT provider_receipt AS receipt, brand, gateway_reference FROM transactions WHERE provider_receipt IS NOT NULL;

CREATE VIEW counts AS
    SELECT span, began_at, brand, method, provider, status, latency_s, times FROM figures;

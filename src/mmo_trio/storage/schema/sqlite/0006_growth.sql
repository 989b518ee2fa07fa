-- The bodies of merchants' responses to callbacks, where there was one; `at` repeats that of the callback. They are kept
-- for a shorter time. `callbacks.body` is that of a response which an earlier version has recorded.
CREATE TABLE callback_bodies (
    at INTEGER NOT NULL,
    brand TEXT NOT NULL,
    gateway_reference TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT;

CREATE INDEX callback_bodies_by_time ON callback_bodies (at);

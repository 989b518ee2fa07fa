-- Requests that limits or flows of a brand refused, for the back-test of a changed configuration: a bounded number for each
-- brand and day, without personal data. `minor` is a number, which may be larger than what an integer of the database holds.
CREATE TABLE refused_requests (
    gateway_reference TEXT PRIMARY KEY,
    brand TEXT NOT NULL,
    at INTEGER NOT NULL,
    cause TEXT NOT NULL,
    operation TEXT NOT NULL,
    method TEXT NOT NULL,
    country TEXT NOT NULL,
    minor TEXT NOT NULL,
    currency TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX refused_requests_by_brand ON refused_requests (brand, at, gateway_reference);
CREATE INDEX refused_requests_by_time ON refused_requests (at, gateway_reference);

-- How many there were on each day, by UTC, and how many of them are in the table above.
CREATE TABLE refusal_days (
    brand TEXT NOT NULL,
    day INTEGER NOT NULL,
    times INTEGER NOT NULL,
    recorded INTEGER NOT NULL,
    PRIMARY KEY (brand, day)
) STRICT, WITHOUT ROWID;

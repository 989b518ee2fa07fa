-- Requests that limits or flows of a brand refused, for the back-test of a changed configuration: a bounded number for each
-- brand and day, without personal data. `minor` is a number, which may be larger than what an integer of the database holds.
CREATE TABLE refused_requests (
    gateway_reference text PRIMARY KEY,
    brand text NOT NULL,
    at bigint NOT NULL,
    cause text NOT NULL,
    operation text NOT NULL,
    method text NOT NULL,
    country text NOT NULL,
    minor text NOT NULL,
    currency text NOT NULL
);

CREATE INDEX refused_requests_by_brand ON refused_requests (brand, at, gateway_reference);
CREATE INDEX refused_requests_by_time ON refused_requests (at, gateway_reference);

-- How many there were on each day, by UTC, and how many of them are in the table above.
CREATE TABLE refusal_days (
    brand text NOT NULL,
    day bigint NOT NULL,
    times bigint NOT NULL,
    recorded bigint NOT NULL,
    PRIMARY KEY (brand, day)
);

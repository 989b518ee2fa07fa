-- What processes keep in memory of brands, keys and closed providers. The generation grows with each change of these, in
-- the transaction that makes it; a process that finds another one reads them again.
CREATE TABLE configuration (
    generation bigint NOT NULL
);

INSERT INTO configuration (generation) VALUES (1);

-- Which process has each lease, and the generation that it uses; NULL for one that has not said it yet.
ALTER TABLE holders ADD COLUMN process text;
ALTER TABLE holders ADD COLUMN configuration bigint;

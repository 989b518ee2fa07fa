-- What the serving process keeps in memory of brands, keys and closed providers. The generation grows with each change of
-- these, in the transaction that makes it; a process that finds another one reads them again. `process` is the one that
-- serves or served last, and `in_use` the generation that it uses; NULL before one has said it.
CREATE TABLE configuration (
    generation INTEGER NOT NULL,
    process TEXT,
    in_use INTEGER
) STRICT;

INSERT INTO configuration (generation) VALUES (1);

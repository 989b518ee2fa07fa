-- The merchants' breakers as they were kept last, each with its own checksum; see rows.py (K5).
CREATE TABLE breakers (
    brand TEXT PRIMARY KEY,
    breaker BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Changes of brands that a user proposes and another one decides on, with both versions of the brand.
CREATE TABLE configuration_changes (
    id INTEGER PRIMARY KEY,
    brand TEXT NOT NULL,
    version_before TEXT NOT NULL,
    version_after TEXT NOT NULL,
    reason TEXT NOT NULL,
    proposed_by TEXT NOT NULL,
    proposed_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    decided_by TEXT,
    decided_at INTEGER,
    remark TEXT,
    reverted_by TEXT,
    reverted_at INTEGER
) STRICT;

CREATE INDEX configuration_changes_by_brand ON configuration_changes (brand, id);
CREATE INDEX configuration_changes_by_state ON configuration_changes (state, id);

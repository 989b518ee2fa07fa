-- Changes of brands that a user proposes and another one decides on, with both versions of the brand.
CREATE TABLE configuration_changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    brand text NOT NULL,
    version_before text NOT NULL,
    version_after text NOT NULL,
    reason text NOT NULL,
    proposed_by text NOT NULL,
    proposed_at bigint NOT NULL,
    state text NOT NULL,
    decided_by text,
    decided_at bigint,
    remark text,
    reverted_by text,
    reverted_at bigint
);

CREATE INDEX configuration_changes_by_brand ON configuration_changes (brand, id);
CREATE INDEX configuration_changes_by_state ON configuration_changes (state, id);

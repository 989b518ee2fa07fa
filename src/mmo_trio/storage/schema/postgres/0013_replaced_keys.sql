-- A create writes two indexes less. Citus takes no index that is there for a key: there it is built again.
ALTER TABLE transactions DROP CONSTRAINT transactions_pkey;
ALTER TABLE reference_uses DROP CONSTRAINT reference_uses_pkey;

DO $$
BEGIN
    IF to_regclass('brand_batches') IS NULL THEN
        ALTER TABLE transactions ADD CONSTRAINT transactions_pkey PRIMARY KEY USING INDEX transactions_key;
        ALTER TABLE reference_uses ADD CONSTRAINT reference_uses_pkey PRIMARY KEY USING INDEX reference_uses_key;
    ELSE
        DROP INDEX transactions_key;
        DROP INDEX reference_uses_key;
        ALTER TABLE transactions ADD CONSTRAINT transactions_pkey PRIMARY KEY (gateway_reference, brand);
        ALTER TABLE reference_uses ADD CONSTRAINT reference_uses_pkey PRIMARY KEY (merchant_reference, brand, nth);
    END IF;
END
$$;

DROP INDEX transactions_by_reference;
DROP INDEX reference_uses_by_reference;

-- What our store does for one direct pay-in by itself: a round trip to load, one to write and commit, as loading.py and
-- writing.py have it. A batch of a gateway does it for many at once.
\set number random(1, 1000000000000)
\startpipeline
SELECT at FROM horizon;
SELECT newest.* FROM (SELECT 'p-' || :number AS reference) AS wanted CROSS JOIN LATERAL (
    SELECT gateway_reference, at, nth FROM reference_uses AS used
    WHERE used.brand = 'acme' AND used.merchant_reference = wanted.reference
    ORDER BY nth DESC LIMIT 1
) AS newest;
\endpipeline
\startpipeline
BEGIN;
INSERT INTO batches (id, stamp) VALUES (gen_random_uuid(), :number);
SELECT pg_advisory_xact_lock_shared(5066063, 1);
SELECT still_so(at <= :number) FROM horizon;
INSERT INTO reference_uses (brand, merchant_reference, nth, at, gateway_reference, earlier, is_lost)
    VALUES ('acme', 'p-' || :number, 1, :number, 'MMO-p-' || :number, 'failed', false);
INSERT INTO transactions (brand, gateway_reference, type, method, created_at, is_simulated, page_token, order_row,
    status, version, progress, object)
    VALUES ('acme', 'MMO-p-' || :number, 'payin', 'mpesa_ke', :number, 0, NULL, repeat('o', :order_bytes)::bytea,
        'pending', 1, repeat('p', :progress_bytes)::bytea, '');
INSERT INTO wakes (brand, gateway_reference, created_at, wake_at)
    VALUES ('acme', 'MMO-p-' || :number, :number, :number);
INSERT INTO figure_deltas (began_at, brand, method, provider, is_simulated, status, latency_s, times)
    VALUES (:number, 'acme', 'mpesa_ke', 'sandbox', 0, 'pending', 0, 1);
INSERT INTO intents (brand, gateway_reference, kind, holder)
    VALUES ('acme', 'MMO-p-' || :number, 'submit', 0)
    ON CONFLICT (brand, gateway_reference, kind) DO UPDATE SET holder = excluded.holder;
INSERT INTO journal (at, what, actor, gateway_reference, brand, stage_before, stage_after, detail)
    VALUES (:number, 'CreatePayment', 'merchant', 'MMO-p-' || :number, 'acme', NULL, 'created', '');
COMMIT;
\endpipeline

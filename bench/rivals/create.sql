\set number random(1, 1000000000000)
with used as (
    insert into merchant_references values ('p-' || :number, now())
    on conflict (merchant_reference) do update set used_at = excluded.used_at
        where merchant_references.used_at < excluded.used_at - interval '15 minutes'
    returning 1
)
insert into transactions
select gen_random_uuid(), 'p-' || :number, 'p-' || :number, 'pending', 'payin', 'direct', 'mpesa_ke', 'KE', 100.00,
    'KES', '{"id":"u1","msisdn":"254712345678"}', null, 'https://127.0.0.1:9/results', now(), null
from used;

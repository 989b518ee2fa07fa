"""The one durable statement of a create that both rivals send: the reference check and the row together."""

CREATE = """
with used as (
    insert into merchant_references values ($2, $10)
    on conflict (merchant_reference) do update set used_at = excluded.used_at
        where merchant_references.used_at < excluded.used_at - interval '15 minutes'
    returning 1
)
insert into transactions
select $1, $2, $3, 'pending', $4, $5, $6, $7, $8, $9, $11, $10 from used
"""

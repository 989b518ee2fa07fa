"""Defines the rivals' statements: reference check and row together, and one row by its key."""

CREATE = """
with used as (
    insert into merchant_references values ($2, $10)
    on conflict (merchant_reference) do update set used_at = excluded.used_at
        where merchant_references.used_at < excluded.used_at - interval '15 minutes'
    returning 1
)
insert into transactions
select $1, $2, $3, 'pending', 'payin', 'direct', $4, $5, $6, $7, $8, $9, $11, $10, null from used
"""
LOOK_UP = "select * from transactions where gateway_reference = $1"
RECORDS = """
select * from transactions where created_at >= $1 and created_at < $2
order by created_at, gateway_reference limit $3
"""

-- The rivals' tables: what a team would begin with. No journal, no outbox, no configuration.
create table transactions (
    gateway_reference uuid primary key,
    merchant_reference text not null,
    reconciliation_reference text not null,
    status text not null,
    type text not null,
    flow text not null,
    method text not null,
    country text not null,
    amount numeric(20, 4) not null,
    currency text not null,
    party jsonb not null,
    labels jsonb,
    result_url text not null,
    created_at timestamptz not null,
    completed_at timestamptz
);
create index on transactions (merchant_reference);
create index on transactions (created_at, gateway_reference);
create table merchant_references (
    merchant_reference text primary key,
    used_at timestamptz not null
);

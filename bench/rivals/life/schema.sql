-- The tables of both rivals that carry a payment to its callback.
create table merchants (
    id text primary key,
    key_digest bytea not null unique,
    callback_key text not null,
    methods jsonb not null
);
create table merchant_references (
    merchant_id text not null references merchants,
    merchant_reference text not null,
    used_at timestamptz not null,
    primary key (merchant_id, merchant_reference)
);
create table payments (
    id uuid primary key,
    merchant_id text not null references merchants,
    merchant_reference text not null,
    reconciliation_reference text not null,
    status text not null,
    stage text not null,
    method text not null,
    country text not null,
    amount numeric(20, 4) not null,
    currency text not null,
    party jsonb not null,
    labels jsonb,
    result_url text not null,
    provider_reference text,
    error_code text,
    created_at timestamptz not null,
    completed_at timestamptz
);
create index on payments (merchant_id, merchant_reference);
create index on payments (merchant_id, created_at);
create table callbacks (
    payment_id uuid primary key references payments,
    at timestamptz not null,
    outcome text not null,
    http_status integer,
    took_ms integer not null,
    detail text
);

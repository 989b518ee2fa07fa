-- Merchants' channels: who sends a merchant's callbacks, under which fence, and the merchant's breaker as it was kept last
-- (K3, K5). Holder 0 is nobody. A fence never falls.
CREATE TABLE channels (
    brand text PRIMARY KEY,
    holder bigint NOT NULL,
    fence bigint NOT NULL,
    breaker bytea
);

-- Said of a holder whose lease has ended, once and for all: nobody takes a channel before it is said of its holder.
ALTER TABLE holders ADD COLUMN is_over boolean NOT NULL DEFAULT false;

-- The fence under which a callback was claimed last. A version that knows nothing of it leaves 0: unclaimed.
ALTER TABLE intents ADD COLUMN fence bigint NOT NULL DEFAULT 0;

CREATE INDEX intents_by_channel ON intents (brand, id) WHERE kind = 'callback';

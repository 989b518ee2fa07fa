-- When the key was said to be known to somebody else: nothing is sent any more for payments that it made.
ALTER TABLE api_keys ADD COLUMN leaked_at bigint;

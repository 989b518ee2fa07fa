-- Payments are removed, and the uses of their references are written again, when they are archived. By the server's
-- default a fifth of a table has to be dead before its space is used again, of 10 million rows 2 million; with this a
-- fiftieth.
ALTER TABLE transactions SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE reference_uses SET (autovacuum_vacuum_scale_factor = 0.02);

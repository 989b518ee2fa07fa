"""Takes each result once, in the merchant's own database, and finds those that no callback has
brought."""

"""Brands and their API keys: the file brands.toml, applying it, and keys at rest."""

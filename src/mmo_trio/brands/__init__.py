"""Holds the brands' configuration: the file brands.toml, its application, and API keys at rest."""

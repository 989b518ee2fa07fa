"""Serves the merchant API and the webhooks of providers on the API listener."""

"""Simulates Wave's Business API: one wallet, its payers' page and its webhooks."""

"""Simulates pawaPay's Merchant API v2: one account with wallets in several countries."""

"""Stores, which make decisions durable: one interface, several implementations, one suite that all of them pass."""

"""Stores, which make decisions durable: shared SQL, one store for each database, one suite that
both pass."""

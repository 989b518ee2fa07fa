"""Simulates stores: they are in memory, without threads, mean what the real ones do, and have the faults of a seed.

`file_store` is the store of one process, like SQLite's, `shared_store` that of several, like PostgreSQL's.
"""

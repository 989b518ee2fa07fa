"""Gives worlds their stores, without threads and with the faults of a seed.

`file_store` is the shipped store on SQLite, of one process; `shared_store` means what PostgreSQL's does, of several.
"""

"""Simulates what stores stand on: they keep their rows by the SQL that ships, and have the faults of a seed.

`file_store` is the store on SQLite, `shared_store` one of several processes, a model of that on PostgreSQL.
"""

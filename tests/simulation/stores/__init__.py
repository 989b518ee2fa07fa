"""Gives worlds their stores, without threads and with the faults of a seed.

`file_store` is the shipped store on SQLite, of one process; `shared_store` is a model of
PostgreSQL's, of several, whose rows are kept by the SQL that ships."""

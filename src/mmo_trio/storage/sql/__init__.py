"""Holds the store as its users see it, and the SQL that SQLite and PostgreSQL share; each statement
is written once."""

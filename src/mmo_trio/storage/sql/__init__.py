"""Holds the SQL that SQLite and PostgreSQL share; each statement is written once."""

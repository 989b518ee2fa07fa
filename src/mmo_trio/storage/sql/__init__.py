"""SQL that SQLite and PostgreSQL share, each statement written once."""

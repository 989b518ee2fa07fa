"""Writes and reads the archive: what has left the store, in files that any program can read."""

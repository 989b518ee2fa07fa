"""Holds a store in memory, for tests and demonstrations."""

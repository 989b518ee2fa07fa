"""A store in memory, for tests and demonstrations."""

"""The engine: it batches inputs, has the store commit them, and answers their callers."""

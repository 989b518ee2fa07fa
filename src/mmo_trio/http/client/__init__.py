"""The HTTP client sends callbacks and provider requests: one exchange on one connection."""

"""The HTTP client for callbacks and provider requests: one exchange on one connection."""

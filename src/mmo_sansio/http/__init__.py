"""HTTP as values: requests and responses, strict wire checks, and the rules for outbound connections."""

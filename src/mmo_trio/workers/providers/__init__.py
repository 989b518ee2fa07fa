"""Workers that speak with providers."""

"""The hosted payment page."""

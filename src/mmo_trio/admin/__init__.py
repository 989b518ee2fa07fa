"""Holds the use cases of staff: explaining a payment, resolving it, and recording audit events."""

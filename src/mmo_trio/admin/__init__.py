"""Holds the use cases of staff: to explain and resolve payments, remove old rows, repair stores and
audit actions."""

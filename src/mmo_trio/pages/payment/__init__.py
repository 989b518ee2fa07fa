"""Holds the hosted payment page."""

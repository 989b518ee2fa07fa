"""Tests use the console through its own listener."""

"""Provides what all commands use: targets, output, errors and an HTTP client."""

"""Holds the pages and controls of a sandbox."""

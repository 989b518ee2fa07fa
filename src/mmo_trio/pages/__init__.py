"""Holds the public web pages: payment pages, documentation, and a sandbox's controls."""

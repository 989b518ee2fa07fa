"""Holds the console: the web pages on which staff see and administer the gateway."""

"""Defines the interface of every store, and the types of its arguments and results."""

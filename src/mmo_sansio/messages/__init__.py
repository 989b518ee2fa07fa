"""Defines the values that cross the core: inputs, queries, changes, intents and replies."""

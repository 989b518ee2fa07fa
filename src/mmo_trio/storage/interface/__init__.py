"""Defines the errors of a store, and the types of what its methods take and return."""

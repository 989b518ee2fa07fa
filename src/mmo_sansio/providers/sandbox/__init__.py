"""Holds the sandbox provider: an adapter and a simulated operator that follows scenarios."""

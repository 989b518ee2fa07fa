"""Simulates MTN MoMo."""

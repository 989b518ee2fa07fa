"""Simulates Airtel Money."""

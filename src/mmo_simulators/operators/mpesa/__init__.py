"""Simulates M-Pesa (Daraja)."""

"""A simulator of M-Pesa (Daraja)."""

"""Holds the adapter for M-Pesa in Kenya: Safaricom's Daraja API
(docs/providers/mpesa_daraja.md)."""

"""M-Pesa in Kenya, by Safaricom's Daraja API: how the gateway speaks with it (docs/providers/mpesa_daraja.md)."""

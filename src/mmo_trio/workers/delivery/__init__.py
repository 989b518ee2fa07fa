"""Deliver callbacks and QR codes to merchants."""

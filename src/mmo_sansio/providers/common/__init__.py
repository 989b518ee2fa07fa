"""Holds what all provider adapters share: the interface, options, redaction and QR codes."""

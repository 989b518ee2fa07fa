"""Workers that deliver to merchants: callbacks and QR codes."""

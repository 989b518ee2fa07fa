"""Where decisions are made durable: one protocol, several stores, one suite that all of them pass."""

"""HTTP over Trio: the listener merchants talk to, and what it shares with other doors."""

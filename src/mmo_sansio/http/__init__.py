"""HTTP is represented as values here, with strict checks of heads and rules for outgoing URLs."""

"""Workers that act on decisions: they submit, poll, deliver and wake."""

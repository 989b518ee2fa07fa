"""What several stores use: coalesced look-ups, net effects of a batch, search keys."""

"""Holds what several stores use: coalesced look-ups, net effects of a batch, counts and pages of payments."""

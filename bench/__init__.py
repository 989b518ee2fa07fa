"""Measurements of the gateway and of what a team would write instead, in turn, on one machine."""

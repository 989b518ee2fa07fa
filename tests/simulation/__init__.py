"""Whole gateways in a simulated world: seeds, judges, and faults that they must find."""

"""Holds what all simulated operators share: faults, schedules, controls, routes."""

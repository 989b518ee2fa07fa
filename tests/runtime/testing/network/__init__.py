"""Tests of the simulated network."""

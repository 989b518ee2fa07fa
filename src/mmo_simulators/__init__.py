"""Simulates mobile money operators, to test a gateway (ours or another) against."""

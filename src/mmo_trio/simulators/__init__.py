"""Simulators of mobile money operators: what a gateway, ours or another, can be tried against."""

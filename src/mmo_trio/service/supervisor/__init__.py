"""Runs several processes as one service: `policy` decides what to do, `processes` does it."""

"""Tests of tables that are distributed over a real cluster of Citus.

`MMO_EFFORT=full nox -s long` builds and runs it.
"""

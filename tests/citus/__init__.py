"""Tests of tables that are distributed over a real cluster of Citus; `nox -s citus` builds and runs
it."""

"""Tests of the simulated stores."""

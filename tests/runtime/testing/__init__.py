"""Tests of the simulated world: its network, its clocks, its processes and its stores."""

"""Whole gateways in simulated worlds: seeds, judges, and faults that they must find.

    python -m tests.simulation SEED

`play` plays seeds and makes failing plans smaller, `judges` says what must hold, `coverage` shows
what happened; the world itself is in `world`, on `network`, `stores` and `clocks`."""

"""Whole gateways in simulated worlds: seeds, judges, and faults that they must find.

    python -m tests.simulation SEED

`play` plays seeds and makes failing plans smaller, `judges` says what must hold, `coverage` shows
what happened; the world itself is in `world`, on `network`, `stores` and `clocks`."""

from tests.support.provider_packages import find_sources

# Some of its operators are spoken to by packages that are not part of the gateway.
find_sources()

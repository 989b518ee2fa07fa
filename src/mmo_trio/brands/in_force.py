"""Defines what a process keeps in memory of brands, keys and closed providers, and waits until all
know a change.

The store counts a generation, which each change of these raises. Every process reads it once a
second, uses nothing that it has kept from an earlier generation, and then records which one it
uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import trio
from attrs import define, frozen

from mmo_sansio.values.clock import MonotonicInstant
from mmo_trio.storage.sql.store import Store

_WAIT_INTERVAL_S = 0.1


@define(eq=False)
class KnownConfiguration:
    """Holds the generation that a process uses, and what it has read with it. What the process has
    kept from another generation, or uses later than `trusted_until`, is read from the store
    again."""

    generation: int = 0
    trusted_until: MonotonicInstant = MonotonicInstant(2**63)
    """How long what was kept counts without another read: each read of the store sets it anew, and
    before the first nothing is outdated."""
    closed_providers: frozenset[str] = frozenset()
    brand_by_host: Mapping[str, str] | None = None
    """The brands that have a host of their own, by that host (A6); None: nothing was read yet."""
    restored_brands: frozenset[str] | None = None
    """Brands of a restored store that take no payments yet; None: nothing was read yet, so it may
    be each."""

    def is_closed(self, provider: str) -> bool:
        """Tell whether this provider accepts no new payments."""
        return provider in self.closed_providers

    def is_restored(self, brand: str) -> bool:
        """Tell whether payments of this brand may be missing, as the store was restored from a
        backup."""
        return self.restored_brands is None or brand in self.restored_brands


@frozen
class InForce:
    """Says which processes use the present brands, keys and closed providers."""

    processes: Sequence[str]
    """The names of those that do."""
    waiting: Sequence[str] = ()
    """The names of those that have not said so in time."""


async def wait_until_in_force(store: Store, *, timeout_s: float) -> InForce:
    """Wait until every process that serves the store uses what it holds now, at most `timeout_s`
    seconds. Raises what the store raises."""
    # What was stored before the call is in this generation.
    generation = (await store.configuration()).generation
    deadline = trio.current_time() + timeout_s
    while True:
        serving = await store.serving_processes()
        behind = [
            process.name
            for process in serving
            if process.generation is None or process.generation < generation
        ]
        # A process that hangs must not hold up the command: whoever waits is named.
        if not behind or trio.current_time() >= deadline:
            return InForce(
                [process.name for process in serving if process.name not in behind], behind
            )

        await trio.sleep(_WAIT_INTERVAL_S)

"""Play seeds and count what happened in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.sansio.simulation.world import Simulation

SEEDS_AT_ONCE = 100
"""Seeds that a process plays before it reports."""


def play(seed: int) -> Counter[object]:
    """Play this seed to its end and say how often what happened. A failure names its seed."""
    world = Simulation(seed)
    try:
        world.run()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, after {len(world.history)} inputs: {error}") from error
    return world.tally


def play_all(seeds: Sequence[int]) -> Counter[object]:
    """Play these seeds on all processors, and return what happened in all of them together."""
    parts = [seeds[start : start + SEEDS_AT_ONCE] for start in range(0, len(seeds), SEEDS_AT_ONCE)]
    if len(parts) < 2:
        return _play_some(seeds)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return sum(pool.map(_play_some, parts), Counter[object]())


def _play_some(seeds: Sequence[int]) -> Counter[object]:
    return sum(map(play, seeds), Counter[object]())


def report(tally: Counter[object]) -> str:
    """How often each cell and each fault occurred."""
    rows = sorted((_named(key), count) for key, count in tally.items())
    return "\n".join(f"{count:9,}  {name}" for name, count in rows)


def _named(key: object) -> str:
    """`created x ConfirmPage` for a cell; a fault says itself."""
    match key:
        case (stage, type() as given):
            return f"{stage or 'unknown'} x {given.__name__}"
        case _:
            return str(key)

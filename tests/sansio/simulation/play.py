"""Play seeds and count what happened in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.sansio.simulation.world import Simulation


def play(seed: int) -> Counter[object]:
    """Play this seed to its end and say how often what happened. A failure names its seed."""
    world = Simulation(seed)
    try:
        world.run()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, after {len(world.history)} inputs: {error}") from error
    return world.tally


def play_all(seeds: Iterable[int]) -> Counter[object]:
    """What happened in all of them together."""
    tally: Counter[object] = Counter()
    for seed in seeds:
        tally += play(seed)
    return tally


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

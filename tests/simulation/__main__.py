"""Play worlds from the command line.

python -m tests.simulation 17                     one seed, with its digest and what happened
python -m tests.simulation 17 --shrink            the smallest plan of it that fails
python -m tests.simulation --seeds 200            the seeds from 0 on, on all processors
python -m tests.simulation --hours 2 --first 5000
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator

from attrs import evolve

from tests.simulation.coverage import coverage_table
from tests.simulation.play import DAYS, PAYMENTS, Played, Variant, play, play_all, shrink

BATCH = 64
"""Seeds between two looks at the clock."""


def main() -> int:
    """Play what the arguments say; return 1 when a seed fails."""
    arguments = _parse()
    variant = Variant(arguments.seed or 0, arguments.payments, arguments.days, arguments.without, arguments.keep)
    if arguments.seed is None:
        return _play_many(variant, arguments.first, arguments.seeds, arguments.hours)
    played = play(variant)
    if played.violations and arguments.shrink:
        played = play(shrink(variant))
        for nth, fault in enumerate(variant.plan().faults):
            if nth not in played.variant.left_out:
                print(f"{nth:4}  {fault.kind} at {fault.at_s:.1f} s for {fault.lasts_s:.1f} s, {fault.target}")
    print(coverage_table(played.counts))
    print(f"digest {played.digest}")
    return _report(played)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("seed", type=int, nargs="?", help="a single seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--hours", type=float, help="play until so many hours have passed, instead")
    parser.add_argument("--first", type=int, default=0, help="the first of many seeds")
    parser.add_argument("--payments", type=int, default=PAYMENTS)
    parser.add_argument("--days", type=float, default=DAYS)
    parser.add_argument("--keep", type=int, help="make only the first so many payments of the plan")
    parser.add_argument("--without", type=_numbers, default=(), help="leave out the faults with these numbers")
    parser.add_argument("--shrink", action="store_true", help="make the plan of a failing seed smaller")
    return parser.parse_args()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(map(int, text.split(","))))


def _play_many(like: Variant, first: int, seeds: int, hours: float | None) -> int:
    """Play many seeds, print each that fails, and how often what happened."""
    began, counts, failed = time.monotonic(), Counter[str](), 0
    total = days = 0.0
    for played in _until(like, first, seeds, None if hours is None else began + hours * 3_600):
        counts += played.counts
        total += 1
        days += played.virtual_days
        failed += _report(played, quiet=True)
    took = time.monotonic() - began
    print(coverage_table(counts))
    print(
        f"{total:.0f} seeds in {took:.0f} s, {failed} failed; {days:.0f} virtual days,"
        f" {total * like.payments / took:.0f} payments a second, {days / took:.1f} days a second"
    )
    return int(failed > 0)


def _until(like: Variant, first: int, seeds: int, end: float | None) -> Iterator[Played]:
    numbers: Iterator[int] = iter(range(first, first + seeds)) if end is None else itertools.count(first)
    while batch := list(itertools.islice(numbers, BATCH)):
        yield from play_all(evolve(like, seed=each) for each in batch)
        if end is not None and time.monotonic() > end:
            return


def _report(played: Played, *, quiet: bool = False) -> int:
    if played.violations:
        print(played.report(), flush=True)
    elif not quiet:
        print(f"seed {played.variant.seed} is right, in {played.seconds:.2f} s")
    return int(bool(played.violations))


if __name__ == "__main__":
    sys.exit(main())

"""Play worlds from the command line.

python -m tests.simulation 17                     one seed, with its digest and what happened
python -m tests.simulation 17 --shrink            the smallest plan of it that fails
python -m tests.simulation --seeds 200            the seeds from 0 on, on all processors
python -m tests.simulation --hours 2 --first 5000 --jobs 2 --summary seeds.json
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from attrs import evolve

from tests.simulation.coverage import RunSummary, coverage_table, read_summary, write_summary
from tests.simulation.play import DAYS, PAYMENTS, Played, Variant, play, play_all, shrink
from tests.simulation.world.plan import FaultKind

PROGRESS_INTERVAL_S = 30.0
"""Seconds between two lines about how far a run has come."""


def main() -> int:
    """Play what the arguments say; return 1 when a seed fails."""
    arguments = _parse()
    variant = Variant(
        arguments.seed or 0,
        arguments.payments,
        arguments.days,
        arguments.without,
        arguments.keep,
        arguments.reversals,
        arguments.only,
        arguments.operators,
    )
    if arguments.seed is None:
        return _play_many(variant, arguments)
    played = play(variant)
    if played.violations and arguments.shrink:
        played = play(shrink(variant))
        for nth, fault in enumerate(variant.plan().faults):
            if nth not in played.variant.left_out:
                print(
                    f"{nth:4}  {fault.kind} at {fault.at_s:.1f} s for {fault.lasts_s:.1f} s, "
                    f"{fault.target}"
                )
    print(coverage_table(played.counts))
    print(f"digest {played.digest}")
    return _report(played)


def _kinds(text: str) -> tuple[FaultKind, ...]:
    return tuple(map(FaultKind, text.split(",")))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description=__doc__.splitlines()[0]
    )
    parser.add_argument("seed", type=int, nargs="?", help="a single seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--hours", type=float, help="play until so many hours have passed, instead")
    parser.add_argument("--first", type=int, default=0, help="the first of many seeds")
    parser.add_argument(
        "--jobs", type=int, help="how many processes play them; as many as there are processors"
    )
    parser.add_argument(
        "--summary", type=Path, help="add what happened to this file, also while the run lasts"
    )
    parser.add_argument("--payments", type=int, default=PAYMENTS)
    parser.add_argument("--days", type=float, default=DAYS)
    parser.add_argument(
        "--reversals", type=int, default=0, help="how often staff ask for money back"
    )
    parser.add_argument(
        "--only", type=_kinds, default=(), help="a fault of these kinds at each payment, no other"
    )
    parser.add_argument(
        "--operators", type=_names, default=(), help="only these, with all that each can do"
    )
    parser.add_argument("--keep", type=int, help="make only the first so many payments of the plan")
    parser.add_argument(
        "--without", type=_numbers, default=(), help="leave out the faults with these numbers"
    )
    parser.add_argument(
        "--shrink", action="store_true", help="make the plan of a failing seed smaller"
    )
    return parser.parse_args()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(map(int, text.split(","))))


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _play_many(like: Variant, arguments: argparse.Namespace) -> int:
    """Play many seeds, print each that fails, how far the run has come, and at its end how often
    what happened. The file of the summary is kept up to date, so that a run may be ended at any
    time."""
    began = said_at = time.monotonic()
    end = None if arguments.hours is None else began + arguments.hours * 3_600
    before, summary = read_summary(arguments.summary), RunSummary()
    variants = (evolve(like, seed=seed) for seed in _seeds(arguments.first, arguments.seeds, end))
    for played in play_all(variants, processes=arguments.jobs):
        _report(played, quiet=True)
        summary.add(played)
        summary.seconds = time.monotonic() - began
        if time.monotonic() - said_at > PROGRESS_INTERVAL_S:
            said_at = time.monotonic()
            print(summary.headline(), flush=True)
            write_summary(arguments.summary, before.plus(summary))
    print(coverage_table(summary.counts))
    print(summary.headline())
    write_summary(arguments.summary, before.plus(summary))
    return int(bool(summary.failed))


def _seeds(first: int, count: int, end: float | None) -> Iterator[int]:
    """Yield so many seeds, or seeds until the end of the time."""
    for seed in itertools.count(first):
        if seed == first + count if end is None else time.monotonic() > end:
            return
        yield seed


def _report(played: Played, *, quiet: bool = False) -> int:
    if played.violations:
        print(played.report(), flush=True)
    elif not quiet:
        print(f"seed {played.variant.seed} is right, in {played.seconds:.2f} s")
    return int(bool(played.violations))


if __name__ == "__main__":
    sys.exit(main())

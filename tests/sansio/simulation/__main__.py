"""Play seeds: one that failed, or many.

python -m tests.sansio.simulation SEED
python -m tests.sansio.simulation --seeds 20000
"""

from __future__ import annotations

from argparse import ArgumentParser

from tests.sansio.simulation.play import play_all, report


def main() -> None:
    """Play what the command line names and print what happened in it."""
    parser = ArgumentParser(prog="python -m tests.sansio.simulation", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="play this seed only")
    parser.add_argument("--seeds", type=int, default=2_000, help="play so many, from 0 on")
    expected = parser.parse_args()
    seeds = range(expected.seeds) if expected.seed is None else (expected.seed,)
    print(report(play_all(seeds)))


if __name__ == "__main__":
    main()

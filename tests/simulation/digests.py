"""Compares the digests of many seeds between processes and versions of Python.

python -m tests.simulation.digests FILE --seeds 100

writes the digests to the file, or compares them with it.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.simulation.play import Variant, play_all

PAYMENTS = 4
SEEDS = 100


def digests_of(
    seeds: Iterable[int], *, payments: int = PAYMENTS, processes: int | None = None
) -> dict[str, str]:
    """Return the digest of each seed. Raises ValueError when a world has broken, as then there is
    none."""
    variants = (Variant(seed, payments=payments) for seed in seeds)
    found = {
        str(each.variant.seed): each.digest for each in play_all(variants, processes=processes)
    }
    if broken := [seed for seed, digest in found.items() if not digest]:
        raise ValueError(f"the worlds of these seeds have no digest: {', '.join(broken)}")
    return found


def main() -> int:
    """Write or compare the digests; return 1 when some differ."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.digests", description=__doc__.splitlines()[0]
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--payments", type=int, default=PAYMENTS)
    parser.add_argument(
        "--jobs", type=int, help="how many processes play them; as many as there are processors"
    )
    arguments = parser.parse_args()
    found = digests_of(
        range(arguments.seeds), payments=arguments.payments, processes=arguments.jobs
    )
    if not arguments.file.exists():
        arguments.file.parent.mkdir(parents=True, exist_ok=True)
        arguments.file.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        print(f"Python {platform.python_version()}: {len(found)} digests written")
        return 0
    expected: Mapping[str, str] = json.loads(arguments.file.read_text("utf-8"))
    differing = sorted(
        (seed for seed in expected.keys() | found if expected.get(seed) != found.get(seed)), key=int
    )
    print(
        f"Python {platform.python_version()}: {len(found)} digests, {len(differing)} differ: "
        f"{' '.join(differing)}"
    )
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())

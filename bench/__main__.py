"""`python -m bench [NAME …]`: measure in turn, keep what was found, write RESULTS.md.

Needs Linux, two cores, and the packages of the dependency group `bench`; wrk is used where it is
installed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from bench import machine, report
from bench.options import Options
from bench.plot import plot
from bench.servers import HERE
from bench.suite import SUITE


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SUITE)}")
    parser.add_argument("--rounds", type=int, default=5, help="of each server, in turn")
    parser.add_argument("--seconds", type=int, default=5, help="that each round lasts")
    parser.add_argument("--minutes", type=float, default=1.0, help="that `life` lasts")
    parser.add_argument("--rows", type=int, default=1_000_000, help="that `records` pages through")
    parser.add_argument("--due", type=int, default=100_000, help="transactions that expire at once")
    parser.add_argument("--idle", type=int, default=5_000, help="idle connections")
    parser.add_argument("--to", type=Path, default=HERE, help="where results are kept")
    given = parser.parse_args()
    unknown = set(given.names) - set(SUITE)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    machine.check()
    machine.pin(os.getpid(), machine.LOAD_CORE)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))  # All servers end with us.
    failed = []
    for name in given.names or SUITE:
        begin = time.monotonic()
        try:
            measure(name, given)
        except Exception:  # The others are worth having all the same.
            traceback.print_exc()
            failed.append(name)
        print(f"({name}: {time.monotonic() - begin:.0f} s)\n", flush=True)
    if failed:
        sys.exit(f"These couldn't be measured: {', '.join(failed)}.")


def measure(name: str, given: argparse.Namespace) -> None:
    """One benchmark, from an empty folder to its place on the page."""
    with tempfile.TemporaryDirectory(prefix="mmo-bench-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL doesn't run as root, and must reach its folder.
        amounts = (given.rounds, given.seconds, given.minutes, given.rows, given.due, given.idle)
        outcome = SUITE[name](Options(Path(folder), *amounts))
    about = f"{machine.describe()}; load: {machine.load_generator()}"
    report.save(outcome, given.to / "results", machine=about, on=f"{dt.date.today()}")
    if outcome.series:
        (given.to / "rising.svg").write_text(plot(outcome.series))
    kept = report.load(given.to / "results", SUITE)
    (given.to / "RESULTS.md").write_text(report.page(kept))
    print(report.section(next(each for each in kept if each["name"] == name)))


if __name__ == "__main__":
    main()

"""`python -m bench [NAME …]` measures in turn, saves the outcomes, and writes RESULTS.md.

It needs Linux, two cores, and the packages of the dependency group `bench`; wrk is used if it is
installed, and one rival of `whole_life` needs redis-server."""

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

from bench import machine, report, summary
from bench.options import Options
from bench.plot import plot
from bench.servers import HERE
from bench.suite import SUITE


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SUITE)}")
    parser.add_argument("--rounds", type=int, default=5, help="of each server, in turn")
    parser.add_argument("--seconds", type=int, default=5, help="that each round lasts")
    parser.add_argument("--minutes", type=float, default=1.0, help="that `life` lasts")
    parser.add_argument("--rows", type=int, default=1_000_000, help="that `records` pages through")
    parser.add_argument("--due", type=int, default=100_000, help="transactions that expire at once")
    parser.add_argument("--idle", type=int, default=5_000, help="idle connections")
    parser.add_argument("--to", type=Path, default=HERE, help="where results are kept")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(SUITE)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    machine.check()
    machine.pin(os.getpid(), machine.LOAD_CORE)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))  # All servers end with us.
    failed = []
    for name in arguments.names or SUITE:
        begin = time.monotonic()
        try:
            measure(name, arguments)
        except Exception:  # The others are worth having all the same.
            traceback.print_exc()
            failed.append(name)
        print(f"({name}: {time.monotonic() - begin:.0f} s)\n", flush=True)
    if failed:
        sys.exit(f"These couldn't be measured: {', '.join(failed)}.")


def measure(name: str, arguments: argparse.Namespace) -> None:
    """Run one benchmark in an empty folder and save its outcome."""
    with tempfile.TemporaryDirectory(prefix="mmo-bench-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL doesn't run as root, and must reach its folder.
        amounts = (
            arguments.rounds,
            arguments.seconds,
            arguments.minutes,
            arguments.rows,
            arguments.due,
            arguments.idle,
        )
        outcome = SUITE[name](Options(Path(folder), *amounts))
    about = f"{machine.describe()}; load: {machine.load_generator()}"
    report.save(outcome, arguments.to / "results", machine=about, on=f"{dt.date.today()}")
    saved = report.load(arguments.to / "results", SUITE)
    (arguments.to / "RESULTS.md").write_text(report.page(saved))
    plotted = summary.worst(saved)
    if plotted is not None:
        (arguments.to / "rising.svg").write_text(plot(plotted["series"]))
    if arguments.to == HERE and {*summary.NAMES} <= {each["name"] for each in saved}:
        summary.main()
    print(report.section(next(each for each in saved if report.is_of(each, outcome))))


if __name__ == "__main__":
    main()

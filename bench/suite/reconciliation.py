"""Measures how long a comparison of a statement with records takes, and how much memory, beside
pandas on the same two files."""

from __future__ import annotations

import csv
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from attrs import frozen

from bench.options import Options
from bench.report import Goal, Outcome, Table
from mmo_sansio.testing import numbered_reference

TIMES_MAX, MEMORY_MAX = 1.5, 0.25
"""How many times the time and the memory of pandas a comparison may take."""

THEIRS = """
import sys
import pandas

records = pandas.read_csv(sys.argv[2], dtype=str)
statement = pandas.read_csv(sys.argv[1], dtype=str)
joined = records.merge(statement, left_on="providerReference", right_on="Id", how="outer")
differs = joined[(joined["amount"] != joined["Amount"]) | joined["Id"].isna()]
print(len(differs))
"""
OURS = """
import sys
from mmo_trio.cli.__main__ import run

sys.argv = ["mmo", "records", "reconcile", "--statement", sys.argv[1], "--records", sys.argv[2],
            "--map", "receipt=Id", "--map", "amount=Amount", "--currency", "KES", "--json"]
run()
"""


@frozen
class Files:
    """Holds a statement, and the same payments by the records, in the form of each program."""

    statement: Path
    objects: Path
    """Transaction objects, one a line, as merchants fetch them."""
    table: Path
    """The same as a table for pandas, which has no reader of such objects."""


@frozen
class Run:
    """Is one run of a program."""

    took_s: float
    processor_s: float
    peak_mib: float


def run(options: Options) -> Outcome:
    """Compare a statement with as many records, in turn with pandas: a tenth of the rows in each
    round, and all of them once."""
    tables = [_compare(options.folder, options.rows // 10, options.rounds)[0]]
    table, times, memory = _compare(options.folder, options.rows, 1)
    tables.append(table)
    return Outcome(
        "reconciliation",
        f"A statement of {options.rows:,} lines is compared with as many records",
        "Each program is a process of its own, measured from its start to its end. Ours reads "
        "transaction objects as merchants fetch them; pandas has no reader of such objects, and "
        "gets the same payments as a table.",
        tables,
        [
            Goal("times the time of pandas", TIMES_MAX, times, at_most=True),
            Goal("times the memory of pandas", MEMORY_MAX, memory, at_most=True),
        ],
    )


def _compare(folder: Path, count: int, rounds: int) -> tuple[Table, float, float]:
    """Return a table of both programs, and how many times the time and the memory of pandas ours
    takes."""
    # The peak of a process counts that of its parent until its start, which has to stay small.
    with ProcessPoolExecutor(max_workers=1) as writer:
        files = writer.submit(_write_files, folder, count).result()
    ours, theirs = list[Run](), list[Run]()
    for _ in range(rounds):
        ours.append(_measure(OURS, files.statement, files.objects))
        theirs.append(_measure(THEIRS, files.statement, files.table))
    times = statistics.median(a.took_s / b.took_s for a, b in zip(ours, theirs, strict=True))
    processor = statistics.median(
        a.processor_s / b.processor_s for a, b in zip(ours, theirs, strict=True)
    )
    memory = statistics.median(a.peak_mib / b.peak_mib for a, b in zip(ours, theirs, strict=True))
    rows = [_row("mmo records reconcile", ours), _row("pandas, read_csv and merge", theirs)]
    rows.append(["ratio", f"{times:.2f}", f"{processor:.2f}", f"{memory:.2f}"])
    table = Table(
        f"{count:,} lines, the median; rounds in turn: {rounds}",
        ("program", "s", "s of the processor", "MiB at most"),
        rows,
        "parsing transaction objects as JSON, which pandas gets as a table, and checking each "
        "cell.",
    )
    return table, times, memory


def _row(name: str, runs: Sequence[Run]) -> list[str]:
    took_s = statistics.median(each.took_s for each in runs)
    peak_mib = statistics.median(each.peak_mib for each in runs)
    processor_s = statistics.median(each.processor_s for each in runs)
    return [name, f"{took_s:.2f}", f"{processor_s:.2f}", f"{peak_mib:.0f}"]


def _measure(program: str, *files: Path) -> Run:
    """Run a program to its end, which exit code 1 of a difference is as well."""
    began_at = time.monotonic()
    arguments = [sys.executable, "-c", program, *map(str, files)]
    null = os.open(os.devnull, os.O_WRONLY)
    process = os.posix_spawn(
        sys.executable, arguments, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)]
    )
    os.close(null)
    _, status, usage = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise RuntimeError("A program has failed.")
    processor_s = usage.ru_utime + usage.ru_stime
    return Run(time.monotonic() - began_at, processor_s, usage.ru_maxrss / 1024)


def _write_files(folder: Path, count: int) -> Files:
    """Write payments of which one in a thousand differs."""
    files = Files(folder / "statement.csv", folder / "records.ndjson", folder / "records.csv")
    order = random.Random(29)
    at = "2026-11-20T10:00:00.000001Z"
    numbers = list(range(count))
    order.shuffle(numbers)
    with files.statement.open("w", newline="") as statement:
        writer = csv.writer(statement)
        writer.writerow(["Id", "Date", "Details", "Amount", "Balance"])
        for number in numbers:
            more = number % 1000 == 0
            details = f"Pay Bill from 2547{number % 10**8:08}"
            writer.writerow([f"UK{number:08}", at, details, f"{10 + number % 900 + more}.00", "0"])

    with files.objects.open("w") as objects, files.table.open("w", newline="") as table:
        writer = csv.writer(table)
        for number in range(count):
            money = {"value": 10 + number % 900, "currency": "KES"}
            payment = {
                "status": "success",
                "type": "payin",
                "flow": "direct",
                "gatewayReference": numbered_reference(number + 1),
                "merchantReference": f"order-{number}",
                "reconciliationReference": f"order-{number}",
                "providerReference": f"UK{number:08}",
                "party": {"id": "customer", "msisdn": f"2547{number % 10**8:08}"},
                "method": "mpesa_ke",
                "country": "KE",
                "requestedAmount": money,
                "finalAmount": money,
                "labels": None,
                "createdAt": at,
                "completedAt": at,
                "completionSource": "webhook",
                "errorCode": None,
                "errorMessage": None,
                "providerData": {"name": "mpesa", "title": "M-Pesa", "fee": None},
            }
            objects.write(json.dumps(payment) + "\n")
            flat = payment | {"amount": f"{10 + number % 900}.00", "msisdn": f"2547{number:08}"}
            cells = {key: flat[key] for key in flat if not isinstance(flat[key], dict)}
            if number == 0:
                writer.writerow(cells)
            writer.writerow(cells.values())
    return files

"""Measures what a dump that takes long costs the payments meanwhile: its snapshot keeps all dead
rows."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from attrs import frozen

from bench import load, machine, merchants, servers
from bench.load import DIRECT
from bench.merchants import Receivers
from bench.options import Options
from bench.report import Goal, Outcome, Table
from bench.suite.life import CONNECTIONS, MERCHANTS, WINDOW

RATE_PER_S = 130.0
WARM_UP_S = 20.0
WINDOW_S = 60.0
DUMP_WINDOWS = 3
GOAL_RATIO = 1.5


@frozen
class Measured:
    """Holds what the database spent in one window."""

    payments: int
    cpu_us: float
    """Processor time of the database for each payment."""


def run(options: Options) -> Outcome:
    """Lead payments through their lives at a steady rate: without a dump, during one of three
    minutes, and after it."""
    folder, keys = options.folder, [merchants.key_of(number) for number in range(MERCHANTS)]
    with ExitStack() as stack:
        database = stack.enter_context(servers.postgres(folder, is_spread=True))
        dsn = database.fresh("snapshot")
        receivers = stack.enter_context(merchants.receivers(folder, keys))
        server = stack.enter_context(
            servers.gateway(
                folder, brands=merchants.brands(MERCHANTS), environment={"MMO_DATABASE_URL": dsn}
            )
        )
        child = load.start(
            server,
            DIRECT,
            seconds=WARM_UP_S + WINDOW_S * (DUMP_WINDOWS + 2),
            connections=CONNECTIONS,
            merchants=merchants.write(
                folder / "merchants", [(key, receivers.well, "w") for key in keys]
            ),
            rate=RATE_PER_S,
            window=(WINDOW, receivers.counter),
        )
        time.sleep(WARM_UP_S)
        before = _measure(database.pid, receivers)
        with _unread_dump(database, dsn):
            during = [_measure(database.pid, receivers) for _ in range(DUMP_WINDOWS)]
        after = _measure(database.pid, receivers)
        measured = load.finish(child)
        about_database = database.version()
    assert measured.bad == 0, f"{measured.bad} creates were refused"
    ratio = during[-1].cpu_us / ((before.cpu_us + after.cpu_us) / 2)
    return Outcome(
        "snapshot",
        "During a long dump",
        f"Direct pay-ins of {MERCHANTS} brands from the create to the delivered callback, "
        f"{RATE_PER_S:g} a second, one"
        f" process; `pg_dump` stands still in the middle, as its output is not read; "
        f"{about_database}, gateway,"
        " receivers and load share both cores.",
        [_table(before, during, after)],
        [Goal("last minute of the dump : minutes without", GOAL_RATIO, ratio, " x", at_most=True)],
    )


def _measure(database_pid: int, receivers: Receivers) -> Measured:
    came, cpu_s = receivers.so_far(), machine.cpu_s(database_pid)
    time.sleep(WINDOW_S)
    payments = receivers.so_far() - came
    return Measured(payments, (machine.cpu_s(database_pid) - cpu_s) / payments * 1e6)


@contextmanager
def _unread_dump(database: servers.Database, dsn: str) -> Iterator[None]:
    """Let a dump wait for its reader within the block."""
    dump = subprocess.Popen([str(database.programs / "pg_dump"), dsn], stdout=subprocess.PIPE)
    try:
        yield
        assert dump.poll() is None, "the dump has ended early"
    finally:
        dump.kill()
        dump.communicate()


def _table(before: Measured, during: Sequence[Measured], after: Measured) -> Table:
    windows = [
        ("before the dump", before),
        *((f"minute {nth} of the dump", each) for nth, each in enumerate(during, 1)),
        ("after the dump", after),
    ]
    return Table(
        "processor time of the database for each payment",
        ["window of 60 s", "payments", "µs each"],
        [[name, f"{each.payments:,}", f"{each.cpu_us:,.0f}"] for name, each in windows],
        "dead versions of rows that each payment leaves behind, and that no vacuum may remove.",
    )

"""Measures how fast very many due transactions expire, and the effect on other requests."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from bench import load, machine, servers
from bench.load import GONE
from bench.million import SAMPLE, fill
from bench.options import Options
from bench.report import Goal, Outcome, Table
from mmo_sansio.testing import START, a_transaction, numbered_reference
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Span, earlier
from mmo_sansio.values.model import Party, Stage
from mmo_trio.sandbox.demo_brand import DEMO_BRAND_ID
from mmo_trio.workers.scheduler import ROUND_SIZE_MAX

OTHERS_PER_S = 100.0
OTHERS_CONNECTIONS = 8
PATIENCE_S = 600.0
GOAL_EACH_US = 150.0
"""As 15 s for 100,000."""
GOAL_OTHERS_MS = 25.0


def run(options: Options) -> Outcome:
    """Start the gateway with due transactions, and send look-ups at a low rate during and after the
    expiry."""
    folder, due = options.folder, options.due
    like = a_transaction(
        Stage.AWAITING_RESULT,
        brand=DEMO_BRAND_ID,
        method="mpesa_ke",
        provider="sandbox",
        provider_title="Sandbox",
        party=Party("customer-7", "254700000007"),
        result_url=GONE,
        wake_at=START,
    )
    # All of them were created long ago, so that they have expired, not only waited.
    fill(folder, like, due, begin=earlier(START, Span(due * clock.SECOND)))
    references = folder / "references"
    sample = range(0, due, max(1, due // SAMPLE))
    references.write_text("".join(f"{numbered_reference(each)}\n" for each in sample))
    asked = load.look_ups(references)
    done = folder / "done"
    with servers.gateway(folder) as server:
        begin, before = time.monotonic(), machine.cpu_s(server.pid)
        others = load.start(
            server,
            asked,
            seconds=PATIENCE_S,
            connections=OTHERS_CONNECTIONS,
            rate=OTHERS_PER_S,
            until=done,
        )
        expired_s = _wait_for(folder / "gateway.db", _PENDING, begin)
        called_s = _wait_for(folder / "gateway.db", _OPEN, begin)
        used_s = machine.cpu_s(server.pid) - before
        done.touch()
        meanwhile = load.finish(others)
        peak = machine.resident_kib(server.pid) / 1024
        machine.wait_until_quiet(server.pid)
        calm = load.finish(
            load.start(server, asked, seconds=10, connections=OTHERS_CONNECTIONS, rate=OTHERS_PER_S)
        )
    table = Table(
        f"{due:,} transactions that are due when the gateway starts",
        (
            "all expired after s",
            "per s",
            "all callbacks concluded after s",
            "server µs each",
            "resident MiB",
            "others' p50, p99 ms meanwhile",
            "afterwards",
        ),
        [
            [
                f"{expired_s:.1f}",
                f"{due / expired_s:,.0f}",
                f"{called_s:.1f}",
                f"{used_s / due * 1e6:,.0f}",
                f"{peak:.0f}",
                f"{meanwhile.p50_ms:.1f}, {meanwhile.p99_ms:.1f}",
                f"{calm.p50_ms:.1f}, {calm.p99_ms:.1f}",
            ]
        ],
        f"the server's core: two decisions for each, in rounds of {ROUND_SIZE_MAX}, each of which "
        f"waits for the one"
        " before it, so that others get their turn in between.",
    )
    return Outcome(
        "expiry",
        "Expiry",
        "Every one fails with transaction_expired and is called back; nobody listens there, so"
        " that after five the"
        f" breaker concludes the rest. Meanwhile {OTHERS_PER_S:g} look-ups a second from"
        f" {OTHERS_CONNECTIONS}"
        " connections, timed from when each was due.",
        [table],
        [
            Goal(
                f"{due:,} transactions expire",
                due * GOAL_EACH_US / 1e6,
                expired_s,
                " s",
                at_most=True,
            ),
            Goal(
                "p99 of the others' look-ups meanwhile",
                GOAL_OTHERS_MS,
                meanwhile.p99_ms,
                " ms",
                at_most=True,
            ),
        ],
    )


_PENDING = "SELECT 1 FROM transactions WHERE wake_at IS NOT NULL LIMIT 1"
_OPEN = "SELECT 1 FROM intents WHERE kind = 'callback' LIMIT 1"


def _wait_for(path: Path, question: str, begin: float) -> float:
    """Return the seconds until a query finds nothing."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        while connection.execute(question).fetchone() is not None:
            took_s = time.monotonic() - begin
            assert took_s < PATIENCE_S, f"not done after {took_s:.0f} s"
            time.sleep(0.1)
    finally:
        connection.close()
    return time.monotonic() - begin

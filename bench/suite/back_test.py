"""Measures how long the back-test of a changed configuration takes over the payments of a day, on
each store."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal

import trio
from attrs import evolve, frozen
from tests.conformance.driver import submit_batch
from tests.conformance.inputs import brand, creation, failed, reference, succeeded

from bench import servers
from bench.options import Options
from bench.report import Goal, Outcome, Table
from mmo_sansio.messages.inputs import BeginSubmission, Input
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.model import Brand, Limits, Type
from mmo_sansio.values.money import Money
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.admin.change_control import BackTestPair, ConfigurationChanges
from mmo_trio.storage.interface.admin_types import AuditKey, ConfigurationChange
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import open_sqlite

PAYMENTS = 100_000
BATCH = 100
BEGIN = Instant(20_000 * clock.DAY)
EVERY = Span(clock.DAY // PAYMENTS)
"""The interval between two payments."""
SECONDS_MAX = 3.0


@frozen
class Measured:
    """Holds the times of the back-tests on one store, in seconds, and what they found."""

    store: str
    took_s: list[float]
    found: BackTestPair

    @property
    def median_s(self) -> float:
        return statistics.median(self.took_s)

    @property
    def row(self) -> list[str]:
        """The cells of the table."""
        accepted = (f"{each.accepted:,}" for each in (self.found.before, self.found.after))
        return [self.store, f"{self.median_s:.2f}", f"{max(self.took_s):.2f}", *accepted]


def run(options: Options) -> Outcome:
    """Back-test one change over the same day on SQLite and on PostgreSQL."""
    file = options.folder / "back_test.db"
    measured = [_measure("SQLite", lambda: open_sqlite(file, serving=True), options.rounds)]
    with servers.postgres(options.folder) as database:
        url = database.fresh("back_test")
        measured.append(
            _measure("PostgreSQL", lambda: open_postgres(url, serving=True), options.rounds)
        )
    return Outcome(
        "back_test",
        "The back-test of a changed configuration",
        f"{PAYMENTS:,} pay-ins of one brand in one day, of which one in four has failed; the "
        f"change lowers the largest"
        " amount and the sum of a day. Both versions are judged in one pass.",
        [
            Table(
                "from the request for the page to its figures",
                ("store", "median s", "longest s", "accepted before", "accepted after"),
                [each.row for each in measured],
                "the process's own core: rows are read a thousand at a time, and judged twice.",
            )
        ],
        [
            Goal(
                f"back-test of {PAYMENTS:,} payments, {each.store}",
                SECONDS_MAX,
                each.median_s,
                " s",
                at_most=True,
            )
            for each in measured
        ],
    )


def _measure(
    name: str, open_store: Callable[[], AbstractAsyncContextManager[Store]], rounds: int
) -> Measured:
    async def measure() -> Measured:
        async with open_store() as store:
            await _fill(store)
            changes = ConfigurationChanges(
                store.admin, AuditLog(store.admin, AuditKey("bench", bytes(32)), lambda: BEGIN)
            )
            change = ConfigurationChange(0, brand(), _tightened(brand()), "bench", "bench", BEGIN)
            took_s = []
            for _ in range(max(1, rounds)):
                since = time.perf_counter()
                found = await changes.back_test(change, BEGIN // clock.DAY)
                took_s.append(time.perf_counter() - since)
            assert found.is_complete
            return Measured(name, took_s, found)

    return trio.run(measure)


async def _fill(store: Store) -> None:
    """Write the payments of the day, each of which ends ten intervals after its creation."""
    for first in range(0, PAYMENTS, BATCH):
        numbers = range(first, first + BATCH)
        await _submit(store, numbers, _creation, delay=0)
        await _submit(store, numbers, lambda number: BeginSubmission(reference(number)), delay=1)
        await _submit(
            store,
            numbers,
            lambda number: failed(number) if number % 4 == 0 else succeeded(number),
            delay=10,
        )


async def _submit(
    store: Store, numbers: range, make: Callable[[int], Input], *, delay: int
) -> None:
    await submit_batch(
        store,
        *(
            (make(number), later(BEGIN, Span((number + delay) * EVERY + delay)))
            for number in numbers
        ),
    )


def _creation(number: int) -> Input:
    made = creation(number)
    amount = Decimal(100 + number * 7919 % 10_000)
    return evolve(made, draft=evolve(made.draft, amount=amount))


def _tightened(configured: Brand) -> Brand:
    """Return the brand with half of the largest amount that is requested, and a limit of each
    day."""
    limits = Limits(
        Money(1_000, "KES"), Money(500_000, "KES"), {Type.PAYIN: Money(10_000_000_000, "KES")}
    )
    return evolve(
        configured,
        methods=tuple(
            evolve(each, limits={**each.limits, "KES": limits}) for each in configured.methods
        ),
    )

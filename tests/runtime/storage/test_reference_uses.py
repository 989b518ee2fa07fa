"""References whose newest use was written by a version that let a pending payment be repeated, and that recorded
nothing about the payments before (C12)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from attrs import evolve

from mmo_sansio.messages.inputs import BeginSubmission, Input
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.model import ReferenceReuse, ReusePolicy, Status
from mmo_trio.storage.conformance.driver import NOON, OpenStore, submit_batch
from mmo_trio.storage.conformance.inputs import creation, failed, reference, succeeded
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sqlite import open_sqlite

LOOSE, DEFAULT = ReusePolicy.same_for_all(ReferenceReuse.AFTER_WINDOW), ReusePolicy()
RESULTS: dict[Status, Callable[[int], Input]] = {Status.SUCCESS: succeeded, Status.FAILED: failed}
PENDING, PAID, FAILED = Status.PENDING, Status.SUCCESS, Status.FAILED

STORED = [
    ((PENDING, FAILED), DEFAULT, False),
    ((PENDING, FAILED), LOOSE, False),
    ((PENDING, PAID, FAILED), LOOSE, False),
    ((PAID, FAILED, FAILED), DEFAULT, False),
    ((PAID, FAILED, FAILED), LOOSE, True),
    ((FAILED, FAILED, FAILED), DEFAULT, True),
    ((FAILED,), DEFAULT, True),
]


def use(number: int, policy: ReusePolicy) -> tuple[Input, Instant]:
    given = creation(number, merchant_reference=f"order-{number}" if number < 9 else "order-1")
    now = later(NOON, Span(number * clock.HOUR))
    return evolve(given, brand=evolve(given.brand, reference_reuse=policy)), now


async def is_accepted_after(
    open_store: OpenStore, execute: Callable[[str], None], statuses: tuple[Status, ...], policy: ReusePolicy
) -> bool:
    """Whether the reference is taken again after payments under it that ended like this, the oldest first."""
    async with open_store() as store:
        for number, status in enumerate(statuses, 1):
            given, now = use(number, LOOSE)
            await submit_batch(store, (given, now), (BeginSubmission(reference(number)), later(now, Span(1))))
            if status in RESULTS:
                await submit_batch(store, (RESULTS[status](number), later(now, Span(2))))
    execute("UPDATE reference_uses SET earlier = NULL, merchant_reference = 'order-1'")
    async with open_store() as store:
        (reply,) = await submit_batch(store, use(9, policy))
        return isinstance(reply, Accepted)


@pytest.mark.spec("C12")
@pytest.mark.finding("security-6")
@pytest.mark.parametrize(("statuses", "policy", "is_accepted"), STORED)
async def test_an_older_file_is_read_whole(
    statuses: tuple[Status, ...], policy: ReusePolicy, is_accepted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "gateway.db"

    def execute(statement: str) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)

    accepted = await is_accepted_after(lambda: open_sqlite(path, serving=True), execute, statuses, policy)
    assert accepted is is_accepted


@pytest.mark.spec("C12")
@pytest.mark.finding("security-6")
@pytest.mark.parametrize(("statuses", "policy", "is_accepted"), STORED)
async def test_an_older_database_is_read_whole(
    statuses: tuple[Status, ...], policy: ReusePolicy, is_accepted: bool, database: str
) -> None:
    numbered = ", nth = CAST(right(gateway_reference, 1) AS integer)"

    def execute(statement: str) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(f"{statement}{numbered}".encode())

    accepted = await is_accepted_after(lambda: open_postgres(database, serving=True), execute, statuses, policy)
    assert accepted is is_accepted

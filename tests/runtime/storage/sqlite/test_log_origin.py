"""A backup that was put in the place of the database file, beside the log of before, is not served:
SQLite would make one store of the two, with payments missing in the middle."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import Random

import pytest
from attrs import define, field

from mmo_sansio.testing import a_brand, a_create_payment, numbered_reference
from mmo_sansio.values.clock import SECOND, MonotonicInstant
from mmo_trio.engine.engine import submit_once
from mmo_trio.storage.interface.store import StoreUnavailable, StoreUnusable
from mmo_trio.storage.sqlite import SqliteStore
from mmo_trio.storage.sqlite.open_files import log_name, log_path
from mmo_trio.storage.sqlite.writer import WriteAttempt
from tests.support.effort import by_effort
from tests.support.sqlite_store import StoreFile, TrioClock

SEEDS = range(by_effort(8, 60))
COUNT = 60
NOTHING = "UPDATE store_state SET epoch = 0 WHERE epoch < 0"
CHANGE = "UPDATE store_state SET command_epoch = command_epoch + 1"
STEPS = ("pay", "wait", "begin log", "back up", "change nothing", "crash")
WEIGHTS = (6, 3, 1, 2, 2, 1)


class SteppedClock(TrioClock):
    """Shows a time that the test sets."""

    seconds = 0

    def monotonic(self) -> MonotonicInstant:
        return MonotonicInstant(self.seconds * SECOND)


@define(eq=False)
class Served:
    """A store that is served, with what it had when each of its backups was made."""

    file: StoreFile
    store: SqliteStore
    clock: SteppedClock
    payments: int = 0
    log_began: tuple[int, int] = (0, 0)
    """How many payments there were, and at which epoch, before the present log was begun."""
    backups: list[tuple[int, int, bytes]] = field(factory=list)
    """Payments, epoch and database."""

    def epoch(self) -> int:
        with closing(sqlite3.connect(self.file.path)) as other:
            return int(other.execute("SELECT epoch FROM store_state").fetchone()[0])

    async def pay(self) -> None:
        log, epoch = log_name(self.file.path), self.epoch()
        reference = numbered_reference(self.payments)
        created = a_create_payment(reference, merchant_reference=f"order-{self.payments}")
        await submit_once(self.store, created, clock=self.clock)
        if log_name(self.file.path) != log:
            self.log_began = (self.payments, epoch)
        self.payments += 1

    def begin_log(self) -> None:
        """Copy the log into the database file; the next commit begins another."""
        with closing(sqlite3.connect(self.file.path)) as other:
            assert other.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0

    def back_up(self) -> None:
        with closing(sqlite3.connect(self.file.path)) as other:
            self.backups.append((self.payments, self.epoch(), other.serialize()))


@asynccontextmanager
async def served(file: StoreFile) -> AsyncIterator[Served]:
    clock = SteppedClock()
    async with file.open(clock=clock) as store:
        await store.admin.save_brands([a_brand()])
        yield Served(file, store, clock)


def crashed(file: StoreFile, database: bytes | None = None) -> StoreFile:
    """The files as a crash leaves them, with another database file beside the log if need be."""
    left = StoreFile()
    left.path.write_bytes(database or file.path.read_bytes())
    Path(log_path(left.path)).write_bytes(Path(log_path(file.path)).read_bytes())
    return left


async def found_in(file: StoreFile, payments: int) -> Sequence[bool]:
    async with file.open() as store:
        stored = await store.transactions([numbered_reference(each) for each in range(payments)])
        return [numbered_reference(each) in stored for each in range(payments)]


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_log_is_read_with_no_file_that_lacks_what_came_before_it(seed: int) -> None:
    random, file = Random(seed), StoreFile()
    left = list[tuple[StoreFile, int]]()
    older = list[StoreFile]()
    async with served(file) as gateway:
        for _ in range(COUNT):
            step = random.choices(
                ("pay", "wait", "begin log", "back up", "crash"), (6, 3, 1, 2, 1)
            )[0]
            if step == "pay":
                await gateway.pay()
            elif step == "wait":
                gateway.clock.seconds += 1
            elif step == "begin log":
                gateway.begin_log()
            elif step == "back up":
                gateway.back_up()
            elif step == "change nothing":
                await gateway.store._writer.write(lambda connection: connection.execute(NOTHING))
            else:
                left.append((crashed(file), gateway.payments))

        # The second commit of a log notes it.
        await gateway.pay()
        await gateway.pay()
        left.append((crashed(file), gateway.payments))
        for payments, epoch, database in gateway.backups:
            before_payments, before_epoch = gateway.log_began
            if payments >= before_payments:
                left.append((crashed(file, database), gateway.payments))
            elif epoch < before_epoch:  # Not of the same second.
                older.append(crashed(file, database))

    for whole, paid in left:
        assert all(await found_in(whole, paid))

    for mixture in older:
        paths = (mixture.path, Path(log_path(mixture.path)))
        files = {path: path.read_bytes() for path in paths}
        for serving in (False, True):
            with pytest.raises(StoreUnusable, match="is the log of a newer file"):
                async with mixture.open(serving=serving):
                    pass
        assert files == {path: path.read_bytes() for path in files}, "nothing was copied"


async def test_the_log_of_a_store_that_was_moved_with_it_is_its_own(tmp_path: Path) -> None:
    file = StoreFile()
    async with served(file) as gateway:
        gateway.begin_log()
        for _ in range(3):
            await gateway.pay()
        moved = crashed(file)

    assert all(await found_in(moved, 3))
    assert not log_name(moved.path), "it was copied into the file at the end"
    assert all(await found_in(moved, 3))


@pytest.mark.parametrize("between", ["nothing", "no change", "given up"])
async def test_a_log_that_was_begun_as_the_epoch_rose_is_its_file_s_own(between: str) -> None:
    file = StoreFile()
    async with served(file) as gateway:
        await gateway.pay()
        gateway.begin_log()
        gateway.clock.seconds += 1
        log = log_name(file.path)
        await gateway.store._writer.write(lambda connection: connection.execute(CHANGE))
        assert log_name(file.path) != log
        if between == "no change":
            await gateway.store._writer.write(lambda connection: connection.execute(NOTHING))
        elif between == "given up":
            attempt = WriteAttempt()

            def give_up(connection: sqlite3.Connection) -> None:
                connection.execute(CHANGE)
                attempt.abandon()

            with pytest.raises(StoreUnavailable):
                await gateway.store._writer.write(give_up, attempt)
        for _ in range(2):
            await gateway.store._writer.write(lambda connection: connection.execute(CHANGE))
            gateway.clock.seconds += 1
        left = crashed(file)

    assert await found_in(left, 1) == [True]

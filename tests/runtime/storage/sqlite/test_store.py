"""What only SQLite can suffer: full disks, other people's locks, damage, sudden death, a second
server."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded, Input
from mmo_sansio.messages.queries import ListRecords, LookUp
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.values.clock import Instant, Span, later
from mmo_trio.storage.interface.store import (
    OutcomeUnknown,
    StoreCorrupt,
    StoreUnavailable,
    StoreUnusable,
)
from mmo_trio.storage.sqlite import SqliteStore, connection, open_sqlite, startup
from mmo_trio.storage.sqlite.statements import ROWS_PER_STATEMENT
from mmo_trio.storage.sqlite.writer import SqliteWriter
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import DELIVERED, brand, creation, reference, succeeded
from tests.support.store_timeouts import set_timeout
from tests.support.time_limits import HANGS_AFTER_S


async def creates(store: SqliteStore, *numbers: int) -> None:
    await submit_batch(
        store, *((creation(number), later(NOON, Span(number))) for number in numbers)
    )


async def test_every_row_of_a_batch_is_stored_once_and_in_order_whatever_its_size(
    tmp_path: Path,
) -> None:
    sizes = (
        1,
        ROWS_PER_STATEMENT - 1,
        ROWS_PER_STATEMENT,
        ROWS_PER_STATEMENT + 1,
        3 * ROWS_PER_STATEMENT + 5,
    )
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        first = 0
        for size in sizes:
            await creates(store, *range(first, first + size))
            first += size
        writer = store._writer.connection
        assert writer is not None
        wanted = [(reference(number),) for number in range(first)]
        for table in ("transactions", "journal", "intents"):
            rows = writer.execute(f"SELECT gateway_reference FROM {table} ORDER BY id").fetchall()
            assert rows == wanted
        uses = writer.execute("SELECT gateway_reference FROM reference_uses ORDER BY at").fetchall()
        assert uses == wanted
        assert not await store.integrity_errors()


@pytest.mark.spec("P5", "K3")
@pytest.mark.parametrize(
    "row",
    [
        "INSERT ON transactions",
        "UPDATE ON transactions",
        "INSERT ON reference_uses",
        "INSERT ON intents",
        "DELETE ON intents",
        "INSERT ON journal",
        "INSERT ON callbacks",
        "INSERT ON figures",
    ],
)
async def test_of_a_batch_one_of_whose_rows_cannot_be_written_nothing_is_stored(
    row: str, tmp_path: Path
) -> None:
    """A callback that was concluded would else be without its record, and a payment without the use
    of its reference."""
    path = tmp_path / "gateway.db"
    async with open_sqlite(path, serving=True) as store:
        await creates(store, 1, 2)
        await submit_batch(
            store, (BeginSubmission(reference(1)), NOON), (succeeded(1), later(NOON, Span(5)))
        )
        writer = store._writer.connection
        assert writer is not None
        before = _dump(path)
        # It ends with the connection, which the error closes.
        refusal = "SELECT RAISE(ABORT, 'a row that cannot be written')"
        writer.execute(f"CREATE TEMP TRIGGER refusing BEFORE {row} BEGIN {refusal}; END")
        batch: Sequence[tuple[Input, Instant]] = (
            (creation(3), later(NOON, Span(6))),
            (BeginSubmission(reference(2)), later(NOON, Span(7))),
            (succeeded(2), later(NOON, Span(8))),
            (CallbackConcluded(reference(1), DELIVERED), later(NOON, Span(9))),
        )
        with pytest.raises(sqlite3.IntegrityError, match="a row that cannot be written"):
            await submit_batch(store, *batch)
        assert _dump(path) == before

        await submit_batch(store, *batch)
        assert len(await store.admin.callbacks()) == 1
        assert not await store.integrity_errors()


def _dump(path: Path) -> Sequence[str]:
    """Return all rows of a file."""
    with closing(sqlite3.connect(path)) as file:
        return [*file.iterdump()]


@pytest.mark.spec("C6")
async def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    victim = await trio.lowlevel.open_process(
        [sys.executable, "-m", "tests.support.store_process", str(path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[4],
    )
    assert victim.stdout is not None
    with trio.fail_after(HANGS_AFTER_S):
        lines = b""
        while lines.count(b"\n") < 30:
            lines += await victim.stdout.receive_some()
        victim.kill()
        async for rest in victim.stdout:
            lines += rest
        await victim.wait()
        answered = int(lines.rpartition(b"\n")[0].split()[-1])
        async with open_sqlite(path, serving=True) as store:
            assert not await store.integrity_errors()
            for number in range(answered + 1):
                assert await store.transaction(reference(number)) is not None
            stored = len(await store.admin.find_transactions(limit=10**6))
            assert stored % 7 == 0, "half a batch was stored"
            assert len(await store.claim_abandoned(limit=10**6)) == stored


@pytest.mark.spec("P5")
async def test_a_full_disk_is_unavailable_and_service_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
            await creates(store, 0)
            writer = store._writer.connection
            assert writer is not None
            (pages,) = writer.execute("PRAGMA page_count").fetchone()
            writer.execute(f"PRAGMA max_page_count = {pages}")
            with pytest.raises(StoreUnavailable):
                await creates(store, *range(1, 200))
            assert await store.transaction(reference(1)) is None
            assert await store.look_up(LookUp("acme", reference(0))) is not None
            assert store._writer.connection is not None
            store._writer.connection.execute("PRAGMA max_page_count = 1000000")
            await creates(store, *range(1, 200))
            assert await store.transaction(reference(199)) is not None
            assert not await store.integrity_errors()


@pytest.mark.spec("P5")
async def test_a_file_locked_by_somebody_else_is_unavailable_until_it_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "gateway.db"
    with trio.fail_after(HANGS_AFTER_S):
        async with open_sqlite(path, serving=True) as store:
            await creates(store, 0)
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(StoreUnavailable):
                await creates(store, 1)
            with pytest.raises(StoreUnavailable):
                await store.check()
            assert await store.transaction(reference(0)) is not None, "readers go on"
            other.execute("ROLLBACK")
            other.close()
            await creates(store, 1)
            await store.check()


async def test_a_command_opens_a_file_while_a_commit_of_the_gateway_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "gateway.db"
    async with open_sqlite(path, serving=True) as store:
        await creates(store, 0)
        writer = store._writer.connection
        assert writer is not None
        writer.execute("BEGIN IMMEDIATE")
        async with open_sqlite(path, serving=False) as administration:
            assert await administration.transaction(reference(0)) is not None
        writer.execute("ROLLBACK")


@pytest.mark.spec("P5")
async def test_a_file_that_is_gone_is_unavailable_and_never_replaced_by_an_empty_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "gateway.db"
    with trio.fail_after(HANGS_AFTER_S):
        async with open_sqlite(path, serving=True) as store:
            await creates(store, 0)
            assert store._writer.connection is not None
            store._files.forget_log()
            store._writer.connection.close()
            store._writer.connection = None  # As after an I/O error.
            path.rename(tmp_path / "elsewhere.db")
            with pytest.raises(StoreUnavailable):
                await creates(store, 1)
            assert not path.exists()
            (tmp_path / "elsewhere.db").rename(path)
            await creates(store, 1)


def modes_in(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}


async def test_the_files_are_for_their_owner_only(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await creates(store, 1)
        modes = modes_in(tmp_path)
    assert set(modes) >= {"gateway.db", "gateway.db-wal", "gateway.db.lock"}
    assert set(modes.values()) == {0o600}
    with pytest.raises(StoreUnavailable, match="nowhere"):
        async with open_sqlite(tmp_path / "nowhere" / "gateway.db", serving=False):
            pass


@pytest.mark.spec("P5")
async def test_an_io_error_while_committing_leaves_the_outcome_unknown_and_service_goes_on(
    tmp_path: Path,
) -> None:
    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql == "COMMIT":
                super().execute(sql)  # It got to the disk, and nobody knows.
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
                raise error
            return super().execute(sql, *values)

    path = tmp_path / "gateway.db"
    with trio.fail_after(HANGS_AFTER_S):
        async with open_sqlite(path, serving=True) as store:
            await creates(store, 0)
            before, store._writer.connection = (
                store._writer.connection,
                sqlite3.connect(
                    path, factory=Failing, isolation_level=None, check_same_thread=False
                ),
            )
            store._writer.connection.execute(
                "SELECT 1 FROM sqlite_schema"
            )  # So that the log outlives the other one.
            assert before is not None
            before.close()
            with pytest.raises(OutcomeUnknown):
                await creates(store, 1)
            await creates(store, 2)
            (work,) = await store.claim_abandoned(limit=10)
            assert work.intent.gateway_reference == reference(1)


async def test_a_long_page_does_not_hold_up_commits(tmp_path: Path) -> None:
    reading, may_go_on = threading.Event(), threading.Event()

    def slow(asked: sqlite3.Connection) -> int:
        (before,) = asked.execute("SELECT count(*) FROM transactions").fetchone()
        reading.set()
        assert may_go_on.wait(20)
        (after,) = asked.execute("SELECT count(*) FROM transactions").fetchone()
        assert before == after, "a question sees one snapshot"
        return int(after)

    with trio.fail_after(HANGS_AFTER_S):
        async with (
            open_sqlite(tmp_path / "gateway.db", serving=True) as store,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(store._read, slow)
            await trio.to_thread.run_sync(reading.wait, 20)
            await creates(store, 1)
            assert await store.look_up(LookUp("acme", reference(1))) is not None
            may_go_on.set()


@pytest.mark.spec("R7")
async def test_records_wait_for_a_commit_that_has_dated_payments_in_their_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, reached = threading.Event(), threading.Event()
    commit = SqliteWriter._commit

    def slow_commit(writer: SqliteWriter, connection: sqlite3.Connection) -> None:
        reached.set()
        assert may_go_on.wait(20)
        commit(writer, connection)

    async def release_soon() -> None:
        await trio.sleep(0.2)
        may_go_on.set()

    monkeypatch.setattr(SqliteWriter, "_commit", slow_commit)
    created = later(NOON, Span(1))
    with trio.fail_after(HANGS_AFTER_S):
        async with (
            open_sqlite(tmp_path / "gateway.db", serving=True) as store,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(creates, store, 1)
            await trio.to_thread.run_sync(reached.wait, 20)
            before = await store.list_records(
                ListRecords("acme", NOON, created)
            )  # Over when it was dated.
            nursery.start_soon(release_soon)
            until = await store.list_records(ListRecords("acme", NOON, later(created, Span(1))))
    assert (len(before.objects), len(until.objects)) == (0, 1)


async def test_a_second_server_is_refused_and_administration_is_not(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    with trio.fail_after(HANGS_AFTER_S):
        async with open_sqlite(path, serving=True) as store:
            with pytest.raises(StoreUnusable, match=r"stop it first.*PostgreSQL"):
                async with open_sqlite(path, serving=True):
                    pass
            async with open_sqlite(path, serving=False) as administration:
                await submit_batch(administration, (creation(1), NOON))
            (work,) = await store.claim_abandoned(limit=10)
            assert work.intent.gateway_reference == reference(1)
            assert not await store.claim_abandoned(limit=10)
        async with open_sqlite(path, serving=True):
            pass


async def test_a_file_of_another_program_or_a_later_version_is_left_alone(tmp_path: Path) -> None:
    foreign, later = tmp_path / "foreign.db", tmp_path / "later.db"
    with sqlite3.connect(foreign) as theirs:
        theirs.execute("CREATE TABLE recipes (name TEXT)")
    theirs.close()
    before = foreign.read_bytes()
    async with open_sqlite(later, serving=True):
        pass
    with sqlite3.connect(later) as ours:
        ours.execute(f"PRAGMA user_version = {max(startup.scripts()) + 1}")
    ours.close()
    for path, remedy in ((foreign, "another file"), (later, "install a later")):
        with pytest.raises(StoreUnusable, match=remedy):
            async with open_sqlite(path, serving=True):
                pass
    assert foreign.read_bytes() == before


@pytest.mark.spec("P5")
async def test_a_commit_that_takes_too_long_is_unknown_and_what_it_wanted_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, reached = threading.Event(), threading.Event()
    commit = SqliteWriter._commit

    def slow_commit(writer: SqliteWriter, connection: sqlite3.Connection) -> None:
        reached.set()
        assert may_go_on.wait(20)
        commit(writer, connection)

    monkeypatch.setattr(SqliteWriter, "_commit", slow_commit)
    with trio.fail_after(HANGS_AFTER_S):
        async with open_sqlite(tmp_path / "gateway.db", serving=True, timeout_s=1) as store:
            with pytest.raises(OutcomeUnknown):
                await creates(store, 1)
            assert reached.is_set()
            set_timeout(store, 0.05)
            with pytest.raises(StoreUnavailable):  # It never began: nothing of it will be stored.
                await creates(store, 2)
            set_timeout(store, 20)
            assert not await store.claim_abandoned(limit=10)
            may_go_on.set()
            await creates(store, 3)  # Waits for the slow one.
            found = await store.claim_abandoned(limit=10)
            assert [work.intent.gateway_reference for work in found] == [reference(1)]
            assert not await store.claim_abandoned(limit=10)
            assert await store.transaction(reference(2)) is None


@pytest.mark.spec("P5")
async def test_a_batch_that_was_given_up_before_its_commit_is_not_stored(tmp_path: Path) -> None:
    may_go_on = threading.Event()

    def slow_decide(ledger: Ledger) -> Sequence[Decision]:
        assert may_go_on.wait(20)
        return ()

    with trio.fail_after(HANGS_AFTER_S):
        async with open_sqlite(tmp_path / "gateway.db", serving=True, timeout_s=0.2) as store:
            with pytest.raises(StoreUnavailable):
                await store.transact(Reads(), slow_decide)
            set_timeout(store, 20)
            may_go_on.set()
            await creates(store, 1)


async def test_a_transaction_moves_only_from_where_it_was_decided(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await creates(store, 1)
        kept: list[Decision] = []

        def decide_and_keep(ledger: Ledger) -> Sequence[Decision]:
            kept.append(decide(ledger, BeginSubmission(reference(1)), now=later(NOON, Span(5))))
            return kept

        await store.transact(reads(BeginSubmission(reference(1))), decide_and_keep)
        with pytest.raises(AssertionError, match="isn't in the version of its decision"):
            await store.transact(Reads(), lambda ledger: kept)
        assert len(await store.admin.timeline(reference(1))) == 2


async def test_what_administration_has_changed_is_decided_from(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with open_sqlite(path, serving=True) as store:
        await creates(store, 1)
        async with open_sqlite(path, serving=False) as administration:
            await submit_batch(
                administration, (BeginSubmission(reference(1)), later(NOON, Span(5)))
            )
        (reply,) = await submit_batch(store, (BeginSubmission(reference(1)), later(NOON, Span(6))))
        assert isinstance(reply, Ignored), "it is under way already"


async def test_a_damaged_row_is_noticed_and_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with open_sqlite(path, serving=True) as store:
        await creates(store, 1, 2)
        assert not await store.integrity_errors()
        with sqlite3.connect(path) as hand:
            hand.execute(
                "UPDATE transactions SET object = CAST(replace(object, '1500.00', '9500.00') AS"
                " BLOB),"
                " order_row = CAST(replace(order_row, '150000', '950000') AS BLOB) WHERE"
                " gateway_reference = ?",
                (reference(1),),
            )
        hand.close()
        for ask in (
            store.look_up(LookUp("acme", reference(1))),
            store.transaction(reference(1)),
            store.list_records(ListRecords("acme", Instant(0), Instant(NOON * 2))),
            submit_batch(store, (BeginSubmission(reference(1)), later(NOON, Span(9)))),
        ):
            with pytest.raises(StoreCorrupt, match="mmo db check"):
                await ask
        assert await store.look_up(LookUp("acme", reference(2))) is not None
        (fault,) = await store.integrity_errors()
        assert reference(1) in fault


async def test_a_broken_promise_between_rows_is_found(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with open_sqlite(path, serving=True) as store:
        await creates(store, 1)
        await submit_batch(
            store,
            (BeginSubmission(reference(1)), later(NOON, Span(5))),
            (succeeded(1), later(NOON, Span(6))),
        )
        with sqlite3.connect(path) as hand:
            hand.execute("UPDATE transactions SET wake_at = 5")
            hand.execute(
                "INSERT INTO intents (gateway_reference, kind, is_held) VALUES ('?', 'submit', 1)"
            )
        hand.close()
        faults = "\n".join(await store.integrity_errors())
        assert "final and still wake" in faults
        assert "durable intents without their transaction: 1" in faults


async def test_the_write_ahead_log_stays_small(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        for begin in range(0, 8_000, 250):
            await creates(store, *range(begin, begin + 250))
        assert (tmp_path / "gateway.db-wal").stat().st_size < 24 * 2**20


async def test_a_question_that_takes_too_long_is_unavailable(tmp_path: Path) -> None:
    def endless(asked: sqlite3.Connection) -> object:
        return asked.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        ).fetchone()

    with trio.fail_after(HANGS_AFTER_S):
        async with open_sqlite(tmp_path / "gateway.db", serving=True, timeout_s=0.2) as store:
            with pytest.raises(StoreUnavailable):
                await store._read(endless)
            set_timeout(store, 20)
            await store.admin.save_brands([brand()])
            assert len(await store.admin.brands()) == 1

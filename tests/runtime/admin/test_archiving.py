"""Old payments move to the archive: each is in the store or in a verified part, whatever happens meanwhile."""

from __future__ import annotations

import errno
import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded
from mmo_sansio.payments.personal_data import MASKED_PARTY
from mmo_sansio.values.clock import DAY, Span, later
from mmo_trio.admin import archiving
from mmo_trio.admin.auditing import AuditLog, verify_audit_log
from mmo_trio.admin.retention_pace import RetentionPace
from mmo_trio.admin.retention_run import RetentionReport, RetentionRun
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.storage.archive.directory import ArchiveDirectory, ArchiveUnusable
from mmo_trio.storage.interface.retention import EMPTY_ARCHIVE, ArchiveHead, RetentionDuty
from mmo_trio.storage.interface.store import Store
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sqlite import SqliteStore, open_sqlite
from mmo_trio.storage.sqlite import connection as sqlite_connection
from mmo_trio.storage.sqlite import store as sqlite_store
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import DELIVERED, creation, failed, reference
from tests.support.aged_payments import NOW, pay, places, retention_section

# isort: split
import psycopg

from tests.support.time_limits import HANGS_AFTER_S

pytestmark = pytest.mark.long

QUICK = bool(os.environ.get("MMO_TEST_QUICK"))
PAYMENTS = 12
IN_THE_ARCHIVE = dict.fromkeys(range(1, PAYMENTS + 1), (False, 1))
IN_THE_STORE = dict.fromkeys(range(1, PAYMENTS + 1), (True, 0))


async def archive_all(store: Store, archive: Path) -> RetentionReport:
    """Do one run."""
    pace = RetentionPace(store.retention, share=1)
    assert await pace.begin()
    try:
        return await RetentionRun(store.retention, retention_section(archive), pace, lambda duty, changed: None).run(
            NOW
        )
    finally:
        await pace.end()


def run_process(path: Path, archive: Path, killed_at: int) -> subprocess.CompletedProcess[str]:
    """Archive in a process of its own, which kills itself at a point; 0: at none."""
    script = Path(__file__).parents[2] / "support" / "archive_process.py"
    command = [sys.executable, str(script), str(path), str(archive), str(killed_at)]
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root), *sys.path))}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=HANGS_AFTER_S)


@pytest.mark.finding("postgres-F9")
async def test_a_kill_at_any_point_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    """After the kill each payment is in the store or in the archive; after the next run it is in the archive once."""
    rehearsal = tmp_path / "rehearsal.db"
    async with open_sqlite(rehearsal, serving=True) as store:
        await pay(store, 1, PAYMENTS)
    content = rehearsal.read_bytes()
    finished = await trio.to_thread.run_sync(run_process, rehearsal, tmp_path / "rehearsal", 0)
    assert finished.returncode == 0, finished.stderr
    points = range(1, int(finished.stdout) + 1)
    assert len(points) > 60
    for point in sorted(Random(11).sample(points, 4 if QUICK else 20)):
        path, archive = tmp_path / f"{point}.db", tmp_path / f"archive-{point}"
        path.write_bytes(content)
        killed = await trio.to_thread.run_sync(run_process, path, archive, point)
        assert killed.returncode == -signal.SIGKILL, (point, killed.stderr)
        async with open_sqlite(path, serving=True) as store:
            for number, (is_stored, archived) in (await places(store, archive, PAYMENTS)).items():
                assert is_stored or archived, (point, number)
                assert archived <= 1, (point, number)
            await store.retention.end_lease("one")
            assert (await archive_all(store, archive)).archive_fault is None
            assert await places(store, archive, PAYMENTS) == IN_THE_ARCHIVE, point
            assert not await store.integrity_errors()
            assert not list(archive.glob(".part-*"))


@pytest.mark.finding("postgres-F9")
async def test_postgresql_archives_as_well(database: str, tmp_path: Path) -> None:
    async with open_postgres(database, serving=True) as store:
        await pay(store, 1, PAYMENTS)
        report = await archive_all(store, tmp_path / "archive")
        assert report.archive_fault is None
        assert report.changed[RetentionDuty.ARCHIVED_PAYMENTS] == PAYMENTS
        assert await places(store, tmp_path / "archive", PAYMENTS) == IN_THE_ARCHIVE
        assert not await store.integrity_errors()
        again = await archive_all(store, tmp_path / "archive")
        assert again.archive_fault is None
        assert not again.rows()


async def test_the_archive_holds_what_was_stored(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await pay(store, 1, 3)
        timelines = {number: await store.admin.timeline(reference(number)) for number in (1, 2, 3)}
        await archive_all(store, tmp_path / "archive")
    directory = ArchiveDirectory(tmp_path / "archive")
    for each in directory.read(directory.part(1)).payments():
        number = int(each.transaction.reference[-4:])
        assert [line for _, line in each.journal] == timelines[number]
        assert each.transaction.order.merchant_reference == f"order-{number}"
        assert each.transaction.order.party == MASKED_PARTY
        assert each.transaction.progress.stage.is_terminal
        assert len(each.callbacks) == 1


@pytest.mark.parametrize("nth", [1, 2, 4, 6])
async def test_a_full_disk_stops_the_archive_and_removes_nothing(
    nth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    sync = os.fsync

    def fill_up(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls >= nth:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    archive = tmp_path / "archive"
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await pay(store, 1, PAYMENTS)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fill_up)
            report = await archive_all(store, archive)
        assert report.archive_fault is not None
        assert "No space left" in report.archive_fault
        assert report.changed[RetentionDuty.PERSONAL_DATA] == PAYMENTS, "the other duties are done"
        assert all(is_stored for is_stored, _ in (await places(store, archive, PAYMENTS)).values())
        assert (await archive_all(store, archive)).archive_fault is None
        assert await places(store, archive, PAYMENTS) == IN_THE_ARCHIVE


async def test_another_directory_is_refused(tmp_path: Path) -> None:
    """The mount point of a disk that is not mounted is empty, too."""
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await pay(store, 1, 3)
        await archive_all(store, tmp_path / "archive")
        await pay(store, 4, 6)
        report = await archive_all(store, tmp_path / "elsewhere")
        assert report.archive_fault is not None
        assert "holds another archive" in report.archive_fault
        assert await store.transaction(reference(5)) is not None
        assert not ArchiveDirectory(tmp_path / "elsewhere").numbers()


def _verify_all(directory: ArchiveDirectory) -> None:
    previous = EMPTY_ARCHIVE
    for number in directory.numbers():
        part = directory.part(number)
        directory.verify(part, previous)
        previous = part.head


@pytest.mark.parametrize("name", ["transactions.csv.gz", "journal.csv.gz", "manifest.json"])
async def test_a_changed_part_is_noticed(name: str, tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await pay(store, 1, PAYMENTS)
        await archive_all(store, tmp_path / "archive")
    directory = ArchiveDirectory(tmp_path / "archive")
    _verify_all(directory)
    file = tmp_path / "archive" / "part-000000001" / name
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(ArchiveUnusable):
        _verify_all(directory)


async def test_a_part_that_the_store_never_learnt_of_is_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restore of an older backup of the store: what is archived is removed, and not archived again."""
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await pay(store, 1, PAYMENTS)
    backup = (tmp_path / "gateway.db").read_bytes()
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await archive_all(store, tmp_path / "archive")
        head = await store.retention.archive_head()
    (tmp_path / "restored.db").write_bytes(backup)
    async with open_sqlite(tmp_path / "restored.db", serving=True) as store:
        assert await places(store, tmp_path / "archive", PAYMENTS) == dict.fromkeys(range(1, PAYMENTS + 1), (True, 1))
        assert (await archive_all(store, tmp_path / "archive")).archive_fault is None
        assert await store.retention.archive_head() == head
        left = await places(store, tmp_path / "archive", PAYMENTS)
        assert all(archived == 1 and not is_stored for is_stored, archived in left.values())


async def test_two_archivers_never_write_the_same_part(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await pay(store, 1, PAYMENTS)
        assert await store.retention.advance_archive(EMPTY_ARCHIVE, ArchiveHead(1, "f" * 64))
        report = await archive_all(store, tmp_path / "archive")
        assert report.archive_fault is not None
        assert await places(store, tmp_path / "archive", PAYMENTS) == IN_THE_STORE


@pytest.mark.finding("postgres-F9")
async def test_the_audit_log_is_verifiable_across_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "AUDIT_ROWS", 3)
    keyring = KeyRing(bytes(32))
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        seen = []
        for number in range(1, 8):
            log = AuditLog(store.admin, keyring.audit_key, lambda: NOON)
            await log.record("cli:ada", "looked", f"payment:{number}")
            seen.append(await store.admin.audit_head())
        assert (await archive_all(store, tmp_path / "archive")).changed[RetentionDuty.ARCHIVED_AUDIT] == 6
        assert [row.number for row in await store.admin.audit_after(0, limit=99)] == [7]
        directory = ArchiveDirectory(tmp_path / "archive")
        for head in seen:
            whole = await verify_audit_log(store.admin, keyring, head, archived=directory.audit_rows())
            assert (whole.fault, whole.end.number) == (None, 7)
        alone = await verify_audit_log(store.admin, keyring)
        assert alone.fault is not None
        await AuditLog(store.admin, keyring.audit_key, lambda: NOON).record("cli:ada", "looked")
        await archive_all(store, tmp_path / "archive")
        whole = await verify_audit_log(store.admin, keyring, seen[3], archived=directory.audit_rows())
        assert whole.fault is None


def move_bodies_to_a_partition(database: str) -> None:
    """Put the bodies of the payments into a partition of their time, as if it had been made ahead of it."""
    begin = NOON // DAY * DAY
    with psycopg.connect(database) as connection:
        connection.execute(
            f"CREATE TABLE old_bodies (LIKE callback_bodies);"
            f"WITH moved AS (DELETE FROM callback_bodies RETURNING *) INSERT INTO old_bodies SELECT * FROM moved;"
            f"ALTER TABLE callback_bodies ATTACH PARTITION old_bodies"
            f" FOR VALUES FROM ({begin}) TO ({begin + 3 * DAY})".encode()
        )


def rows_of(database: str) -> dict[str, int]:
    """Return how many rows each table of payments has, and whether the old partition is there."""
    tables = ("journal", "callbacks", "callback_bodies", "transactions")
    with psycopg.connect(database) as connection:
        counted = {each: connection.execute(f"SELECT count(*) FROM {each}".encode()).fetchone() for each in tables}
        partition = connection.execute("SELECT count(to_regclass('old_bodies'))").fetchone()
    return {name: row[0] for name, row in {**counted, "old_bodies": partition}.items() if row is not None}


@pytest.mark.finding("postgres-F9")
async def test_the_partition_of_old_bodies_is_dropped(database: str, tmp_path: Path) -> None:
    async with open_postgres(database, serving=True) as store:
        await pay(store, 1, PAYMENTS)
    move_bodies_to_a_partition(database)
    assert rows_of(database)["callback_bodies"] == PAYMENTS
    async with open_postgres(database, serving=True) as store:
        assert (await archive_all(store, tmp_path / "archive")).archive_fault is None
        assert await places(store, tmp_path / "archive", PAYMENTS) == IN_THE_ARCHIVE
    assert not any(rows_of(database).values())


@pytest.mark.finding("postgres-F8")
async def test_a_long_snapshot_neither_stops_retention_nor_is_stopped(database: str, tmp_path: Path) -> None:
    """A dump reads all tables in one snapshot: what it reads stays for it, and is removed row by row meanwhile."""
    async with open_postgres(database, serving=True) as store:
        await pay(store, 1, PAYMENTS)
    move_bodies_to_a_partition(database)
    with psycopg.connect(database) as dump:
        dump.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert dump.execute("SELECT count(*) FROM callback_bodies").fetchone() == (PAYMENTS,)
        dump.execute("LOCK TABLE journal, callbacks, transactions IN ACCESS SHARE MODE")
        async with open_postgres(database, serving=True) as store:
            assert (await archive_all(store, tmp_path / "archive")).archive_fault is None
        assert dump.execute("SELECT count(*) FROM transactions").fetchone() == (PAYMENTS,)
        assert dump.execute("SELECT count(*) FROM callback_bodies").fetchone() == (PAYMENTS,)
        assert rows_of(database) == {
            "journal": 0,
            "callbacks": 0,
            "callback_bodies": 0,
            "transactions": 0,
            "old_bodies": 1,
        }


async def test_no_byte_of_a_masked_person_is_left_in_the_file(tmp_path: Path) -> None:
    """SQLite overwrites what it removes, and its log is empty once the gateway has stopped."""
    path = tmp_path / "gateway.db"
    secrets = (b"254700000000", b"customer-1", b"zoe@example.com", "Zoë".encode(), b"Zo\\u00eb")
    async with open_sqlite(path, serving=True) as store:
        await pay(store, 1, PAYMENTS)
        assert isinstance(store, SqliteStore)
    assert any(each in path.read_bytes() for each in secrets)
    async with open_sqlite(path, serving=True) as store:
        pace = RetentionPace(store.retention, share=1)
        assert await pace.begin()
        await RetentionRun(store.retention, retention_section(None), pace, lambda duty, changed: None).run(NOW)
    assert _found_in_files(tmp_path, secrets) == []


def _found_in_files(folder: Path, secrets: Sequence[bytes]) -> list[tuple[str, bytes]]:
    """Return which of these bytes are in the files of a folder: the database, and its log if there is one."""
    return [(file.name, each) for file in folder.iterdir() for each in secrets if each in file.read_bytes()]


async def test_a_part_holds_one_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "PAGE_ROWS", 2)
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await pay(store, 1, PAYMENTS)
        await archive_all(store, tmp_path / "archive")
    directory = ArchiveDirectory(tmp_path / "archive")
    parts = [directory.part(number) for number in directory.numbers()]
    assert [(each.day, each.manifest["payments"]["count"]) for each in parts] == [
        ("2023-11-14", 4),
        ("2023-11-15", 5),
        ("2023-11-16", 3),
    ]


@pytest.mark.finding("postgres-F9")
async def test_what_is_archived_is_masked_on_its_way(tmp_path: Path) -> None:
    """The store does not write a payment that it is about to lose; the archive holds nobody's data all the same."""
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await pay(store, 1, PAYMENTS)
        report = await archive_all(store, tmp_path / "archive")
        assert report.changed[RetentionDuty.ARCHIVED_PAYMENTS] == PAYMENTS
        assert report.changed[RetentionDuty.PERSONAL_DATA] == 0
    directory = ArchiveDirectory(tmp_path / "archive")
    content = [gzip.decompress(each.read_bytes()) for each in directory.path.glob("*/*.gz")]
    assert content
    for secret in (b"254700000000", b"customer-1", b"zoe@example.com"):
        assert not any(secret in each for each in content), secret


@pytest.mark.finding("postgres-F9")
async def test_payments_of_many_brands_take_no_more_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is read, and removed, with a number of statements that depends on tables, not on payments or brands."""
    counted = 0
    run = sqlite_connection.run_statement

    def count(*arguments: Any) -> Any:
        nonlocal counted
        counted += 1
        return run(*arguments)

    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        for number in range(1, 21):
            await submit_batch(store, (creation(number, brand_id=f"brand-{number}"), later(NOON, Span(4 * number))))
            await submit_batch(store, (BeginSubmission(reference(number)), later(NOON, Span(4 * number))))
            await submit_batch(store, (failed(number), later(NOON, Span(4 * number + 1))))
            await submit_batch(
                store, (CallbackConcluded(reference(number), DELIVERED), later(NOON, Span(4 * number + 2)))
            )
        monkeypatch.setattr(sqlite_store, "run_statement", count)
        page, _ = await store.retention.archivable_payments(NOW, "", limit=100)
        assert (len(page), counted > 0, counted < 10) == (20, True, True), counted
        counted = 0
        assert await store.retention.remove_archived(page, masks_claims=True, is_durable=True) == 20
        assert 0 < counted < 15, counted


@pytest.mark.finding("postgres-F9")
async def test_what_differs_from_its_archived_self_stays(tmp_path: Path) -> None:
    """As when the process died between a part and the removal, and the payments of another backup are stored then."""
    archive = tmp_path / "archive"
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await pay(store, 1, PAYMENTS)
        await archive_all(store, archive)
    async with open_sqlite(tmp_path / "other.db", serving=True) as store:
        for number in range(1, 4):
            given = creation(number, merchant_reference=f"other-{number}")
            await submit_batch(store, (given, later(NOON, Span(number))))
            await submit_batch(store, (failed(number), later(NOON, Span(number + 1))))
        assert (await archive_all(store, archive)).archive_fault is None
        assert all([await store.transaction(reference(number)) is not None for number in range(1, 4)])

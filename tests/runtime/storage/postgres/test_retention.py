"""Payments move to the archive while the server loses what it has not yet written: each stays in one of the two."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from attrs import define

from mmo_trio.admin import archiving
from mmo_trio.admin.retention_pace import RetentionPace
from mmo_trio.admin.retention_run import RetentionReport, RetentionRun
from mmo_trio.storage.interface.store import Store
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.postgres.retention import PostgresRetentionStore
from tests.support.aged_payments import NOW, pay, places, retention_section
from tests.support.postgres_process import PostgresProcess, postgres_process
from tests.support.postgres_server import PostgresServer
from tests.support.time_limits import HANGS_AFTER_S

QUICK = bool(os.environ.get("MMO_TEST_QUICK"))
PAYMENTS = 12
IN_THE_ARCHIVE = dict.fromkeys(range(1, PAYMENTS + 1), (False, 1))
WRITING_LATE = {"wal_writer_delay": "10s", "wal_writer_flush_after": "0", "autovacuum": "off"}
"""Settings with which only a commit that waits for the disk brings anything to it for some seconds."""
WAITS_S = 2 * HANGS_AFTER_S
"""How long the store waits for the server: it gives no call up, however long a restart takes."""
CALLS = ("advance_archive", "remove_archived", "remove_history", "remove_audit", "save_run")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresProcess]:
    """A server that may be restarted."""
    with postgres_process(settings=WRITING_LATE) as server:
        yield server


@define
class Restarts:
    """Restarts the server, as after a loss of power, at one of the points before and after each call of a run."""

    server: PostgresProcess
    at: int
    """The point; 0: none."""
    how: signal.Signals
    passed: int = 0
    last: str = ""
    """The call at whose point the server was restarted."""

    def around(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Return a method of the store with a point before and one after it."""
        method: Callable[..., Awaitable[Any]] = getattr(PostgresRetentionStore, name)

        async def call(store: PostgresRetentionStore, *arguments: Any, **options: Any) -> Any:
            await self._pass(f"before {name}")
            result = await method(store, *arguments, **options)
            await self._pass(f"after {name}")
            return result

        return call

    async def _pass(self, name: str) -> None:
        self.passed += 1
        if self.passed == self.at:
            self.last = name
            await trio.to_thread.run_sync(self.server.restart, self.how)


async def archive_all(store: Store, archive: Path) -> RetentionReport:
    """Do one run."""
    pace = RetentionPace(store.retention, share=1)
    assert await pace.begin()
    try:
        run = RetentionRun(store.retention, retention_section(archive), pace, lambda duty, changed: None)
        return await run.run(NOW)
    finally:
        await pace.end()


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "PART_PAYMENTS", 4)
    monkeypatch.setattr(archiving, "REMOVED_AT_ONCE", 2)
    monkeypatch.setattr(archiving, "REMOVED_MAX", 2)


@pytest.mark.finding("postgres-F9")
async def test_a_server_that_loses_its_memory_at_any_point_loses_no_payment_and_doubles_none(
    server: PostgresProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removals are not on the disk when they are answered: those that a restart undoes are made again, from what the
    archive holds."""
    databases = PostgresServer(server.socket_url)
    points = range(1, await _run_with(Restarts(server, 0, signal.SIGQUIT), databases, tmp_path / "0", monkeypatch) + 1)
    assert len(points) > 20
    for nth, point in enumerate(sorted(Random(12).sample(points, 2 if QUICK else 20))):
        how = signal.SIGQUIT if nth % 2 else signal.SIGKILL
        await _run_with(Restarts(server, point, how), databases, tmp_path / f"{point}", monkeypatch)


async def _run_with(
    restarts: Restarts, databases: PostgresServer, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> int:
    """Archive all payments of a new store, with a restart; return how many points the run had."""
    url = databases.migrated()
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(url, serving=True, timeout_s=WAITS_S) as store:
            await pay(store, 1, PAYMENTS)
            with monkeypatch.context() as patched:
                for name in CALLS:
                    patched.setattr(PostgresRetentionStore, name, restarts.around(name))
                report = await archive_all(store, archive)
            assert report.archive_fault is None, restarts.last
            for number, (is_stored, archived) in (await places(store, archive, PAYMENTS)).items():
                assert is_stored or archived, (restarts.last, number)
                assert archived <= 1, (restarts.last, number)
            assert (await archive_all(store, archive)).archive_fault is None
            assert await places(store, archive, PAYMENTS) == IN_THE_ARCHIVE, restarts.last
            assert not await store.integrity_errors()
    databases.drop(url)
    return restarts.passed


TRIES_MAX = 10
"""The server may bring a removal to the disk by itself, before it is restarted."""


@pytest.mark.finding("postgres-F9")
async def test_what_a_restart_brings_back_is_removed_again(
    server: PostgresProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies with the server, before a removal of its last part that waits for the disk."""
    databases = PostgresServer(server.socket_url)
    brought_back = nth = 0
    while not brought_back:
        assert nth < TRIES_MAX, "no restart has undone a removal"
        brought_back = await _die_and_run_again(server, databases.migrated(), tmp_path / f"{nth}", monkeypatch)
        nth += 1


async def _die_and_run_again(server: PostgresProcess, url: str, archive: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many removed payments the restart has brought back."""
    method = PostgresRetentionStore.remove_archived
    removed = 0

    async def remove(store: PostgresRetentionStore, *arguments: Any, **options: Any) -> int:
        nonlocal removed
        removed += await method(store, *arguments, **options)
        if removed == PAYMENTS - 1:
            await trio.to_thread.run_sync(server.restart)
            raise InterruptedError
        return 0

    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(url, serving=False, timeout_s=WAITS_S) as store:
            await pay(store, 1, PAYMENTS)
            with monkeypatch.context() as patched:
                patched.setattr(PostgresRetentionStore, "remove_archived", remove)
                with pytest.raises(InterruptedError):
                    await archive_all(store, archive)
            found = await places(store, archive, PAYMENTS)
            assert all(archived == 1 for _, archived in found.values())
            await archive_all(store, archive)
            assert await places(store, archive, PAYMENTS) == IN_THE_ARCHIVE
            assert not await store.integrity_errors()
    return sum(is_stored for is_stored, _ in found.values()) - (PAYMENTS - removed)

"""The files of a served database: one serving process, whatever path leads to them, and never an
answer from a file that nobody finds again."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from mmo_sansio.messages.queries import LookUp
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, StoreUnusable
from mmo_trio.storage.sqlite import open_sqlite
from tests.conformance.driver import create_payments
from tests.conformance.inputs import reference
from tests.support.merchant import Merchant, ask
from tests.support.mmo_process import (
    COMMAND,
    FREE_PORTS,
    environment_without_settings,
    serving_process,
)


def by_symbolic_link(path: Path) -> Path:
    other = path.parent / "other" / "link.db"
    other.parent.mkdir()
    other.symlink_to(path)
    return other


def by_hard_link(path: Path) -> Path:
    other = path.parent / "hard.db"
    os.link(path, other)
    return other


def after_the_lock_file_is_removed(path: Path) -> Path:
    path.with_name(path.name + ".lock").unlink()
    return path


@pytest.mark.parametrize("lead", [by_symbolic_link, by_hard_link, after_the_lock_file_is_removed])
async def test_one_process_serves_a_file_whatever_leads_to_it(
    tmp_path: Path, lead: Callable[[Path], Path]
) -> None:
    path = tmp_path / "gateway.db"
    async with open_sqlite(path, serving=True) as store:
        await create_payments(store, [0])
        with pytest.raises(StoreUnusable, match="another process serves"):
            async with open_sqlite(lead(path), serving=True):
                pass
        await create_payments(store, [1])


async def test_a_second_process_through_a_link_ends_with_exit_code_3(tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    async with serving_process("sandbox", "--data", data, *FREE_PORTS, log=log):
        other = tmp_path / "other"
        other.mkdir()
        for name in ("gateway.db", "master.key"):
            (other / name).symlink_to(data / name)
        second = await trio.run_process(
            [*COMMAND, "sandbox", "--data", str(other), *FREE_PORTS],
            env=environment_without_settings(),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert second.returncode == 3
    assert b"another process serves" in second.stderr
    assert b"READY" not in second.stdout


@pytest.mark.parametrize("serving", [True, False], ids=["serving", "administration"])
async def test_a_file_with_several_names_is_refused(tmp_path: Path, serving: bool) -> None:
    """Under another name SQLite would look for another write-ahead log, and miss what is in the
    first."""
    path = tmp_path / "gateway.db"
    async with open_sqlite(path, serving=True):
        pass
    for name in (by_hard_link(path), path):
        with pytest.raises(StoreUnusable, match="hard links"):
            async with open_sqlite(name, serving=serving):
                pass


def remove_all(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def remove_the_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def remove_the_index_of_the_log(path: Path) -> None:
    path.with_name(path.name + "-shm").unlink()


def replace_the_database(path: Path) -> None:
    backup = path.with_name("restored")
    backup.write_bytes(path.read_bytes())
    backup.rename(path)


LOSSES = [remove_all, remove_the_log, remove_the_index_of_the_log, replace_the_database]


@pytest.mark.parametrize("lose", LOSSES)
async def test_nothing_is_answered_from_files_that_are_gone(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    path = tmp_path / "gateway.db"
    async with open_sqlite(path, serving=True) as store:
        await create_payments(store, [0])
        assert await store.transaction(reference(0)) is not None
        lose(path)
        with pytest.raises(OutcomeUnknown, match="removed or replaced"):
            await create_payments(store, [1])
        for ask_store in (
            lambda: create_payments(store, [2]),
            lambda: store.look_up(LookUp("acme", reference(0))),
            lambda: store.claim_abandoned(limit=10),
            store.check,
        ):
            with pytest.raises(StoreUnavailable, match="removed or replaced"):
                await ask_store()


async def test_readiness_alone_notices_a_file_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with open_sqlite(path, serving=True) as store:
        await create_payments(store, [0])
        path.rename(tmp_path / "elsewhere.db")
        with pytest.raises(StoreUnavailable, match="removed or replaced"):
            await store.check()
        with pytest.raises(StoreUnavailable, match="removed or replaced"):
            await create_payments(store, [1])
        (tmp_path / "elsewhere.db").rename(path)
        await store.check()
        await create_payments(store, [1])
        assert await store.transaction(reference(1)) is not None


async def test_a_gateway_whose_files_were_removed_takes_no_payment(tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    async with serving_process("sandbox", "--data", data, *FREE_PORTS, log=log) as gateway:
        merchant = Merchant(gateway.ready["api"], gateway.ready["api_key"])
        await merchant.accepted()
        for each in data.glob("gateway.db*"):
            each.unlink()
        answers = [await merchant.create() for _ in range(5)]
        assert {each.status for each in answers[1:]} == {503}
        assert answers[0].status in (500, 503)
        readiness = await ask(f"{gateway.ready['api']}/readyz")
        assert readiness.status == 503
        assert not (data / "gateway.db").exists(), "and no empty one is put in its place"
        gateway.process.kill()  # A drain would wait for what cannot be recorded.
        await gateway.process.wait()


async def test_a_disk_that_is_nearly_full_is_noticed_before_a_commit_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.statvfs(tmp_path)
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        await store.check()
        full = os.statvfs_result((*found[:3], 0, 0, *found[5:]))
        monkeypatch.setattr(os, "statvfs", lambda _: full)
        with pytest.raises(StoreUnavailable, match="only 0 bytes free"):
            await store.check()
        monkeypatch.undo()
        await store.check()


async def test_readiness_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"

    def contents() -> list[bytes]:
        return [path.with_name(path.name + suffix).read_bytes() for suffix in ("", "-wal")]

    async with open_sqlite(path, serving=True) as store:
        await create_payments(store, [0])
        before = contents()
        for _ in range(50):
            await store.check()
        assert contents() == before


async def test_a_gateway_that_cannot_write_says_so_at_once_and_recovers(tmp_path: Path) -> None:
    """The limit on the size of a file stands for a full disk: no number of free bytes shows it."""
    log = tmp_path / "log"
    async with serving_process(
        "sandbox", "--data", tmp_path / "data", *FREE_PORTS, log=log
    ) as gateway:
        merchant = Merchant(gateway.ready["api"], gateway.ready["api_key"])
        readyz = f"{gateway.ready['api']}/readyz"
        await merchant.accepted()
        assert (await ask(readyz)).status == 200
        present = (
            (tmp_path / "data" / "gateway.db-wal").stat().st_size
        )  # The log of events is smaller.
        before = resource.prlimit(
            gateway.process.pid, resource.RLIMIT_FSIZE, (present, resource.RLIM_INFINITY)
        )
        assert (await merchant.create()).status in (500, 503)
        assert (await ask(readyz)).status == 503
        statuses = [(await merchant.create()).status for _ in range(20)]
        assert 200 not in statuses
        assert (await ask(readyz)).status == 503
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, before)
        await merchant.accepted()
        assert (await ask(readyz)).status == 200
    lines = [
        line
        for line in log.read_text(encoding="utf-8").splitlines()
        if "batch_commit_failed" in line
    ]
    assert 1 <= len(lines) < 10

"""Every store keeps the promises of the protocol: the public suite, on memory, SQLite and
PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from mmo_trio.storage.memory.store import MemoryState, open_memory
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sqlite import open_sqlite
from tests.conformance import CHECKS, SHARED_CHECKS, StoreCheck
from tests.conformance.driver import OpenStore
from tests.support.time_limits import HANGS_AFTER_S


def memory(folder: Path) -> OpenStore:
    """An empty memory."""
    kept = MemoryState()
    return lambda: open_memory(kept)


def shared_memory(folder: Path) -> OpenStore:
    """An empty memory that may be open several times."""
    kept = MemoryState(is_shared=True)
    return lambda: open_memory(kept)


def sqlite(folder: Path) -> OpenStore:
    """An empty file."""
    return lambda: open_sqlite(folder / "gateway.db", serving=True)


@pytest.mark.spec("A4", "C6", "C12", "L1", "L2", "R1", "R6", "S3", "S5")
@pytest.mark.parametrize("fresh", [memory, shared_memory, sqlite])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_store_keeps_its_promises(
    check: StoreCheck, fresh: Callable[[Path], OpenStore], tmp_path: Path
) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        await check(fresh(tmp_path))


@pytest.mark.spec("K3", "K5", "S3", "S6")
@pytest.mark.parametrize("fresh", [shared_memory])
@pytest.mark.parametrize("check", SHARED_CHECKS, ids=lambda check: check.__name__)
async def test_a_shared_store_keeps_its_promises(
    check: StoreCheck, fresh: Callable[[Path], OpenStore], tmp_path: Path
) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        await check(fresh(tmp_path))


@pytest.mark.long
@pytest.mark.spec("A4", "C6", "C12", "L1", "L2", "R1", "R6", "S3", "S5")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_postgresql_keeps_its_promises(check: StoreCheck, migrated_database: str) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        await check(lambda: open_postgres(migrated_database, serving=True))


@pytest.mark.long
@pytest.mark.spec("K3", "K5", "S3", "S6")
@pytest.mark.parametrize("check", SHARED_CHECKS, ids=lambda check: check.__name__)
async def test_postgresql_is_shared(check: StoreCheck, migrated_database: str) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        await check(lambda: open_postgres(migrated_database, serving=True))

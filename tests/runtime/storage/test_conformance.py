"""Every store keeps the promises of the protocol: the public suite, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
import trio

from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sqlite import open_sqlite
from tests import conformance
from tests.conformance import CHECKS, SHARED_CHECKS, StoreCheck
from tests.conformance.driver import OpenStore
from tests.support.effort import by_effort
from tests.support.sqlite_store import StoreFile
from tests.support.time_limits import HANGS_AFTER_S


def sqlite_at_once(folder: Path) -> OpenStore:
    """An empty file, with calls that are made at once, as other tests use it."""
    return StoreFile().open


def sqlite(folder: Path) -> OpenStore:
    """An empty file, with threads."""
    return lambda: open_sqlite(folder / "gateway.db", serving=True)


def test_every_check_is_listed() -> None:
    modules = [
        import_module(f"tests.conformance.{each.name}")
        for each in iter_modules(conformance.__path__)
    ]
    found = {name for module in modules for name in vars(module) if name.startswith("check_")}
    assert found == {each.__name__ for each in (*CHECKS, *SHARED_CHECKS)}


@pytest.mark.spec("A4", "C6", "C12", "L1", "L2", "R1", "R6", "S3", "S5")
@pytest.mark.parametrize("fresh", by_effort([sqlite], [sqlite, sqlite_at_once]))
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_store_keeps_its_promises(
    check: StoreCheck, fresh: Callable[[Path], OpenStore], tmp_path: Path
) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        await check(fresh(tmp_path))


@pytest.mark.spec("A4", "C6", "C12", "L1", "L2", "R1", "R6", "S3", "S5")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_postgresql_keeps_its_promises(check: StoreCheck, migrated_database: str) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        await check(lambda: open_postgres(migrated_database, serving=True))


@pytest.mark.spec("K3", "K5", "S3", "S6")
@pytest.mark.parametrize("check", SHARED_CHECKS, ids=lambda check: check.__name__)
async def test_postgresql_is_shared(check: StoreCheck, migrated_database: str) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        await check(lambda: open_postgres(migrated_database, serving=True))

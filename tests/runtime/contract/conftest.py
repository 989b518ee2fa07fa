"""Fixtures of the contract suite: a whole gateway in this process, with a receiver that speaks TLS
beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.effort import QUICK
from tests.support.http_version import http_version
from tests.support.sandbox_gateway import Running, Serve, serving
from tests.support.storages import storages


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what doesn't look at --store or --http when these choose the unusual, and then, in
    quick effort, all but the first variant of each test."""
    left_out = set()
    if config.getoption("--store") == "postgres":
        left_out.add("own_store")
    if config.getoption("--http") == "2":
        left_out.add("http1")
    chosen = [
        item for item in items if left_out.isdisjoint(mark.name for mark in item.iter_markers())
    ]
    if left_out and QUICK:
        first = set({item.nodeid.partition("[")[0]: item for item in reversed(chosen)}.values())
        chosen = [item for item in chosen if item in first]
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


@pytest.fixture(scope="session", autouse=True)
def _kept_in(request: pytest.FixtureRequest) -> Iterator[None]:
    """The kind of storage that this run is about."""
    http_version.is_http2 = request.config.getoption("--http") == "2"
    if request.config.getoption("--store") == "postgres":
        storages.postgres = request.getfixturevalue("postgres")
    yield
    storages.remove()


@pytest.fixture(autouse=True)
def _forgotten_afterwards(tmp_path: Path) -> Iterator[None]:
    yield
    storages.remove(tmp_path)


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Starts sandboxes in folders of their own."""
    return partial(serving, tmp_path)


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Running]:
    """A sandbox with its demo brand."""
    async with serving(tmp_path) as running:
        yield running

"""Fixtures that every test of the Trio shell may use; `async def` tests run in Trio without a
mark."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
import structlog
import trustme
from pytest_trio.enable_trio_mode import *  # noqa: F403
from trio.testing import MockClock

from mmo_sansio.values.clock import later
from mmo_trio.http.asgi.web_app import WebApp
from mmo_trio.settings.providers import _installed
from mmo_trio.storage.sqlite import SqliteStore
from mmo_trio.system.clock import GatewayClock
from tests.support.compiled_templates import CompiledTemplates
from tests.support.postgres_programs import CHOICE, chosen
from tests.support.postgres_server import DatabaseServer, postgres_server
from tests.support.provider_packages import package_paths
from tests.support.sqlite_store import StoreFile


@pytest.fixture
def provider_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sequence[str]]:
    """Let this process find the packages of providers that are not installed; the paths with which
    another process finds them."""
    paths = package_paths(tmp_path / "packages")
    for path in paths:
        monkeypatch.syspath_prepend(path)
    _installed.cache_clear()
    yield paths
    _installed.cache_clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    """What the tests are played against."""
    parser.addoption(
        "--postgres",
        metavar="NAME",
        help="The PostgreSQL that the tests start: debian15, wheel18, npm14, or a major version.",
    )
    parser.addoption(
        "--store",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="Where the gateways of the contract suite keep their payments.",
    )
    parser.addoption(
        "--http",
        choices=("1", "2"),
        default="1",
        help="The version of HTTP by which the merchants of the contract suite talk.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tell every helper, and the processes that tests start, which PostgreSQL was chosen."""
    if name := config.getoption("--postgres"):
        os.environ[CHOICE] = name


@pytest.fixture
def jumping_clock() -> MockClock:
    """Jumps when nothing has happened for 20 ms; loopback needs far less. However long the machine
    stalls, what has arrived comes before what is due."""
    return MockClock(autojump_threshold=0.02)


@pytest.fixture
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateways of this process have a clock that only `advance` moves. However long the machine
    stalls, nothing becomes due meanwhile."""
    raw_wall_time, monotonic = GatewayClock().raw_wall_time(), GatewayClock().monotonic()
    monkeypatch.setattr(
        GatewayClock, "raw_wall_time", lambda self: later(raw_wall_time, self.offset)
    )
    monkeypatch.setattr(GatewayClock, "monotonic", lambda self: later(monotonic, self.offset))


@pytest.fixture(autouse=True, scope="session")
def _compiled_templates() -> None:
    """Compile each template once."""
    WebApp.jinja_options = {"bytecode_cache": CompiledTemplates()}


@pytest.fixture(autouse=True, scope="session")
def _public_authorities(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One authority stands for the file of all public ones: each gateway reads it three times,
    which takes 20 ms for all of them, and no test asks a server of the world."""
    file = tmp_path_factory.mktemp("authorities") / "ca.pem"
    trustme.CA().cert_pem.write_to_path(file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        yield


def pytest_report_header() -> str:
    """Say which PostgreSQL the tests start."""
    programs = chosen()
    return f"PostgreSQL: {programs.name}, {programs.full_version()}"


@pytest.fixture(autouse=True)
def _log_settings() -> Iterator[None]:
    """Undo what a test, or a command that it runs in this process, sets for the log."""
    before, handlers, level = structlog.get_config(), logging.root.handlers, logging.root.level
    yield
    structlog.configure(**before)
    logging.root.handlers = handlers
    logging.root.setLevel(level)


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    """An empty store, whose calls are made at once."""
    async with StoreFile().open() as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres() -> Iterator[DatabaseServer]:
    """A real PostgreSQL."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def database(postgres: DatabaseServer) -> Iterator[str]:
    """The address of an empty database."""
    url = postgres.fresh()
    yield url
    postgres.drop(url)


@pytest.fixture
def migrated_database(postgres: DatabaseServer) -> Iterator[str]:
    """The address of a database with our tables, and nothing in them."""
    url = postgres.migrated()
    yield url
    postgres.drop(url)

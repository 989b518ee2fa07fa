"""Runs the PostgreSQL of the tests, which may forget all with the power, and makes databases in it.
`MMO_TEST_POSTGRES` chooses its programs; `MMO_TEST_DATABASE_URL` names a server that runs already,
whose user may create databases."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

import trio

from mmo_trio.storage.postgres import open_postgres  # (before psycopg)

# isort: split
import psycopg
from attrs import define
from psycopg import sql

from tests.support import citus_cluster
from tests.support.postgres_process import postgres_process

OWN_SERVER = "MMO_TEST_DATABASE_URL"
_numbers = count(1)


class DatabaseServer(Protocol):
    """Makes databases for tests."""

    @property
    def url(self) -> str:
        """The address of a database that one may connect to."""
        ...

    def fresh(self) -> str:
        """The address of a new, empty database."""
        ...

    def migrated(self) -> str:
        """The address of a new database with our tables."""
        ...

    def drop(self, url: str) -> None:
        """Remove a database of `fresh`, even if clients are connected."""
        ...


@define
class PostgresServer:
    """A server that runs, and makes databases."""

    url: str
    """Of a database that one may connect to."""
    template: str | None = None
    """The address of a database with our tables, which nobody uses; None while there is none."""

    def fresh(self) -> str:
        """The address of a new, empty database."""
        return self._create("template0")

    def migrated(self) -> str:
        """The address of a new database with our tables: a copy, as to migrate one takes several
        times as long."""
        if self.template is None:
            self.template = self.fresh()
            with ThreadPoolExecutor(1) as outside_trio:
                outside_trio.submit(trio.run, _migrate, self.template).result()
        return self._create(_name(self.template))

    def drop(self, url: str) -> None:
        """Remove a database of `fresh` or `migrated`, even if clients are connected."""
        self.run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)"), _name(url))

    def run(self, statement: sql.SQL, *names: str) -> None:
        """One statement about one thing."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.format(*map(sql.Identifier, names)))

    def _create(self, template: str) -> str:
        name = f"mmo_test_{os.getpid()}_{next(_numbers)}"
        self.run(sql.SQL("CREATE DATABASE {} TEMPLATE {} ENCODING 'UTF8'"), name, template)
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))


def _name(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


async def _migrate(url: str) -> None:
    async with open_postgres(url, serving=False, create=True):
        pass


@contextmanager
def postgres_server() -> Iterator[DatabaseServer]:
    """Run the chosen PostgreSQL during the block, or use one's own server, or a cluster of
    Citus."""
    if citus_cluster.is_wanted():
        with citus_cluster.citus_cluster() as cluster:
            yield cluster
        return
    if url := os.environ.get(OWN_SERVER):
        server = PostgresServer(url)
        try:
            yield server
        finally:
            if server.template is not None:
                server.drop(server.template)
        return
    with postgres_process(is_durable=False) as process:
        yield PostgresServer(process.socket_url)

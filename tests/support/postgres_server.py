"""Runs the PostgreSQL of the tests and makes databases in it. `MMO_TEST_POSTGRES` chooses its programs;
`MMO_TEST_DATABASE_URL` names a server that runs already, whose user may create databases."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg
from attrs import define
from psycopg import sql

from tests.support.postgres_process import postgres_process

OWN_SERVER = "MMO_TEST_DATABASE_URL"
_numbers = count(1)


@define
class PostgresServer:
    """A server that runs, and makes databases."""

    url: str
    """Of a database that one may connect to."""

    def fresh(self) -> str:
        """The address of a new, empty database."""
        name = f"mmo_test_{os.getpid()}_{next(_numbers)}"
        self.run(sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'"), name)
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def drop(self, url: str) -> None:
        """Remove a database of `fresh`, even if clients are connected."""
        self.run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)"), urlsplit(url).path.removeprefix("/"))

    def run(self, statement: sql.SQL, name: str) -> None:
        """One statement about one thing."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.format(sql.Identifier(name)))


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Run the chosen PostgreSQL during the block, or use one's own server."""
    if url := os.environ.get(OWN_SERVER):
        yield PostgresServer(url)
        return
    with postgres_process() as server:
        yield PostgresServer(server.socket_url)

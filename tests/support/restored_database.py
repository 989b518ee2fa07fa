"""Databases that are backed up and restored as the documentation says, while no gateway serves
them."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from attrs import define

from tests.support.postgres_process import (
    SUPERUSER,
    PostgresProcess,
    execute,
    hand_over,
    postgres_folder,
    postgres_process,
)
from tests.support.reserved_port import reserved_port


class RestorableDatabase(ABC):
    """A database of a gateway."""

    url: str

    @abstractmethod
    def back_up(self) -> None:
        """Make a backup of it as it is."""

    @abstractmethod
    def restore(self) -> None:
        """Put the backup in the place of it; may be repeated."""


OpenDatabase = Callable[[Path], AbstractContextManager[RestorableDatabase]]
"""Makes an empty database during the block; it may keep files in the folder."""


@define
class CopiedFolder(RestorableDatabase):
    """A SQLite database whose folder is copied."""

    folder: Path

    @property
    def url(self) -> str:  # type: ignore[override]
        return f"sqlite:///{self.folder}/gateway.db"

    def back_up(self) -> None:
        shutil.copytree(self.folder, f"{self.folder}.copy")

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(f"{self.folder}.copy", self.folder)


class SqliteBackup(CopiedFolder):
    """One of which SQLite itself makes a copy."""

    def back_up(self) -> None:
        source, copy = (
            sqlite3.connect(self.folder / "gateway.db"),
            sqlite3.connect(f"{self.folder}.copy"),
        )
        with closing(source), closing(copy):
            source.backup(copy)

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        shutil.copy(f"{self.folder}.copy", self.folder / "gateway.db")


@contextmanager
def copied_folder(folder: Path) -> Iterator[RestorableDatabase]:
    """A SQLite database whose folder is copied."""
    (folder / "database").mkdir()
    yield CopiedFolder(folder / "database")


@contextmanager
def sqlite_backup(folder: Path) -> Iterator[RestorableDatabase]:
    """A SQLite database that is copied by `.backup`."""
    (folder / "database").mkdir()
    yield SqliteBackup(folder / "database")


@define
class DumpedDatabase(RestorableDatabase):
    """A PostgreSQL database that is dumped, and loaded into an empty one."""

    server: PostgresProcess
    file: Path

    @property
    def url(self) -> str:  # type: ignore[override]
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.server.port}/mmo"

    def create(self) -> None:
        """Make it, empty, in the place of the one before."""
        execute(
            self.server.tcp_url,
            "DROP DATABASE IF EXISTS mmo WITH (FORCE)",
            "CREATE DATABASE mmo ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0",
        )

    def back_up(self) -> None:
        self._run("pg_dump", "--format=custom", f"--file={self.file}", f"--dbname={self.url}")

    def restore(self) -> None:
        self.create()
        self._run("pg_restore", f"--dbname={self.url}", f"{self.file}")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run([self.server.programs.path(program), *arguments], check=True)


@contextmanager
def dumped_database(folder: Path) -> Iterator[RestorableDatabase]:
    """A PostgreSQL database that `pg_dump` and `pg_restore` copy."""
    with postgres_process() as server:
        database = DumpedDatabase(server, folder / "mmo.dump")
        database.create()
        yield database


@define
class RecoveredServer(RestorableDatabase):
    """A PostgreSQL server of which there is a base backup and its log, up to a point in time."""

    server: PostgresProcess
    url: str = ""

    def back_up(self) -> None:
        base, source = (
            self.server.folder / "base",
            f"host=127.0.0.1 port={self.server.port} user={SUPERUSER}",
        )
        self.server.run("pg_basebackup", "-D", f"{base}", "-c", "fast", "-d", source)
        execute(self.url, "SELECT pg_create_restore_point('before_the_gap')")

    def restore(self) -> None:
        execute(self.url, "SELECT pg_switch_wal()")
        self.server.stop()
        shutil.rmtree(self.server.data)
        shutil.copytree(self.server.folder / "base", self.server.data)
        (self.server.data / "recovery.signal").touch()
        for each in (self.server.data, *self.server.data.rglob("*")):
            hand_over(each)
        self.server.start()
        execute(self.url, "SELECT pg_wal_replay_resume() WHERE pg_is_in_recovery()")


@contextmanager
def recovered_server(folder: Path) -> Iterator[RestorableDatabase]:
    """A PostgreSQL server that is recovered to a point in time from a base backup."""
    with postgres_folder() as home, reserved_port() as port:
        (home / "log-archive").mkdir()
        hand_over(home / "log-archive")
        settings = {
            "archive_mode": "on",
            "archive_command": f"cp %p {home}/log-archive/%f",
            "restore_command": f"cp {home}/log-archive/%f %p",
            "recovery_target_name": "before_the_gap",
            "recovery_target_action": "promote",
        }
        server = PostgresProcess(home, port, settings=settings)
        server.create()
        server.start()
        try:
            yield RecoveredServer(server, server.tcp_url)
        finally:
            server.stop()

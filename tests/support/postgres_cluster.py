"""Runs a primary and a synchronous standby on loopback; tests kill the primary and promote the
standby."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg

from tests.support.postgres_process import SUPERUSER, PostgresProcess, hand_over, postgres_folder
from tests.support.reserved_port import reserved_port
from tests.support.time_limits import HANGS_AFTER_S


@define(eq=False)
class Cluster:
    """Holds two servers."""

    primary: PostgresProcess
    standby: PostgresProcess

    @property
    def url(self) -> str:
        """Return the URL of both servers, of which the writable one is used."""
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return f"postgresql://{SUPERUSER}@{hosts}/postgres?target_session_attrs=read-write"

    def begin(self) -> None:
        """Start both, the second a synchronous copy of the first."""
        self.primary.create()
        self.primary.start()
        self.follow()

    def follow(self) -> None:
        """Make the standby a new, synchronous copy of the primary."""
        source = (
            f"host=127.0.0.1 port={self.primary.port} user={SUPERUSER} application_name=standby"
        )
        self.standby.run(
            "pg_basebackup", "-D", f"{self.standby.data}", "-R", "-c", "fast", "-d", source
        )
        self.standby.start()
        with psycopg.connect(self.primary.tcp_url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
            connection.execute("SELECT pg_reload_conf()")
        self.wait_for_standby()

    def wait_for_standby(self) -> None:
        """Wait until commits are on the standby before they are answered."""
        until = time.monotonic() + HANGS_AFTER_S
        with psycopg.connect(self.primary.tcp_url, autocommit=True) as connection:
            while not connection.execute(
                "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
            ).fetchone():
                assert time.monotonic() < until, "the standby doesn't follow"
                time.sleep(0.05)

    def wait_until_copied(self) -> None:
        """Wait until the standby, also one that commits don't wait for, has what was committed."""
        until = time.monotonic() + HANGS_AFTER_S
        with psycopg.connect(self.primary.tcp_url, autocommit=True) as connection:
            row = connection.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
            assert row is not None
            while not connection.execute(
                "SELECT 1 FROM pg_stat_replication WHERE flush_lsn >= %s::pg_lsn", row
            ).fetchone():
                assert time.monotonic() < until, "the standby doesn't follow"
                time.sleep(0.05)

    def replace_standby(self) -> None:
        """After a promotion: put a new copy of the new primary in the place of the old one."""
        self.primary, self.standby = self.standby, self.primary
        shutil.rmtree(self.standby.data)
        self.follow()

    def kill_primary(self) -> None:
        """Kill the primary."""
        self.primary.stop(signal.SIGKILL)

    def kill_standby(self) -> None:
        """Kill the standby: what is committed from now on isn't there when it is started again
        without the primary."""
        self.standby.stop(signal.SIGKILL)

    def promote(self) -> None:
        """Promote the standby and wait until it is the primary."""
        with psycopg.connect(self.standby.tcp_url, autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)

    def end(self) -> None:
        """Kill both."""
        for each in (self.primary, self.standby):
            each.stop(signal.SIGKILL)


@contextmanager
def postgres_cluster() -> Iterator[Cluster]:
    """Run both servers during the block."""
    with postgres_folder() as folder, reserved_port() as first, reserved_port() as second:
        cluster = Cluster(_server(folder / "primary", first), _server(folder / "standby", second))
        try:
            cluster.begin()
            yield cluster
        finally:
            cluster.end()


def _server(folder: Path, port: int) -> PostgresProcess:
    folder.mkdir()
    hand_over(folder)
    return PostgresProcess(folder, port)

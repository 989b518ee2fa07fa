"""Runs a primary and a synchronous standby on loopback; tests kill the primary and promote the
standby."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define

from tests.support.postgres_process import (
    SUPERUSER,
    PostgresProcess,
    execute,
    hand_over,
    postgres_folder,
    wait_until,
)
from tests.support.reserved_port import reserved_port


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
        execute(
            self.primary.tcp_url,
            "ALTER SYSTEM SET synchronous_standby_names = 'standby'",
            "SELECT pg_reload_conf()",
        )
        self.wait_for_standby()

    def stop_waiting(self) -> None:
        """Let no commit wait for the standby any more."""
        execute(
            self.primary.tcp_url,
            "ALTER SYSTEM RESET synchronous_standby_names",
            "SELECT pg_reload_conf()",
        )

    def wait_for_standby(self) -> None:
        """Wait until commits are on the standby before they are answered."""
        self._wait_for_replication("sync_state = 'sync'")

    def wait_until_copied(self) -> None:
        """Wait until the standby, also one that commits don't wait for, has what was committed."""
        [(flushed,)] = execute(self.primary.tcp_url, "SELECT pg_current_wal_flush_lsn()")
        self._wait_for_replication(f"flush_lsn >= '{flushed}'")

    def _wait_for_replication(self, condition: str) -> None:
        question = f"SELECT 1 FROM pg_stat_replication WHERE {condition}"
        wait_until(
            lambda: execute(self.primary.tcp_url, question), lambda: "the standby doesn't follow"
        )

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
        assert execute(self.standby.tcp_url, "SELECT pg_promote()") == [(True,)]

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

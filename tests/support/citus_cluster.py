"""Runs a coordinator of Citus and two workers with the scripts in `deploy/citus`, and makes
databases with distributed tables in them. `MMO_TEST_CITUS` names the directory into which
`build.sh` has built Citus."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg
import trio
from attrs import define
from psycopg import sql

from mmo_trio.storage.postgres.startup import distribute_postgres
from tests.support.abandoned_servers import end_with_this_process
from tests.support.reserved_port import reserved_port
from tests.support.time_limits import HANGS_AFTER_S

CITUS = "MMO_TEST_CITUS"
SCRIPTS = Path(__file__).parents[2] / "deploy" / "citus"
SHARDS = 8
"""Shards of each table: fewer than the 32 of a real cluster, as each is a table that every database
of a test has."""
_TEMPLATE = "mmo_distributed"
_numbers = count(1)


@define(eq=False)
class CitusCluster:
    """A coordinator and two workers on loopback, on consecutive ports."""

    prefix: Path
    folder: Path
    port: int

    @property
    def url(self) -> str:
        """The address of a database of the coordinator."""
        return self.address(0, "postgres")

    def address(self, node: int, database: str) -> str:
        """The address of a database of the coordinator (0) or a worker."""
        return f"postgresql://postgres@127.0.0.1:{self.port + node}/{database}"

    def start(self) -> None:
        """Start the servers that do not run; a killed one, when its last process has ended."""
        until = time.monotonic() + HANGS_AFTER_S
        while True:
            try:
                self._script("start")
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def stop(self) -> None:
        """Stop all of them."""
        self._script("stop")

    def fresh(self) -> str:
        """The address of a new database with the extension and its workers, but without our
        tables."""
        return self._create_empty(f"mmo_test_{os.getpid()}_{next(_numbers)}")

    def migrated(self) -> str:
        """The address of a new database with distributed, empty tables."""
        name = f"mmo_test_{os.getpid()}_{next(_numbers)}"
        self._run_everywhere(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}")
        return self.address(0, name)

    def drop(self, url: str) -> None:
        """Remove a database of `fresh` from all servers, even if clients are connected."""
        name = urlsplit(url).path.removeprefix("/")
        while True:
            try:
                self._run_everywhere(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
                return
            except psycopg.errors.ObjectInUse:  # Citus's own maintenance has come back.
                time.sleep(0.2)

    def _create_empty(self, name: str) -> str:
        for node in range(3):
            self.run(node, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
            self.run(node, "CREATE EXTENSION citus", name)
        self.run(0, f"SELECT citus_set_coordinator_host('127.0.0.1', {self.port})", name)
        for node in (1, 2):
            self.run(0, f"SELECT citus_add_node('127.0.0.1', {self.port + node})", name)
        self.run(0, f"ALTER DATABASE {name} SET citus.shard_count = {SHARDS}")
        return self.address(0, name)

    def make_template(self) -> None:
        """Make the database that all others are copies of."""
        url = self._create_empty(_TEMPLATE)
        with ThreadPoolExecutor(1) as outside_trio:
            outside_trio.submit(trio.run, _distribute, url).result()
        for node in range(3):
            self.run(node, f"ALTER DATABASE {_TEMPLATE} WITH ALLOW_CONNECTIONS false")
            self.run(
                node,
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                f"'{_TEMPLATE}'",
            )

    def run(
        self, node: int, statement: str, database: str = "postgres"
    ) -> list[tuple[object, ...]]:
        """One statement on one server."""
        with psycopg.connect(self.address(node, database), autocommit=True) as connection:
            cursor = connection.execute(sql.SQL(statement))
            return cursor.fetchall() if cursor.description else []

    def _run_everywhere(self, statement: str) -> None:
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(lambda node: self.run(node, statement), range(3)))

    def kill_worker(self, worker: int) -> None:
        """Kill all processes of a worker at once."""
        file = self.folder / f"worker{worker}" / "postmaster.pid"
        postmaster = int(file.read_text().split()[0])
        found = subprocess.run(
            ["ps", "--ppid", str(postmaster), "-o", "pid="],
            capture_output=True,
            text=True,
            check=False,
        )
        for pid in (postmaster, *map(int, found.stdout.split())):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + HANGS_AFTER_S
        while Path(f"/proc/{postmaster}").exists():
            assert time.monotonic() < until, "a killed server goes on"
            time.sleep(0.02)

    def _script(self, command: str) -> None:
        environment = {**os.environ, "CITUS_PREFIX": str(self.prefix), "CITUS_PORT": str(self.port)}
        subprocess.run(
            [str(SCRIPTS / "cluster.sh"), command, str(self.folder)],
            check=True,
            env=environment,
            stdout=subprocess.DEVNULL,
            timeout=HANGS_AFTER_S,
        )


async def _distribute(url: str) -> None:
    await distribute_postgres(url)


def is_wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the tests' databases are to be distributed."""
    return CITUS in environment


@contextmanager
def citus_cluster() -> Iterator[CitusCluster]:
    """Run the three servers during the block."""
    folder = Path(tempfile.mkdtemp(prefix="mmo-citus-"))
    end_with_this_process(folder)
    folder.chmod(0o755)
    with reserved_port(3) as port:
        cluster = CitusCluster(Path(os.environ[CITUS]), folder, port)
        try:
            cluster.start()
            cluster.make_template()
            yield cluster
        finally:
            cluster.stop()
            shutil.rmtree(folder, ignore_errors=True)

"""Runs one PostgreSQL in a folder of its own, with the defaults of its package or, where it may
forget all with the power, in memory."""

from __future__ import annotations

import functools
import grp
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import Factory, define, field, frozen

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg

from tests.support.abandoned_servers import end_with_this_process
from tests.support.postgres_programs import PostgresPrograms, chosen
from tests.support.reserved_port import reserved_port
from tests.support.time_limits import HANGS_AFTER_S

SUPERUSER = "postgres"
_MEMORY = Path("/dev/shm")
_MEMORY_MIN_BYTES = 2 * 1024**3
"""Free bytes that a file system in memory needs, so that all processes of a run find room there."""
_FORGETFUL = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}
"""Settings of a server that may forget all with the power; with the last one its log stays
small."""
_ACCOUNTS = ("postgres", "pgserver")
"""Users that may run PostgreSQL when the tests run as root: the one of Debian's package, and the
one that the wheel makes."""


@define(eq=False)
class PostgresProcess:
    """Holds a server: its files outlive the process, which tests end, pause and start again.

    Unless told otherwise, it has what `initdb` and the package's configuration give it: JIT where
    the package has it, fsync, and every commit on disk. It listens on loopback and on a socket in
    its folder."""

    folder: Path
    port: int
    """Reserved for it."""
    programs: PostgresPrograms = Factory(chosen)
    settings: Mapping[str, str] = field(factory=dict)
    """Settings that differ from the defaults."""
    _child: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        """Return the folder of its data."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """Return the id of its first process."""
        assert self._child is not None
        return self._child.pid

    @property
    def socket_url(self) -> str:
        """Return the URL of its first database through the socket in its folder."""
        return f"postgresql://{SUPERUSER}@/postgres?host={self.folder}&port={self.port}"

    @property
    def tcp_url(self) -> str:
        """Return the URL of its first database through loopback."""
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        """Make its files, unless they are there."""
        if _account().user is not None:
            _make_reachable(self.programs.folder)
        if not (self.data / "PG_VERSION").exists():
            self.run(
                "initdb",
                "-D",
                f"{self.data}",
                "-U",
                SUPERUSER,
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-sync",
            )

    def start(self) -> None:
        """Start it and wait until it serves."""
        options = {
            "port": f"{self.port}",
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": f"{self.folder}",
            **self.settings,
        }
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        self._child = spawn_server(
            self.folder, self.programs.path("postgres"), "-D", f"{self.data}", *arguments
        )
        wait_until(self._serves, self.log)

    def _serves(self) -> bool:
        assert self._child is not None
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.tcp_url).close()
            return True
        assert self._child.poll() is None, self.log()
        return False

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT severs its clients and writes a checkpoint, SIGQUIT ends it at once as
        after a loss of power, SIGKILL leaves it no time at all."""
        if self._child is None or self._child.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, how)
        try:
            self._child.wait(HANGS_AFTER_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(HANGS_AFTER_S)

    def restart(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End it, as `stop` does, and start it again."""
        self.stop(how)
        self.start()

    def log(self) -> str:
        """Return what it has logged."""
        return (self.folder / "log").read_text(errors="replace")

    def forget_log(self) -> None:
        """Remove what it has logged."""
        os.truncate(self.folder / "log", 0)

    def run(self, program: str, *arguments: str) -> None:
        """Run one of its programs to the end, as its user. Raises CalledProcessError."""
        account = _account()
        subprocess.run(
            [self.programs.path(program), *arguments],
            check=True,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            timeout=HANGS_AFTER_S,
            user=account.user,
            group=account.group,
            extra_groups=account.groups,
        )


@contextmanager
def postgres_process(
    programs: PostgresPrograms | None = None,
    settings: Mapping[str, str] | None = None,
    *,
    is_durable: bool = True,
) -> Iterator[PostgresProcess]:
    """Run a new server during the block.

    `programs`: others than the chosen ones. `is_durable`: False for one that may forget all with
    the power, of which new databases cost a tenth."""
    settings = settings or {}
    if not is_durable:
        settings = {**_FORGETFUL, **settings}

    with postgres_folder(is_durable=is_durable) as folder, reserved_port() as port:
        server = PostgresProcess(folder, port, programs or chosen(), settings)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def postgres_folder(*, is_durable: bool = True) -> Iterator[Path]:
    """Make a folder for servers that exists during the block; if this process is killed, they end
    and it is removed. `is_durable`: False for one in memory, where there is room for it."""
    parent = None if is_durable else _memory()
    folder = Path(tempfile.mkdtemp(prefix="mmo-pg-", dir=parent))
    end_with_this_process(folder)
    hand_over(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run each statement by itself; return the rows of the last one, if it has any."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def wait_until(holds: Callable[[], object], or_say: Callable[[], str]) -> None:
    """Return once it is so, which another process makes so."""
    until = time.monotonic() + HANGS_AFTER_S
    while not holds():
        assert time.monotonic() < until, or_say()
        time.sleep(0.05)


def _memory() -> Path | None:
    """Return a folder in memory with enough room; None: there is none."""
    with suppress(OSError):
        if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _MEMORY_MIN_BYTES:
            return _MEMORY
    return None


def hand_over(folder: Path) -> None:
    """Give a folder to the user who runs PostgreSQL."""
    account = _account()
    if account.user is not None:
        shutil.chown(folder, account.user, account.group)


def spawn_server(folder: Path, *command: str) -> subprocess.Popen[bytes]:
    """Start a program in a folder as the user who runs PostgreSQL; its output goes to `log` in that
    folder."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command,
            start_new_session=True,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            user=_account().user,
            group=_account().group,
            extra_groups=_account().groups,
        )


@frozen
class _Account:
    """Names the user and the groups of PostgreSQL's processes; None means those of the tests."""

    user: int | None = None
    group: int | None = None
    groups: list[int] | None = None


@functools.cache
def _account() -> _Account:
    """Return the user to run PostgreSQL as, which refuses to run as root."""
    if os.geteuid() != 0:
        return _Account()
    for name in _ACCOUNTS:
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return _Account(
                found.pw_uid,
                found.pw_gid,
                [each.gr_gid for each in grp.getgrall() if name in each.gr_mem],
            )
    subprocess.run(["useradd", "--system", _ACCOUNTS[-1]], check=True, capture_output=True)
    return _account()


def _make_reachable(folder: Path) -> None:
    """Let every user pass through the folders that lead to this one, as those of a virtual
    environment may be root's alone."""
    for each in (folder, *folder.parents):
        mode = each.stat().st_mode
        if not mode & stat.S_IXOTH:
            each.chmod(mode | stat.S_IXGRP | stat.S_IXOTH)

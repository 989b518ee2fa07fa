"""Runs pgbouncer between a gateway and its database."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg

from tests.support.postgres_process import (
    SUPERUSER,
    PostgresProcess,
    postgres_folder,
    spawn_server,
    wait_until,
)
from tests.support.reserved_port import reserved_port
from tests.support.time_limits import HANGS_AFTER_S

CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server_port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {pool_mode}
server_round_robin = {round_robin}
"""


@contextmanager
def pgbouncer(
    server: PostgresProcess, pool_mode: str, *, is_round_robin: bool = False
) -> Iterator[str]:
    """Run pgbouncer before this server during the block, with its defaults but for the mode; yield
    the URL of the server's first database through it."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, "pgbouncer is not installed (Debian: apt install pgbouncer)"
    with postgres_folder() as folder, reserved_port() as port:
        text = CONFIGURATION.format(
            server_port=server.port,
            user=SUPERUSER,
            port=port,
            pool_mode=pool_mode,
            round_robin=int(is_round_robin),
        )
        url = f"postgresql://{SUPERUSER}@127.0.0.1:{port}/postgres"
        (folder / "pgbouncer.ini").write_text(text, encoding="utf-8")
        child = spawn_server(folder, program, "pgbouncer.ini")
        try:

            def serves() -> bool:
                with suppress(psycopg.OperationalError):
                    psycopg.connect(url).close()
                    return True
                assert child.poll() is None, (folder / "log").read_text()
                return False

            wait_until(serves, lambda: (folder / "log").read_text())
            yield url
        finally:
            child.terminate()
            child.wait(HANGS_AFTER_S)

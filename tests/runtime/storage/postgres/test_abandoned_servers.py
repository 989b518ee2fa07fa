"""A run of tests that is killed leaves no PostgreSQL behind."""

from __future__ import annotations

import errno
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.time_limits import HANGS_AFTER_S

SERVE = """
import os, signal, sys
from tests.support.postgres_process import postgres_process

with postgres_process() as server:
    if sys.argv[1] == "pause":
        os.kill(server.pid, signal.SIGSTOP)
    print(server.port, server.folder, flush=True)
    signal.pause()
"""


def kill_tests_that(what: str) -> tuple[int, Path]:
    """Start a process that runs a server, as tests do; kill it, and return the server's port and
    folder."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, what],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as tests:
        assert tests.stdout is not None
        port, folder = tests.stdout.readline().split()
        assert Path(folder, "data", "postmaster.pid").exists()
        tests.send_signal(signal.SIGKILL)
    return int(port), Path(folder)


@pytest.mark.long
@pytest.mark.parametrize("what", ["serve", "pause"])
def test_a_server_ends_when_its_tests_are_killed(what: str) -> None:
    port, folder = kill_tests_that(what)
    until = time.monotonic() + HANGS_AFTER_S
    while folder.exists():
        assert time.monotonic() < until, f"{folder} is still there"
        time.sleep(0.02)
    with closing(socket.socket()) as probe:
        assert probe.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED

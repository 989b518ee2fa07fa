"""A log that nobody reads holds up nothing: neither a thread that writes to it, nor a gateway, nor
its end."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from mmo_trio.system.logs import ATOMIC_BYTES, FLUSH_TIMEOUT_S, LogOutput
from tests.support.merchant import TIMEOUT_S, Merchant, ask
from tests.support.mmo_process import COMMAND, FREE_PORTS, READY, environment_without_settings

PIPE_BYTES = 4096


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A small pipe: the end to read and the end to write."""
    ends = os.pipe()
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    yield ends
    for each in ends:
        os.close(each)


def read_available(descriptor: int) -> bytes:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    read = b""
    while poll.poll(200):
        read += os.read(descriptor, 65_536)
    return read


def test_lines_that_nobody_reads_are_dropped_counted_and_reported(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    output = LogOutput(writing, bytes_max=2 * PIPE_BYTES)
    reported: list[int] = []
    has_reported = threading.Event()

    def report(lines: int) -> None:
        reported.append(lines)
        has_reported.set()

    with output.in_background(report):
        for number in range(1_000):
            output.write(f"line {number:04} {'x' * 100}")
        assert 0 < output.dropped < 1_000
        assert reported == []
        read = b""
        while not has_reported.is_set():
            read += read_available(reading)
    read += read_available(reading)
    lines = read.decode().splitlines()
    assert len(lines) == 1_000 - output.dropped
    assert lines == sorted(lines), "in their order, and each whole"
    assert {len(each) for each in lines} == {110}
    assert sum(reported) == output.dropped


def test_the_end_waits_a_limited_time_for_the_last_lines(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    output = LogOutput(writing)
    began = time.monotonic()
    with output.in_background(lambda lines: None):
        for number in range(1_000):
            output.write(f"line {number:04} {'x' * 100}")
    assert time.monotonic() - began < FLUSH_TIMEOUT_S + TIMEOUT_S
    output.write("and nothing waits after it either")
    assert output.dropped == 1
    read_available(reading)  # Lets the thread end.


def test_the_end_writes_what_still_waits(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    output = LogOutput(writing)
    with output.in_background(lambda lines: None):
        output.write("the last line")
    assert read_available(reading) == b"the last line\n"


def test_a_process_without_the_thread_drops_what_it_cannot_write_at_once(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe
    output = LogOutput(writing)
    for number in range(100):
        output.write(f"line {number:04} {'x' * 100}")
    written = read_available(reading).decode().splitlines()
    assert written
    assert len(written) == 100 - output.dropped
    output.write("y" * 3 * ATOMIC_BYTES)
    assert output.dropped == 100 - len(written) + 1


@pytest.mark.parametrize("background", [True, False], ids=["background", "foreground"])
def test_a_log_that_cannot_be_written_stops_nobody(background: bool) -> None:
    with open("/dev/full", "wb") as full:
        output = LogOutput(full.fileno())
        if background:
            with output.in_background(lambda lines: None):
                output.write("nobody reads this")
        else:
            output.write("nobody reads this")
    assert output.dropped == 1


async def test_a_gateway_whose_log_nobody_reads_serves_on_and_ends_when_asked(
    tmp_path: Path, pipe: tuple[int, int]
) -> None:
    _, writing = pipe
    process = await trio.lowlevel.open_process(
        [*COMMAND, "sandbox", "--data", str(tmp_path), *FREE_PORTS],
        env=environment_without_settings(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=writing,
    )
    assert process.stdout is not None
    try:
        said = b""
        with trio.fail_after(3 * TIMEOUT_S):
            while (line := READY.search(said.decode())) is None:
                said += await process.stdout.receive_some()
        ready = {
            name: value for name, _, value in (word.partition("=") for word in line[1].split())
        }
        with trio.fail_after(3 * TIMEOUT_S):
            for _ in range(100):  # A line each, and the pipe holds some twenty.
                assert (await ask(f"{ready['api']}/nowhere")).status == 404
            await Merchant(ready["api"], ready["api_key"]).accepted()
            assert (await ask(f"{ready['api']}/healthz")).status == 200
            assert (await ask(f"{ready['console']}/metrics")).status == 200
        process.terminate()
        with trio.fail_after(3 * TIMEOUT_S):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.stdout.aclose()

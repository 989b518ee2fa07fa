"""Generates load where wrk is not installed, at a fixed rate, or within a window.

It uses raw sockets and one selector, and prints one line, `RESULT per_s p50_ms p99_ms bad
requests`, like wrk with the project's script. At a fixed rate, the time of a request starts when it
was due, so that a stalled server is visible."""

from __future__ import annotations

import argparse
import itertools
import mmap
import re
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from attrs import Factory, define, frozen

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_COUNT = struct.Struct("<Q")
LONGEST_WAIT_S = 0.05


def percentile(values: list[float], percent: float) -> float:
    """Return the value below which this percentage lies; 0 for no values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


@frozen
class LoadCounts:
    """Collects the results of the load."""

    seconds: float
    times_ms: list[float]
    bad: int

    def line(self) -> str:
        """Return the line to print."""
        done = len(self.times_ms) + self.bad
        p50, p99 = percentile(self.times_ms, 50), percentile(self.times_ms, 99)
        return f"RESULT {done / self.seconds:f} {p50:f} {p99:f} {self.bad} {done}"


@define(eq=False)
class Connection:
    """Holds one connection with at most one active request."""

    socket: socket.socket
    since: float = 0.0
    incoming: bytearray = Factory(bytearray)

    def send(self, request: bytes, since: float) -> None:
        """Send a request; requests are small, so the kernel accepts them completely."""
        self.since = since
        sent = self.socket.send(request)
        assert sent == len(request)

    def receive(self) -> bool | None:
        """Tell whether the complete answer is a success; None while it is incomplete."""
        more = self.socket.recv(1 << 18)
        if not more:
            raise ConnectionError("The server has closed the connection.")
        self.incoming += more
        end = self.incoming.find(b"\r\n\r\n")
        if end < 0:
            return None
        found = _LENGTH.search(self.incoming, 0, end + 2)
        if len(self.incoming) < end + 4 + (int(found[1]) if found else 0):
            return None
        is_good = self.incoming[9:10] == b"2"
        self.incoming.clear()
        return is_good


def drive(
    address: tuple[str, int],
    requests: Iterator[bytes],
    *,
    connections: int,
    seconds: float,
    rate: float | None = None,
    may_send: Callable[[int], bool] = lambda sent: True,
    is_over: Callable[[], bool] = lambda: False,
) -> LoadCounts:
    """Keep the connections as busy as the rate and `may_send`, a function of the number of sent
    requests, allow."""
    times_ms: list[float] = []
    bad = sent = 0
    with selectors.DefaultSelector() as selector:
        free: deque[Connection] = deque()
        for _ in range(connections):
            free.append(_connect(address, selector))
        begin = now = time.perf_counter()
        until = begin + seconds
        busy = 0
        while now < until or (busy and now < until + 5):
            if now < until and is_over():
                until = now
            while free and now < until and may_send(sent):
                due = now if rate is None else begin + sent / rate
                if due > now:
                    break
                free.popleft().send(next(requests), due)
                sent, busy = sent + 1, busy + 1
            for key, _ in selector.select(0.001 if free and now < until else LONGEST_WAIT_S):
                connection: Connection = key.data
                try:
                    is_good = connection.receive()
                except ConnectionError:
                    selector.unregister(connection.socket)
                    connection.socket.close()
                    connection, is_good = _connect(address, selector), False
                if is_good is None:
                    continue
                if is_good:
                    times_ms.append((time.perf_counter() - connection.since) * 1000)
                else:
                    bad += 1
                busy -= 1
                free.append(connection)
            now = time.perf_counter()
        for entry in list(selector.get_map().values()):
            entry.data.socket.close()
    return LoadCounts(min(now, until) - begin, times_ms, bad + busy)


def _connect(address: tuple[str, int], selector: selectors.BaseSelector) -> Connection:
    made = socket.create_connection(address, timeout=10)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setblocking(False)
    connection = Connection(made)
    selector.register(made, selectors.EVENT_READ, connection)
    return connection


def creates(
    host: str, path: str, body: str, run: str, merchants: list[tuple[str, str, str]]
) -> Iterator[bytes]:
    """Generate creates of these merchants in turn; each has a key, a resultUrl and a prefix for
    references."""
    for number, (key, url, mark) in enumerate(itertools.cycle(merchants)):
        reference = f"{mark}{run}-{number}"
        content = body.replace("REFERENCE", reference).replace("RESULT_URL", url).encode()
        yield _head("POST", path, host, key, len(content)) + content


def look_ups(host: str, path: str, key: str, references: list[str]) -> Iterator[bytes]:
    """Generate look-ups of these references, spread over the list."""
    for number in itertools.count():
        reference = references[number * 7919 % len(references)]
        yield _head("GET", path + reference, host, key, 0)


def _head(method: str, target: str, host: str, key: str, length: int) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", f"X-Api-Key: {key}"]
    if length:
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="scheme, host, port and path; a look-up's reference is added")
    parser.add_argument("--key", default="")
    parser.add_argument("--run", default="1", help="makes references unique")
    parser.add_argument("--body", help="of creates; REFERENCE and RESULT_URL are filled in")
    parser.add_argument("--merchants", type=Path, help="lines of key, resultUrl, mark")
    parser.add_argument("--references", type=Path, help="look these up, one a line")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, help="requests a second; default: as they can")
    parser.add_argument("--window", type=int, help="most payments between create and callback")
    parser.add_argument("--counter", type=Path, help="file with the number of callbacks so far")
    parser.add_argument(
        "--latencies", type=Path, help="file to write each time in ms to, one a line"
    )
    parser.add_argument("--until", type=Path, help="end as soon as this file is there")
    arguments = parser.parse_args()
    parts = urlsplit(arguments.url)
    if arguments.references is not None:
        requests = look_ups(
            parts.netloc, parts.path, arguments.key, arguments.references.read_text().split()
        )
    else:
        merchants = [(arguments.key, "", "")]
        if arguments.merchants is not None:
            lines = arguments.merchants.read_text().splitlines()
            merchants = [(key, url, mark) for key, url, mark in map(str.split, lines)]
        requests = creates(parts.netloc, parts.path, arguments.body, arguments.run, merchants)
    tally = drive(
        (parts.hostname or "", parts.port or 80),
        requests,
        connections=arguments.connections,
        seconds=arguments.seconds,
        rate=arguments.rate,
        may_send=_within(arguments.window, arguments.counter),
        is_over=(lambda: False) if arguments.until is None else arguments.until.exists,
    )
    if arguments.latencies is not None:
        arguments.latencies.write_text("".join(f"{time_ms:.3f}\n" for time_ms in tally.times_ms))
    print(tally.line())


def _within(window: int | None, counter: Path | None) -> Callable[[int], bool]:
    if window is None or counter is None:
        return lambda sent: True
    with counter.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), _COUNT.size)
    before: int = _COUNT.unpack_from(shared)[0]
    return lambda sent: bool(sent - (_COUNT.unpack_from(shared)[0] - before) < window)


if __name__ == "__main__":
    main()

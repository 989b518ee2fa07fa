"""Answers that nobody reads: each on a connection from an address of its own, with a small receive
buffer."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from ipaddress import IPv4Address
from urllib.parse import urlsplit

RECEIVE_BUFFER_BYTES = 2048
"""With it the kernel takes some 15 KB of an answer."""
FIRST_ADDRESS = IPv4Address("127.0.1.1")
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)


@contextmanager
def unread_answers(
    url: str, count: int, *, cookie: str = "", timeout_s: float
) -> Iterator[Sequence[socket.socket]]:
    """Ask for this page on so many connections; the block begins once the answer to each has begun,
    and closes them.

    `timeout_s` bounds each wait for a connection."""
    parts = urlsplit(url)
    head = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nCookie: {cookie}\r\n\r\n"
    with ExitStack() as held:
        connections = []
        for number in range(count):
            connection = held.enter_context(closing(socket.socket()))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            connection.settimeout(timeout_s)
            connection.bind((str(FIRST_ADDRESS + number), 0))
            connection.connect((parts.hostname, parts.port))
            connection.sendall(head.encode("ascii"))
            connections.append(connection)
        for connection in connections:
            assert connection.recv(1, socket.MSG_PEEK)
        yield connections


def is_whole(connection: socket.socket) -> bool:
    """Read an answer at last; return whether all of it arrives, as it was not broken off."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024 * 1024)
    data = bytearray()
    while (end := data.find(b"\r\n\r\n")) < 0 or len(data) < end + 4 + _length(data):
        try:
            more = connection.recv(64 * 1024)
        except ConnectionResetError:
            more = b""
        if not more:
            return False
        data += more
    return True


def _length(data: bytearray) -> int:
    found = _LENGTH.search(data)
    assert found is not None
    return int(found[1])

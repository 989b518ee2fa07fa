"""Floods the pages and the console: connections that stay idle, that read nothing, and that never
stop asking.

Prints `FLOODING` once all connections were tried, and ends when its standard input does."""

from __future__ import annotations

import argparse
import re
import selectors
import socket
import sys
import time
from urllib.parse import urlsplit

from attrs import Factory, define

RETRY_S = 1.0
"""How long a connection that was closed waits before it comes again."""
AT_ONCE = 50
"""Connections that begin in one turn."""
PIPELINED = 20
"""Requests that a client sends at once that reads nothing."""
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)


@define(eq=False)
class Visitor:
    """Holds one connection of the flood and what it wants."""

    address: tuple[str, int]
    request: bytes
    """Empty for a connection that stays idle."""
    is_reading: bool
    connected: socket.socket | None = None
    unsent: bytearray = Factory(bytearray)
    incoming: bytearray = Factory(bytearray)
    due_at: float | None = 0.0
    """When it connects again or looks whether it was closed; None while it waits for the server."""

    def act(self, selector: selectors.BaseSelector) -> None:
        """Connect, or send once more where nothing is read: that shows whether the server has
        closed."""
        self.due_at = None
        if self.connected is None:
            self.connected = socket.socket()
            self.connected.setblocking(False)
            self.connected.connect_ex(self.address)
            self.unsent = bytearray(self.request * (1 if self.is_reading else PIPELINED))
            self.incoming.clear()
            selector.register(self.connected, self._events(), self)
            return
        try:
            self.connected.send(self.request)
            self.due_at = time.monotonic() + RETRY_S
        except BlockingIOError:
            self.due_at = time.monotonic() + RETRY_S
        except OSError:
            self._close()

    def handle(self, events: int, selector: selectors.BaseSelector) -> None:
        """Send and receive what is possible; a closed connection comes again later."""
        assert self.connected is not None
        try:
            if events & selectors.EVENT_READ:
                self._receive(self.connected)
            if self.unsent and events & selectors.EVENT_WRITE:
                del self.unsent[: self.connected.send(self.unsent)]
        except BlockingIOError:
            return
        except OSError:
            selector.unregister(self.connected)
            self._close()
            return
        if self.unsent or self.is_reading:
            selector.modify(self.connected, self._events(), self)
        else:
            selector.unregister(self.connected)
            self.due_at = time.monotonic() + RETRY_S

    def _receive(self, connected: socket.socket) -> None:
        data = connected.recv(1 << 18)
        if not data:
            raise ConnectionError
        self.incoming += data
        end = self.incoming.find(b"\r\n\r\n")
        length = _LENGTH.search(self.incoming, 0, end + 2) if end >= 0 else None
        if length is not None and len(self.incoming) >= end + 4 + int(length[1]):
            self.incoming.clear()
            self.unsent += self.request

    def _close(self) -> None:
        assert self.connected is not None
        self.connected.close()
        self.connected, self.due_at = None, time.monotonic() + RETRY_S

    def _events(self) -> int:
        return (selectors.EVENT_READ if self.is_reading else 0) | (
            selectors.EVENT_WRITE if self.unsent else 0
        )


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", help="a page on each listener")
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--unread", type=int, default=50)
    parser.add_argument("--asking", type=int, default=50)
    arguments = parser.parse_args()
    visitors = []
    for kind, count in (
        ("idle", arguments.idle),
        ("unread", arguments.unread),
        ("asking", arguments.asking),
    ):
        for number in range(count):
            parts = urlsplit(arguments.urls[number % len(arguments.urls)])
            request = f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
            address = (parts.hostname or "", parts.port or 80)
            visitors.append(Visitor(address, b"" if kind == "idle" else request, kind != "unread"))
    flood(visitors)


def flood(visitors: list[Visitor]) -> None:
    """Keep all visitors coming until standard input ends."""
    waiting = len(visitors)
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ, None)
        while True:
            now = time.monotonic()
            due = [each for each in visitors if each.due_at is not None and each.due_at <= now]
            for visitor in due[:AT_ONCE]:
                visitor.act(selector)
            if waiting > 0 and (waiting := waiting - min(AT_ONCE, len(due))) <= 0:
                print("FLOODING", flush=True)
            for key, events in selector.select(0.02):
                if key.data is None:
                    return
                if key.data.connected is not None:
                    key.data.handle(events, selector)


if __name__ == "__main__":
    main()

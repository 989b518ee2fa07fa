"""Sends requests at given rates, whether or not earlier ones are answered, for clients who give up.

    python -m bench.impatient URL --key KEY --body BODY --stage RATE:SECONDS … --to FILE

Each request is sent when it is due, on a free connection or a new one, and its client ends the
connection after `PATIENCE_S`. FILE gets a line for each: when it was due in seconds from the
beginning, its reference, its status (0 where the client gave up), and its time in milliseconds."""

from __future__ import annotations

import argparse
import errno
import selectors
import socket
import time
from collections import deque
from pathlib import Path
from urllib.parse import urlsplit

from attrs import define

from bench.machine import raise_descriptor_limit

PATIENCE_S = 2.0
CONNECTIONS_MAX = 3_000
"""More clients than this don't come to a server: the next one waits for one of them to give up."""
FIRST_SENDS = 50
"""As many requests are sent before answers are read again."""


@define(eq=False)
class Client:
    """Holds a connection and the request on it."""

    socket: socket.socket
    due_s: float = 0.0
    reference: str = ""
    is_waiting: bool = False


@define(eq=False)
class Crowd:
    """Holds all connections, and what became of each request."""

    address: tuple[str, int]
    head: str
    body: str
    selector: selectors.BaseSelector
    free: deque[Client]
    waiting: deque[Client]
    """In the order of sending, so that the first ones give up first; some are answered."""
    lines: list[str]
    begin_s: float

    def send(self, due_s: float, number: int) -> bool:
        """Send a request; tell whether there was a client for it."""
        client = self._client()
        if client is None:
            return False

        reference = f"i-{number}"
        content = self.body.replace("REFERENCE", reference)
        request = f"{self.head}{len(content)}\r\n\r\n{content}"
        client.due_s, client.reference, client.is_waiting = due_s, reference, True
        try:
            client.socket.send(request.encode())
        except OSError:
            self._end(client, "0")
            return True
        self.waiting.append(client)
        return True

    def read(self, timeout_s: float) -> None:
        """Take the answers that are there."""
        for key, _ in self.selector.select(timeout_s):
            client: Client = key.data
            try:
                answer = client.socket.recv(65_536)
            except OSError:
                answer = b""
            if not client.is_waiting or not answer:
                self._end(client, "0")
                continue
            self._note(client, answer[9:12].decode())
            client.is_waiting = False
            if b"\r\nconnection: close" in answer.lower():
                self._end(client, "0")
            else:
                self.free.append(client)

    def give_up(self) -> None:
        """End the connections of those whose patience is over."""
        long_ago_s = self.now_s() - PATIENCE_S
        while self.waiting and (
            not self.waiting[0].is_waiting or self.waiting[0].due_s < long_ago_s
        ):
            client = self.waiting.popleft()
            if client.is_waiting and client.due_s < long_ago_s:
                self._end(client, "0")

    def now_s(self) -> float:
        """Return the seconds since the beginning."""
        return time.perf_counter() - self.begin_s

    def _client(self) -> Client | None:
        while self.free:
            client = self.free.popleft()
            if client.socket.fileno() >= 0:
                return client
        if len(self.selector.get_map()) >= CONNECTIONS_MAX:
            return None
        made = socket.socket()
        made.settimeout(PATIENCE_S)
        try:
            made.connect(self.address)
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EMFILE):
                raise
            made.close()
            return None
        made.setblocking(False)
        client = Client(made)
        self.selector.register(made, selectors.EVENT_READ, client)
        return client

    def _end(self, client: Client, status: str) -> None:
        if client.is_waiting:
            self._note(client, status)
            client.is_waiting = False
        if client.socket.fileno() >= 0:
            self.selector.unregister(client.socket)
            client.socket.close()

    def _note(self, client: Client, status: str) -> None:
        took_ms = (self.now_s() - client.due_s) * 1000
        self.lines.append(f"{client.due_s:.4f} {client.reference} {status} {took_ms:.1f}\n")


def drive(crowd: Crowd, stages: list[tuple[float, float]]) -> None:
    """Send what is due in each stage, then wait for the last answers."""
    begin_s = number = 0.0
    for rate, seconds in stages:
        sent = 0
        while (now_s := crowd.now_s()) < begin_s + seconds:
            due = min(int((now_s - begin_s) * rate) - sent, FIRST_SENDS)
            for _ in range(due):
                if not crowd.send(crowd.now_s(), int(number)):
                    crowd.lines.append(f"{now_s:.4f} i-{int(number)} none 0\n")
                number += 1
                sent += 1
            crowd.read(0 if due == FIRST_SENDS else 0.001)
            crowd.give_up()
        begin_s += seconds
    while crowd.now_s() < begin_s + PATIENCE_S + 0.5:
        crowd.read(0.05)
        crowd.give_up()


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--key", required=True)
    parser.add_argument("--body", required=True, help="REFERENCE is filled in")
    parser.add_argument("--stage", action="append", required=True, help="RATE:SECONDS")
    parser.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    raise_descriptor_limit(CONNECTIONS_MAX + 100)

    url = urlsplit(arguments.url)
    head = [
        f"POST {url.path} HTTP/1.1",
        f"Host: {url.netloc}",
        f"X-Api-Key: {arguments.key}",
        "Content-Type: application/json",
        "Content-Length: ",
    ]
    stages = [tuple(map(float, stage.split(":"))) for stage in arguments.stage]
    with selectors.DefaultSelector() as selector:
        crowd = Crowd(
            (url.hostname or "", url.port or 80),
            "\r\n".join(head),
            arguments.body,
            selector,
            deque(),
            deque(),
            [],
            time.perf_counter(),
        )
        drive(crowd, [(rate, seconds) for rate, seconds in stages])
        arguments.to.write_text("".join(crowd.lines))


if __name__ == "__main__":
    main()

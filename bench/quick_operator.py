"""Simulates an operator over HTTP that costs its own process little: MTN MoMo's requests, and one
notification 0.2 s after each payment.

    python -m bench.quick_operator

It prints `AT url`. `POST /target`, whose body is a host and port, says where notifications go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop
from attrs import Factory, define

TAKES_S = 0.2
SENDERS = 48
"""Connections for notifications."""
KEPT_S = 30.0
"""How long a payment is known after its notification."""
ATTEMPTS, PAUSE_S = 20, 0.1

TOKEN = json.dumps(
    {"access_token": "t" * 40, "token_type": "access_token", "expires_in": 3600}
).encode()
DUPLICATE = b'{"code":"RESOURCE_ALREADY_EXIST","message":"Duplicated reference id."}'
UNKNOWN = b'{"code":"RESOURCE_NOT_FOUND","message":"Requested resource was not found."}'


@define(eq=False)
class Operator:
    """Knows the payments, and where their notifications go."""

    target: tuple[str, int] = ("", 0)
    payments: dict[str, Any] = Factory(dict)
    completed: set[str] = Factory(set)
    due: asyncio.Queue[tuple[str, str]] = Factory(asyncio.Queue)
    """The path of each notification and its payment."""

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """Return the answer to a request."""
        if path == "/target":
            host, _, port = body.decode().rpartition(":")
            self.target = host, int(port)
            return answer(200)
        if path.endswith("/token/"):
            return answer(200, TOKEN)
        if method == "POST":
            return self._accept(headers, body)

        reference = path.rpartition("/")[2]
        if reference not in self.payments:
            return answer(404, UNKNOWN)
        return answer(200, self.state(reference))

    def state(self, reference: str) -> bytes:
        """Return a payment as questions and notifications tell it."""
        told = {"status": "PENDING"}
        if reference in self.completed:
            told = {"status": "SUCCESSFUL", "financialTransactionId": "7"}
        return json.dumps(self.payments[reference] | told).encode()

    def _accept(self, headers: Mapping[str, str], body: bytes) -> bytes:
        reference = headers["x-reference-id"]
        if reference in self.payments:
            return answer(409, DUPLICATE)
        self.payments[reference] = json.loads(body)
        path = urlsplit(headers.get("x-callback-url", "")).path
        asyncio.get_running_loop().call_later(TAKES_S, self._complete, reference, path)
        return answer(202)

    def _complete(self, reference: str, path: str) -> None:
        self.completed.add(reference)
        if path:
            self.due.put_nowait((path, reference))
        asyncio.get_running_loop().call_later(KEPT_S, self._forget, reference)

    def _forget(self, reference: str) -> None:
        del self.payments[reference]
        self.completed.discard(reference)


class Connection(asyncio.Protocol):
    """Reads requests, and writes an answer to each."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.incoming = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection's other direction."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it.

    def data_received(self, data: bytes) -> None:
        """Answer all requests that are complete."""
        assert self.transport is not None
        self.incoming += data
        while (end := self.incoming.find(b"\r\n\r\n")) >= 0:
            first, *lines = self.incoming[:end].decode().split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines)
            }
            stop = end + 4 + int(headers.get("content-length", 0))
            if len(self.incoming) < stop:
                return
            method, target, _ = first.split()
            body, self.incoming = self.incoming[end + 4 : stop], self.incoming[stop:]
            self.transport.write(
                self.operator.respond(method, urlsplit(target).path, headers, body)
            )


def answer(status: int, body: bytes = b"") -> bytes:
    """Return the bytes of an answer."""
    head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def notify(operator: Operator) -> None:
    """Send notifications over one kept connection, again where one fails."""
    stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    while True:
        path, reference = await operator.due.get()
        for _ in range(ATTEMPTS):
            try:
                if stream is None:
                    stream = await asyncio.open_connection(*operator.target)
                if await _send(operator, stream, path, operator.state(reference)):
                    break
            except (OSError, asyncio.IncompleteReadError):
                stream = None
            await asyncio.sleep(PAUSE_S)


async def _send(
    operator: Operator,
    stream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    path: str,
    body: bytes,
) -> bool:
    """Tell whether a notification is taken."""
    reader, writer = stream
    host, port = operator.target
    head = f"PUT {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    answered = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = answered.partition(b"content-length:")[2].partition(b"\r\n")[0].strip()
    await reader.readexactly(int(length or 0))
    return answered[9:10] == b"2"


async def main() -> None:
    """Serve until the process is ended."""
    operator = Operator()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(operator), "127.0.0.1", 0, backlog=512)
    port = server.sockets[0].getsockname()[1]
    print(f"AT http://127.0.0.1:{port}", flush=True)
    await asyncio.gather(*(notify(operator) for _ in range(SENDERS)))


if __name__ == "__main__":
    uvloop.run(main())

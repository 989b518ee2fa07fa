"""Runs a TCP proxy in front of PostgreSQL that cuts connections at their COMMIT."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum
from pathlib import Path

import trio
from attrs import Factory, define
from psycopg.conninfo import conninfo_to_dict, make_conninfo

BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError)


class Cut(Enum):
    """Says what happens to a connection at its COMMIT."""

    NOT = "not at all"
    BEFORE = "it ends before the server sees COMMIT"
    AFTER = "the server commits, its answer is lost"
    TOGETHER = "both sides end at once, with COMMIT on its way"
    LATE = "the client's side ends at once, COMMIT arrives a moment later"


LATE_S = 0.05


@define(eq=False)
class DatabaseProxy:
    """Holds the address and the behaviour of the proxy."""

    url: str
    choose: Callable[[], Cut] = lambda: Cut.NOT
    """Decides at each COMMIT."""
    cuts: dict[Cut, int] = Factory(dict)
    accepts: bool = True
    """Whether new connections are forwarded."""
    _open: set[trio.SocketStream] = Factory(set)

    async def cut_all(self) -> None:
        """End every connection."""
        for stream in tuple(self._open):
            with suppress(*BROKEN):
                await trio.aclose_forcefully(stream)


@define(eq=False)
class _Messages:
    """Splits what the client sends into messages, and knows which of them commit."""

    buffer: bytearray = Factory(bytearray)
    has_begun: bool = False
    statements: dict[bytes, bytes] = Factory(dict)
    """Prepared statements by their names."""
    is_in_transaction: bool = False
    """Whether the client has sent BEGIN, and neither COMMIT nor ROLLBACK since."""

    def split(self, data: bytes) -> list[tuple[bytes, bool]]:
        """Whole messages, each with whether it runs a COMMIT, or a batch that is a transaction by
        itself."""
        self.buffer += data
        found = []
        while (message := self._next()) is not None:
            found.append((message, self._commits(message)))
        return found

    def _next(self) -> bytes | None:
        begin = 1 if self.has_begun else 0
        if len(self.buffer) < begin + 4:
            return None
        length = begin + int.from_bytes(self.buffer[begin : begin + 4], "big")
        if len(self.buffer) < length:
            return None
        message = bytes(self.buffer[:length])
        del self.buffer[:length]
        self.has_begun = True
        return message

    def _commits(self, message: bytes) -> bool:
        if message[:1] == b"P":  # Parse: name, statement
            name, statement = message[5:].split(b"\0")[:2]
            self.statements[name] = statement
        elif message[:1] == b"Q" and message[5:].startswith(b"ROLLBACK"):
            self.is_in_transaction = False
        elif message[:1] == b"B":  # Bind: portal, name
            statement = self.statements.get(message[5:].split(b"\0")[1], b"")
            if statement in {b"BEGIN", b"COMMIT", b"ROLLBACK"}:
                self.is_in_transaction = statement == b"BEGIN"
                return statement == b"COMMIT"
            return (
                not self.is_in_transaction
                and statement.startswith(b"WITH ")
                and b"INTO batches" in statement
            )
        return False


@asynccontextmanager
async def database_proxy(url: str) -> AsyncIterator[DatabaseProxy]:
    """Run a proxy in front of the server of this URL; its own URL has the proxy's port."""
    known = conninfo_to_dict(url)
    host, port = str(known.get("host", "localhost")), int(known.get("port") or 5432)

    async def dial() -> trio.SocketStream:
        if not host.startswith("/"):
            return await trio.open_tcp_stream(host, port)
        return await trio.open_unix_socket(str(Path(host) / f".s.PGSQL.{port}"))

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    own = listeners[0].socket.getsockname()[1]
    proxy = DatabaseProxy(
        make_conninfo(url, host="127.0.0.1", port=own, sslmode="disable", gssencmode="disable")
    )

    async def serve(client: trio.SocketStream) -> None:
        if not proxy.accepts:
            await trio.aclose_forcefully(client)
            return
        server = await dial()
        proxy._open |= {client, server}
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_forward_answers, server, client, nursery.cancel_scope)
                await _forward_requests(proxy, client, server)
                nursery.cancel_scope.cancel()
        finally:
            proxy._open -= {client, server}
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(client)
                await trio.aclose_forcefully(server)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield proxy
        nursery.cancel_scope.cancel()


async def _forward_answers(
    server: trio.SocketStream, client: trio.SocketStream, end: trio.CancelScope
) -> None:
    with suppress(*BROKEN):
        async for data in server:
            await client.send_all(data)
    end.cancel()


async def _forward_requests(
    proxy: DatabaseProxy, client: trio.SocketStream, server: trio.SocketStream
) -> None:
    messages = _Messages()
    with suppress(*BROKEN):
        async for data in client:
            if not proxy.accepts:
                return
            for message, is_commit in (found := messages.split(bytes(data))):
                cut = proxy.choose() if is_commit else Cut.NOT
                if cut is not Cut.NOT:
                    proxy.cuts[cut] = proxy.cuts.get(cut, 0) + 1
                    rest = b"".join(each for each, _ in found[found.index((message, True)) :])
                    await _cut(cut, rest, client, server)
                    return
                await server.send_all(message)


async def _cut(cut: Cut, rest: bytes, client: trio.SocketStream, server: trio.SocketStream) -> None:
    """`rest` begins with what commits and ends, at the latest, with the client's whole pipeline."""
    if cut is Cut.BEFORE:
        return
    with trio.CancelScope(shield=True):  # The other direction ends when it finds the client gone.
        if cut is not Cut.TOGETHER:
            await trio.aclose_forcefully(client)
        if cut is Cut.LATE:
            await trio.sleep(LATE_S)
        await server.send_all(rest)
        if cut is not Cut.TOGETHER:
            await trio.sleep(LATE_S)

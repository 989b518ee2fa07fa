"""Runs a listener with a small service on a loopback port, and a client that sends exactly the
given bytes and reads answers strictly."""

from __future__ import annotations

import itertools
import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import Factory, define, field, frozen

from mmo_sansio.api.outgoing import problem_response
from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_sansio.values.problems import UNAUTHORIZED
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.http.server.connection import ListenerContext, OpenConnection, ServerConnection
from mmo_trio.http.server.listener import serve_http

ERROR_DOCS = "https://docs.example/errors"
BODY_LIMIT = 64 * 1024
PATIENCE_S = 25.0
"""Seconds after which a test of a listener fails: before the listener's own limits, unless it has
shorter ones, end what should have ended by itself."""
SECRET = "a value that no log and no answer may hold"
KEY = b"X-Api-Key: right\r\n"
JSON_TYPE = (b"content-type", b"application/json")


def get(target: bytes = b"/", *lines: bytes, method: bytes = b"GET") -> bytes:
    """A good request without a body, with these further header lines."""
    head = b"%s %s HTTP/1.1\r\nHost: h\r\n%s" % (method, target, KEY)
    return head + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def post(body: bytes, *lines: bytes, target: bytes = b"/") -> bytes:
    """A good request with a body and these further header lines."""
    return get(target, b"Content-Length: %d" % len(body), *lines, method=b"POST") + body


@define(eq=False)
class SmallService:
    """Echoes requests, rejects a wrong key with 401, and records what it has received."""

    heads: list[RequestHead] = Factory(list)
    contexts: list[RequestContext] = Factory(list)
    bodies: list[bytes] = Factory(list)
    body_limit: int = BODY_LIMIT
    at_work: trio.Event = Factory(trio.Event)
    """Set when a request to `/wait` has come."""
    go_on: trio.Event = Factory(trio.Event)
    """What `/wait` waits for."""
    done: trio.Event = Factory(trio.Event)
    """Set when a whole request was answered."""

    async def admit(self, head: RequestHead, context: RequestContext) -> HttpResponse | Admitted:
        self.heads.append(head)
        self.contexts.append(context)
        context.brand = (head.value(b"x-brand") or b"").decode("ascii") or None
        if head.value(b"x-api-key") != b"right":
            return problem_response(UNAUTHORIZED.problem("Who are you?"), ERROR_DOCS)
        match head.target:
            case b"/wait":
                self.at_work.set()
                await self.go_on.wait()
            case b"/large":
                return HttpResponse(200, (JSON_TYPE,), b"x" * 20_000_000)
            case b"/fault":
                raise ValueError(SECRET)
            case b"/split":
                return HttpResponse(200, ((b"location", b"/\r\nSet-Cookie: a=b"),))
            case b"/nothing":
                return HttpResponse(204)
        return Admitted(self.body_limit, self._responder(head))

    def _responder(self, head: RequestHead) -> Callable[[bytes], Awaitable[HttpResponse]]:
        async def respond(body: bytes) -> HttpResponse:
            self.bodies.append(body)
            self.done.set()
            if head.target == b"/late-fault":
                raise KeyError(body)
            said = {"target": head.target.decode("ascii"), "length": len(body)}
            return HttpResponse(200, (JSON_TYPE,), json.dumps(said).encode("ascii"))

        return respond


@frozen
class Answer:
    """One answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    """By lower-case name; a name that comes twice fails the test."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_last(self) -> bool:
        return self.headers.get("connection") == "close"


class NoAnswerError(Exception):
    """The connection ended where an answer should have been."""


@define(eq=False)
class Client:
    """One connection to a listener."""

    stream: trio.abc.Stream
    unread: bytearray = Factory(bytearray)

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def ask(self, request: bytes) -> Answer:
        await self.send(request)
        return await self.answer(head_only=request.startswith(b"HEAD"))

    async def answer(self, *, head_only: bool = False) -> Answer:
        """The next answer; raises NoAnswerError when the connection ends before it is whole."""
        while b"\r\n\r\n" not in self.unread:
            await self._receive()
        head, _, self.unread = self.unread.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("ascii").split("\r\n")
        version, status, _ = status_line.split(" ", 2)
        assert version == "HTTP/1.1"
        fields = [(name.lower(), value) for name, value in (line.split(": ", 1) for line in lines)]
        headers = dict(fields)
        assert len(headers) == len(fields)
        length = 0 if head_only else int(headers.get("content-length", "0"))
        while len(self.unread) < length:
            await self._receive()
        body, self.unread = bytes(self.unread[:length]), self.unread[length:]
        return Answer(int(status), headers, body)

    async def _receive(self) -> None:
        try:
            data = await self.stream.receive_some()
        except trio.BrokenResourceError:
            data = b""
        if not data:
            raise NoAnswerError(bytes(self.unread[:1000]))
        self.unread += data

    async def rest(self) -> bytes:
        """Everything up to the end of the connection, which must be a clean one."""
        while data := await self.stream.receive_some():
            self.unread += data
        return bytes(self.unread)

    async def is_closed(self) -> bool:
        """Wait for the other side to close, cleanly or not, without a further byte."""
        try:
            return await self.rest() == b""
        except trio.BrokenResourceError:
            return True


@define(eq=False)
class RunningListener:
    """A running listener."""

    service: SmallService
    port: int
    drain: trio.Event = Factory(trio.Event)
    patience_s: float = 0.0
    """How long idle connections are left once it drains."""
    ended: trio.Event = Factory(trio.Event)
    """Set when `serve_http` has returned."""
    _clients: list[Client] = field(factory=list)

    async def connect(self, tls: ssl.SSLContext | None = None) -> Client:
        """A new connection; closed when the test ends."""
        stream: trio.abc.Stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        if tls is not None:
            stream = trio.SSLStream(stream, tls, server_hostname="localhost")
        self._clients.append(Client(stream))
        return self._clients[-1]

    async def ask(self, request: bytes) -> Answer:
        """The answer to one request on a connection of its own."""
        client = await self.connect()
        answer = await client.ask(request)
        await trio.aclose_forcefully(client.stream)
        return answer


@asynccontextmanager
async def listening(
    limits: ListenerLimits | None = None,
    tls: Callable[[], ssl.SSLContext] | None = None,
    service: SmallService | None = None,
    patience_s: float = PATIENCE_S,
    open_connection: OpenConnection = ServerConnection,
) -> AsyncIterator[RunningListener]:
    """A listener that serves as long as the block lasts, which fails after so long."""
    sockets = await trio.open_tcp_listeners(0, host="127.0.0.1")
    here = RunningListener(service or SmallService(), sockets[0].socket.getsockname()[1])
    ids = (f"request-{number}" for number in itertools.count())

    async def serve(task_status: trio.TaskStatus[None]) -> None:
        context = ListenerContext(
            here.service,
            limits or ListenerLimits(),
            error_docs_url=ERROR_DOCS,
            mint_request_id=ids.__next__,
            drain=here.drain,
            tls=tls,
            idle_grace_s=lambda: here.patience_s,
            open_connection=open_connection,
        )
        await serve_http(context, sockets, task_status=task_status)
        here.ended.set()

    with trio.fail_after(patience_s):
        async with trio.open_nursery() as nursery:
            await nursery.start(serve)
            yield here
            for client in here._clients:
                await trio.aclose_forcefully(client.stream)
            nursery.cancel_scope.cancel()


def assert_problem(answer: Answer, status: int, segment: str) -> None:
    """The answer is the problem document of this cause (G3, P1), and the last on its connection."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status, answer.json["status"]) == (status, status)
    assert answer.json["type"] == f"{ERROR_DOCS}/{segment}"
    assert answer.headers["x-request-id"].startswith("request-")
    assert answer.headers["cache-control"] == "no-store"


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/dev/fd"))


async def wait_for_descriptors(before: int) -> None:
    """Wait until no more are open than before; nobody announces a closed descriptor."""
    while open_descriptors() > before:  # noqa: ASYNC110
        await trio.sleep(0.01)

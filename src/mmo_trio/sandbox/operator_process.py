"""The line between workers and a sandbox operator that lives in a process of its own, for all workers of a machine.

A worker may ask about what another worker has submitted, so there is one operator and one book. The line is a Unix
socket beside the book; each message is a line of JSON, and either side may begin:

    ["ask", 1, "POST", "https://...", "{...}"]    worker: a submission or a question
    ["answer", 1, 202, "{...}"]                   operator
    ["tell", 7, "{...}"]                          operator: a notification, to one worker
    ["told", 7, "stored"]                         worker: it is durable; "later": not now; "fault": a fault of ours
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias, assert_never

import structlog
import trio
from attrs import Factory, define, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.sandbox.wire import HOOK_TARGET, JSON_HEADERS
from mmo_sansio.values.clock import Instant
from mmo_trio.sandbox.operator_journal import Book
from mmo_trio.sandbox.operator_worker import Notify, SandboxWorker
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

AGAIN_S = 0.1
"""How long to wait before the operator is looked for again, or the book's lock is tried again."""

TELL_S = 20.0
"""How long one worker may take over a notification before another one gets it."""

GONE = (trio.BrokenResourceError, trio.ClosedResourceError, trio.EndOfChannel)
"""Raised when the other side has gone away, sooner or later."""

CHUNK = 65_536

Verdict: TypeAlias = Literal["stored", "later", "fault"]


def line_beside(book: Path) -> Path:
    """The socket of the operator that keeps this book."""
    return book.with_suffix(".sock")


@define(eq=False)
class _Wire:
    """One end of a connection: messages in, messages out, and who waits for which reply."""

    stream: trio.SocketStream
    _sending: trio.Lock = Factory(trio.Lock)
    _numbers: Iterator[int] = field(factory=itertools.count)
    _waiting: dict[int, trio.MemorySendChannel[list[Any]]] = Factory(dict)

    async def send(self, *message: object) -> None:
        line = json.dumps(message).encode() + b"\n"
        async with self._sending:
            try:
                await self.stream.send_all(line)
            except (
                trio.Cancelled
            ):  # Half a line may be out: nothing that follows could be understood.
                self.stream.socket.close()
                raise

    async def messages(self) -> AsyncIterator[list[Any]]:
        """What comes, replies excepted, until the connection ends."""
        unread = bytearray()
        while data := await self.stream.receive_some(CHUNK):
            *lines, rest = (unread + data).split(b"\n")
            unread = bytearray(rest)
            for line in lines:
                message = json.loads(line)
                if message[0] in ("answer", "told"):
                    waiting = self._waiting.pop(message[1], None)
                    if waiting is not None:
                        waiting.send_nowait(message)
                else:
                    yield message

    async def request(self, kind: str, *content: object) -> list[Any]:
        """The reply; raises trio.BrokenResourceError or trio.EndOfChannel when none will come."""
        number = next(self._numbers)
        told, heard = trio.open_memory_channel[list[Any]](1)
        self._waiting[number] = told
        try:
            await self.send(kind, number, *content)
            return await heard.receive()
        finally:
            self._waiting.pop(number, None)

    def hang_up(self) -> None:
        """Nobody shall wait any more."""
        for each in self._waiting.values():
            each.close()
        self._waiting.clear()


@define(eq=False)
class OperatorLine:
    """A worker's end: `exchange` is how providers reach the operator, `notify` what it tells is handed to."""

    path: Path
    notify: Notify
    _wire: _Wire | None = None

    async def exchange(self, request: HttpRequest) -> HttpResponse:
        """The operator's answer; raises ExchangeFailed when there is none."""
        wire = self._wire
        if wire is None:
            await trio.lowlevel.checkpoint()
            raise ExchangeFailed("The sandbox operator isn't there.", may_have_arrived=False)
        try:
            _, _, status, body = await wire.request(
                "ask", request.method, request.target.decode("ascii"), _text(request.body)
            )
        except GONE:
            failed = ExchangeFailed("The sandbox operator went away.", may_have_arrived=True)
            raise failed from None
        if status == 0:
            raise ExchangeFailed(body, may_have_arrived=True)
        return HttpResponse(status, JSON_HEADERS, _octets(body))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the line until cancelled."""
        task_status.started()
        while True:
            try:
                stream = await trio.open_unix_socket(self.path)
            except OSError:
                await trio.sleep(AGAIN_S)
                continue
            async with stream:
                await self._listen(_Wire(stream))

    async def _listen(self, wire: _Wire) -> None:
        self._wire = wire
        try:
            async with trio.open_nursery() as telling:
                async for _, number, body in wire.messages():
                    telling.start_soon(self._take, wire, number, _octets(body))
        except* GONE:
            pass
        finally:
            self._wire = None
            wire.hang_up()

    async def _take(self, wire: _Wire, number: int, body: bytes) -> None:
        verdict: Verdict = "stored"
        try:
            await self.notify(HttpRequest("POST", HOOK_TARGET, JSON_HEADERS, body)).reply()
        except (StoreUnavailable, OutcomeUnknown):
            verdict = "later"
        except Exception as error:
            logger.error("sandbox notification failed", fault=describe_fault(error))
            verdict = "fault"
        await wire.send("told", number, verdict)


@define(eq=False)
class _Telling:
    """A notification on its way to the workers."""

    body: str
    _told: trio.Event = Factory(trio.Event)
    _failure: Exception | None = None

    async def run(self, tell: Callable[[str], Awaitable[None]]) -> None:
        try:
            await tell(self.body)
        except Exception as failure:
            self._failure = failure
        self._told.set()

    async def reply(self) -> None:
        """Return once a worker has made it durable."""
        await self._told.wait()
        if self._failure is not None:
            raise self._failure


@define(eq=False)
class OperatorProcess:
    """The operator's end: one operator, its book, and a line to every worker."""

    book: Path
    now: Callable[[], Instant]
    _wires: list[_Wire] = Factory(list)
    _changed: trio.Event = Factory(trio.Event)
    """Set, and replaced, when a worker has come or gone."""

    async def run(self) -> None:
        """Serve until cancelled, from when no other process keeps the book."""
        with await _lock(self.book.with_suffix(".lock")):
            path = line_beside(self.book)
            path.unlink(missing_ok=True)
            door = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
            await door.bind(str(path))
            door.listen()
            async with trio.open_nursery() as nursery:

                def notify(request: HttpRequest) -> _Telling:
                    telling = _Telling(_text(request.body))
                    nursery.start_soon(telling.run, self._tell)
                    return telling

                operator = SandboxWorker(Book(self.book), self.now, notify)
                await nursery.start(operator.run)

                async def listen(stream: trio.SocketStream) -> None:
                    await self._listen(operator, _Wire(stream))

                await trio.serve_listeners(listen, [trio.SocketListener(door)])

    async def wait_deserted(self) -> None:
        """Return once no worker has a line to it."""
        while self._wires:
            await self._changed.wait()

    def _has_changed(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _listen(self, operator: SandboxWorker, wire: _Wire) -> None:
        self._wires.append(wire)
        self._has_changed()
        try:
            async for _, number, method, target, body in wire.messages():
                asked = HttpRequest(method, target.encode("ascii"), JSON_HEADERS, _octets(body))
                try:
                    answer = await operator.exchange(asked)
                except ExchangeFailed as failure:
                    await wire.send("answer", number, 0, failure.reason)
                else:
                    await wire.send("answer", number, answer.status, _text(answer.body))
        except GONE:
            pass
        finally:
            self._wires.remove(wire)
            self._has_changed()
            wire.hang_up()

    async def _tell(self, body: str) -> None:
        """Hand it to the workers in turn, until one has made it durable; when one is killed, to the next."""
        while True:
            while not self._wires:
                await self._changed.wait()
            wire = self._wires.pop(0)
            self._wires.append(wire)
            verdict: Verdict | None = None
            with suppress(*GONE), trio.move_on_after(TELL_S):
                _, _, verdict = await wire.request("tell", body)
            match verdict:
                case "stored":
                    return
                case "later":
                    raise StoreUnavailable("the worker couldn't store it")
                case "fault":
                    raise RuntimeError("the worker failed on it")
                case None:
                    await trio.lowlevel.checkpoint()
                case _:
                    assert_never(verdict)


async def _lock(path: Path) -> Any:
    """Wait until no other process holds this file's lock, and hold it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _closing(descriptor)
        except BlockingIOError:
            await trio.sleep(AGAIN_S)


@contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

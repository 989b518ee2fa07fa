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
from mmo_sansio.providers.sandbox.wire import JSON_HEADERS, WEBHOOK_TARGET
from mmo_sansio.values.clock import Instant
from mmo_trio.sandbox.operator_journal import OperatorJournal
from mmo_trio.sandbox.operator_worker import Notify, SandboxOperatorWorker
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

RETRY_DELAY_S = 0.1
"""How long to wait before the operator is looked for again, or the book's lock is tried again."""

NOTIFICATION_TIMEOUT_S = 20.0
"""How long one worker may take over a notification before another one gets it."""

DISCONNECTED_ERRORS = (trio.BrokenResourceError, trio.ClosedResourceError, trio.EndOfChannel)
"""Raised when the other side has gone away, sooner or later."""

RECEIVE_BYTES_MAX = 65_536

NotificationResult: TypeAlias = Literal["stored", "later", "fault"]


def operator_socket_path(journal_path: Path) -> Path:
    """The socket of the operator that keeps this book."""
    return journal_path.with_suffix(".sock")


@define(eq=False)
class _JsonLines:
    """One end of a connection: messages in, messages out, and who waits for which reply."""

    stream: trio.SocketStream
    _send_lock: trio.Lock = Factory(trio.Lock)
    _request_numbers: Iterator[int] = field(factory=itertools.count)
    _pending_replies: dict[int, trio.MemorySendChannel[list[Any]]] = Factory(dict)

    async def send(self, *message: object) -> None:
        line = json.dumps(message).encode() + b"\n"
        async with self._send_lock:
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
        while data := await self.stream.receive_some(RECEIVE_BYTES_MAX):
            *lines, rest = (unread + data).split(b"\n")
            unread = bytearray(rest)
            for line in lines:
                message = json.loads(line)
                if message[0] in ("answer", "told"):
                    waiting = self._pending_replies.pop(message[1], None)
                    if waiting is not None:
                        waiting.send_nowait(message)
                else:
                    yield message

    async def request(self, kind: str, *content: object) -> list[Any]:
        """The reply; raises trio.BrokenResourceError or trio.EndOfChannel when none will come."""
        number = next(self._request_numbers)
        told, heard = trio.open_memory_channel[list[Any]](1)
        self._pending_replies[number] = told
        try:
            await self.send(kind, number, *content)
            return await heard.receive()
        finally:
            self._pending_replies.pop(number, None)

    def cancel_requests(self) -> None:
        """Nobody shall wait any more."""
        for each in self._pending_replies.values():
            each.close()
        self._pending_replies.clear()


@define(eq=False)
class OperatorClient:
    """A worker's end: `exchange` is how providers reach the operator, `notify` what it tells is handed to."""

    socket_path: Path
    notify: Notify
    _connection: _JsonLines | None = None

    async def exchange(self, request: HttpRequest) -> HttpResponse:
        """The operator's answer; raises ExchangeFailed when there is none."""
        wire = self._connection
        if wire is None:
            await trio.lowlevel.checkpoint()
            raise ExchangeFailed("The sandbox operator isn't there.", may_have_arrived=False)
        try:
            _, _, status, body = await wire.request(
                "ask", request.method, request.target.decode("ascii"), _to_text(request.body)
            )
        except DISCONNECTED_ERRORS:
            failed = ExchangeFailed("The sandbox operator went away.", may_have_arrived=True)
            raise failed from None
        if status == 0:
            raise ExchangeFailed(body, may_have_arrived=True)
        return HttpResponse(status, JSON_HEADERS, _to_bytes(body))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the line until cancelled."""
        task_status.started()
        while True:
            try:
                stream = await trio.open_unix_socket(self.socket_path)
            except OSError:
                await trio.sleep(RETRY_DELAY_S)
                continue
            async with stream:
                await self._handle_connection(_JsonLines(stream))

    async def _handle_connection(self, connection: _JsonLines) -> None:
        self._connection = connection
        try:
            async with trio.open_nursery() as telling:
                async for _, number, body in connection.messages():
                    telling.start_soon(
                        self._handle_notification, connection, number, _to_bytes(body)
                    )
        except* DISCONNECTED_ERRORS:
            pass
        finally:
            self._connection = None
            connection.cancel_requests()

    async def _handle_notification(self, connection: _JsonLines, number: int, body: bytes) -> None:
        verdict: NotificationResult = "stored"
        try:
            await self.notify(HttpRequest("POST", WEBHOOK_TARGET, JSON_HEADERS, body)).reply()
        except (StoreUnavailable, OutcomeUnknown):
            verdict = "later"
        except Exception as error:
            logger.error("sandbox_notification_failed", fault=describe_fault(error))
            verdict = "fault"
        await connection.send("told", number, verdict)


@define(eq=False)
class _PendingNotification:
    """A notification on its way to the workers."""

    body: str
    _concluded: trio.Event = Factory(trio.Event)
    _failure: Exception | None = None

    async def run(self, deliver: Callable[[str], Awaitable[None]]) -> None:
        try:
            await deliver(self.body)
        except Exception as failure:
            self._failure = failure
        self._concluded.set()

    async def reply(self) -> None:
        """Return once a worker has made it durable."""
        await self._concluded.wait()
        if self._failure is not None:
            raise self._failure


@define(eq=False)
class OperatorProcess:
    """The operator's end: one operator, its book, and a line to every worker."""

    journal_path: Path
    now: Callable[[], Instant]
    _connections: list[_JsonLines] = Factory(list)
    _connections_changed: trio.Event = Factory(trio.Event)
    """Set, and replaced, when a worker has come or gone."""

    async def run(self) -> None:
        """Serve until cancelled, from when no other process keeps the book."""
        with await _acquire_lock(self.journal_path.with_suffix(".lock")):
            path = operator_socket_path(self.journal_path)
            path.unlink(missing_ok=True)
            door = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
            await door.bind(str(path))
            door.listen()
            async with trio.open_nursery() as nursery:

                def notify(request: HttpRequest) -> _PendingNotification:
                    telling = _PendingNotification(_to_text(request.body))
                    nursery.start_soon(telling.run, self._deliver)
                    return telling

                operator = SandboxOperatorWorker(
                    OperatorJournal(self.journal_path), self.now, notify
                )
                await nursery.start(operator.run)

                async def listen(stream: trio.SocketStream) -> None:
                    await self._handle_connection(operator, _JsonLines(stream))

                await trio.serve_listeners(listen, [trio.SocketListener(door)])

    async def wait_no_workers(self) -> None:
        """Return once no worker has a line to it."""
        while self._connections:
            await self._connections_changed.wait()

    def _signal_connections_changed(self) -> None:
        self._connections_changed.set()
        self._connections_changed = trio.Event()

    async def _handle_connection(
        self, operator: SandboxOperatorWorker, connection: _JsonLines
    ) -> None:
        self._connections.append(connection)
        self._signal_connections_changed()
        try:
            async for _, number, method, target, body in connection.messages():
                asked = HttpRequest(method, target.encode("ascii"), JSON_HEADERS, _to_bytes(body))
                try:
                    answer = await operator.exchange(asked)
                except ExchangeFailed as failure:
                    await connection.send("answer", number, 0, failure.reason)
                else:
                    await connection.send("answer", number, answer.status, _to_text(answer.body))
        except DISCONNECTED_ERRORS:
            pass
        finally:
            self._connections.remove(connection)
            self._signal_connections_changed()
            connection.cancel_requests()

    async def _deliver(self, body: str) -> None:
        """Hand it to the workers in turn, until one has made it durable; when one is killed, to the next."""
        while True:
            while not self._connections:
                await self._connections_changed.wait()
            wire = self._connections.pop(0)
            self._connections.append(wire)
            verdict: NotificationResult | None = None
            with suppress(*DISCONNECTED_ERRORS), trio.move_on_after(NOTIFICATION_TIMEOUT_S):
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


async def _acquire_lock(path: Path) -> Any:
    """Wait until no other process holds this file's lock, and hold it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _closing_descriptor(descriptor)
        except BlockingIOError:
            await trio.sleep(RETRY_DELAY_S)


@contextmanager
def _closing_descriptor(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def _to_text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

"""Shares one simulated operator, in a process of its own, among the workers of a machine.

A worker may poll a payment that another worker has submitted, so there is one operator with one
journal. Workers reach it through a Unix socket next to the journal. Each message is a line of JSON,
and either end may send requests:

    ["request", 1, ["POST", "https://...", "{...}"]]    worker: a submission or a poll
    ["reply", 1, [202, "{...}"]]                        operator: the response, or 0 and why not
    ["request", 7, "{...}"]                             operator: a notification, to one worker
    ["reply", 7, "stored"]                              worker: its `NotificationResult`
"""

from __future__ import annotations

import fcntl
import itertools
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import outcome
import structlog
import trio
from attrs import Factory, define, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.common.wire import JSON_HEADERS
from mmo_sansio.providers.sandbox.wire import WEBHOOK_TARGET
from mmo_sansio.values.clock import Instant
from mmo_trio.http.streams import PlainStream, TransportStream
from mmo_trio.sandbox.operator_worker import Notify, OperatorJournal, SandboxOperatorWorker
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.system.waiting import ParkingSpot

logger = structlog.get_logger(__name__)

RETRY_DELAY_S = 0.1
"""Seconds before a worker connects again, or the journal's lock is tried again."""

NOTIFICATION_TIMEOUT_S = 20.0
"""Seconds that one worker has for a notification before the next worker gets it."""

DISCONNECTED_ERRORS = (trio.BrokenResourceError, trio.ClosedResourceError, trio.EndOfChannel)
"""Raised when the other end has closed the connection, sooner or later."""

NotificationResult: TypeAlias = Literal["stored", "later", "fault"]
"""Durable; not possible now; an internal error."""

AnswerRequest: TypeAlias = Callable[[Any], Awaitable[object]]
"""Returns the content of the reply to a request with this content."""


def operator_socket_path(journal_path: Path) -> Path:
    """Return the socket of the operator that writes this journal."""
    return journal_path.with_suffix(".sock")


async def json_lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[Any]:
    """Yield the JSON value of each complete line."""
    unread = b""
    while data := await stream.receive_some():
        *lines, unread = (unread + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


@define(eq=False)
class _Connection:
    """One end of a connection, which sends requests and answers the requests of the other end."""

    stream: TransportStream
    _request_numbers: Iterator[int] = field(factory=itertools.count)
    _pending_replies: dict[int, ParkingSpot[Any]] = Factory(dict)
    _unsent: list[bytes] = Factory(list)
    """Lines that the socket has not taken at once."""
    _has_unsent: trio.Event = Factory(trio.Event)
    _has_ended: bool = False

    async def request(self, content: object) -> Any:
        """Return the content of the reply. Raises one of DISCONNECTED_ERRORS without one."""
        if self._has_ended:
            raise trio.ClosedResourceError("the connection has ended")
        number = next(self._request_numbers)
        spot: ParkingSpot[Any] = ParkingSpot()
        self._pending_replies[number] = spot
        try:
            self._send("request", number, content)
            return await spot.park()
        finally:
            self._pending_replies.pop(number, None)

    async def run(self, answer: AnswerRequest) -> None:
        """Answer requests and receive replies until the connection ends."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                async for kind, number, content in json_lines(self.stream):
                    if kind == "request":
                        nursery.start_soon(self._reply, answer, number, content)
                    elif number in self._pending_replies:
                        self._pending_replies[number].unpark(outcome.Value(content))
                nursery.cancel_scope.cancel()
        except* DISCONNECTED_ERRORS:
            pass
        finally:
            self._has_ended = True
            for each in self._pending_replies.values():
                each.unpark(
                    outcome.Error(trio.EndOfChannel("the other end has closed the connection"))
                )

    async def _reply(self, answer: AnswerRequest, number: int, content: object) -> None:
        self._send("reply", number, await answer(content))

    def _send(self, *message: object) -> None:
        """Send a message at once, or as soon as the socket takes it. What is unsent at the end of
        the connection is dropped, like what was sent and not read."""
        line = json.dumps(message).encode() + b"\n"
        rest = line if self._unsent else self.stream.try_send(line)
        if rest:
            self._unsent.append(rest)
            self._has_unsent.set()

    async def _write(self) -> None:
        while True:
            await self._has_unsent.wait()
            while self._unsent:
                await self.stream.send_all(self._unsent[0])
                del self._unsent[0]
            self._has_unsent = trio.Event()


@define(eq=False)
class OperatorClient:
    """Connects a worker to the operator; `notify` gets the notifications."""

    socket_path: Path
    notify: Notify
    _connection: _Connection | None = None

    async def exchange(self, request: HttpRequest) -> HttpResponse:
        """Return the operator's response. Raises ExchangeFailed when there is none."""
        if self._connection is None:
            await trio.lowlevel.checkpoint()
            raise ExchangeFailed("The sandbox operator isn't there.", may_have_arrived=False)
        try:
            status, body = await self._connection.request(
                [request.method, request.target.decode("ascii"), _to_text(request.body)]
            )
        except DISCONNECTED_ERRORS:
            failed = ExchangeFailed("The sandbox operator went away.", may_have_arrived=True)
            raise failed from None
        if status == 0:
            raise ExchangeFailed(body, may_have_arrived=True)
        return HttpResponse(status, JSON_HEADERS, _to_bytes(body))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connect, and connect again whenever the connection has ended, until cancelled."""
        task_status.started()
        while True:
            try:
                stream = await trio.open_unix_socket(self.socket_path)
            except OSError:
                await trio.sleep(RETRY_DELAY_S)
                continue
            async with _transport(stream) as transport:
                self._connection = _Connection(transport)
                try:
                    await self._connection.run(self._store_notification)
                finally:
                    self._connection = None

    async def _store_notification(self, body: str) -> NotificationResult:
        request = HttpRequest("POST", WEBHOOK_TARGET, JSON_HEADERS, _to_bytes(body))
        try:
            await self.notify(request).reply()
        except (StoreUnavailable, OutcomeUnknown):
            return "later"
        except Exception as error:
            logger.error("sandbox_notification_failed", fault=describe_fault(error))
            return "fault"
        return "stored"


@define(eq=False)
class _PendingNotification:
    """A notification on its way to the workers."""

    body: str
    result: NotificationResult | None = None
    delivered: trio.Event = Factory(trio.Event)

    async def reply(self) -> None:
        """Return once a worker has stored it. Raises StoreUnavailable or RuntimeError."""
        await self.delivered.wait()
        if self.result == "later":
            raise StoreUnavailable("the worker couldn't store it")
        if self.result == "fault":
            raise RuntimeError("the worker failed on it")


@define(eq=False)
class OperatorProcess:
    """Runs the operator with its journal, and serves the connections of all workers."""

    journal_path: Path
    now: Callable[[], Instant]
    _connections: list[_Connection] = Factory(list)
    _connections_changed: trio.Event = Factory(trio.Event)
    """Set, and replaced, when a worker has connected or disconnected."""

    async def run(self) -> None:
        """Wait until no other process uses the journal, then serve until cancelled."""
        with self.journal_path.with_suffix(".lock").open("wb") as lock_file:
            await _acquire_lock(lock_file)
            path = operator_socket_path(self.journal_path)
            path.unlink(missing_ok=True)
            listening_socket = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
            await listening_socket.bind(str(path))
            listening_socket.listen()
            async with trio.open_nursery() as nursery:

                def notify(request: HttpRequest) -> _PendingNotification:
                    notification = _PendingNotification(_to_text(request.body))
                    nursery.start_soon(self._deliver, notification)
                    return notification

                journal = OperatorJournal(self.journal_path)
                operator = SandboxOperatorWorker(journal, self.now, notify)
                await nursery.start(operator.run)

                async def serve(stream: trio.SocketStream) -> None:
                    async with _transport(stream) as transport:
                        await self._serve_worker(operator, _Connection(transport))

                await trio.serve_listeners(serve, [trio.SocketListener(listening_socket)])

    async def wait_no_workers(self) -> None:
        """Return once no worker is connected."""
        while self._connections:
            await self._connections_changed.wait()

    async def _serve_worker(self, operator: SandboxOperatorWorker, connection: _Connection) -> None:
        async def respond(content: tuple[str, str, str]) -> tuple[int, str]:
            method, target, body = content
            request = HttpRequest(method, target.encode("ascii"), JSON_HEADERS, _to_bytes(body))
            try:
                response = await operator.exchange(request)
            except ExchangeFailed as failure:
                return 0, failure.reason
            return response.status, _to_text(response.body)

        self._connections.append(connection)
        self._signal_connections_changed()
        try:
            await connection.run(respond)
        finally:
            self._connections.remove(connection)
            self._signal_connections_changed()

    def _signal_connections_changed(self) -> None:
        self._connections_changed.set()
        self._connections_changed = trio.Event()

    async def _deliver(self, notification: _PendingNotification) -> None:
        """Send it to one worker after the other until one has replied."""
        while notification.result is None:
            while not self._connections:
                await self._connections_changed.wait()
            connection = self._connections.pop(0)
            self._connections.append(connection)
            with suppress(*DISCONNECTED_ERRORS), trio.move_on_after(NOTIFICATION_TIMEOUT_S):
                notification.result = await connection.request(notification.body)
            await trio.lowlevel.checkpoint()
        notification.delivered.set()


def _transport(stream: trio.SocketStream) -> TransportStream:
    """Return the connection as one that neither checks for cancellation nor yields where nothing
    has to be awaited."""
    return PlainStream(socket.socket(fileno=stream.socket.detach()))


async def _acquire_lock(file: BinaryIO) -> None:
    """Return once no other process holds the lock of this file; closing the file releases it."""
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            await trio.sleep(RETRY_DELAY_S)


def _to_text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

"""The sandbox operator, run in our own process: what it has to tell is told in time, and its book is kept.

Nothing leaves before the book holds it. Writing a line of the book doesn't wait for a disk, so it is done in place.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.sandbox.simulated_operator import Notification, Prompt, SandboxOperator
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_trio.sandbox.operator_journal import Book, read_book
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

TELLING_MAX = 512
"""Notifications told in one go: enough to fill the engine's batches, and others get their turn between."""

RETRY_S = 1.0
"""How long to wait before the book, or the gateway, is tried again."""


class Told(Protocol):
    """A notification on its way into the gateway, such as a :class:`mmo_trio.engine.engine.Call`."""

    async def reply(self) -> object:
        """Return once it is durable there. Raises StoreUnavailable or OutcomeUnknown when it isn't, or may not be."""
        ...


Notify: TypeAlias = Callable[[HttpRequest], Told]
"""Hands a notification to the gateway, at once; raises StoreUnavailable when it has no room."""


@define(eq=False)
class SandboxWorker:
    """Keeps the operator's time and its book; `exchange` is how providers reach it."""

    book: Book
    now: Callable[[], Instant]
    notify: Notify
    _operator: SandboxOperator = Factory(SandboxOperator)
    _news: trio.Event = Factory(trio.Event)
    """Set when the operator may have something to do sooner than was thought."""
    _told: trio.Event = Factory(trio.Event)
    """Set, and replaced, whenever a notification has ended, or nothing was due."""
    _sleeps_until: float = math.inf
    _telling: Counter[Instant] = Factory(Counter)
    """How many notifications the operator has given out that haven't ended, by when the first of its round was due."""

    def __attrs_post_init__(self) -> None:
        self._operator.restore(read_book(self.book.path))

    async def exchange(self, request: HttpRequest) -> HttpResponse:
        """The operator's answer; raises ExchangeFailed when its book can't be written."""
        await trio.lowlevel.checkpoint()
        answer = self._operator.receive(request, now=self.now())
        try:
            self._save()
        except OSError as error:
            raise ExchangeFailed(f"The book: {error}", may_have_arrived=True) from error
        return answer

    def approve(self, reference: str) -> bool:
        """The person at the virtual phone agrees; False when no such payment waits. Raises OSError when the book
        can't be written."""
        done = self._operator.approve(reference, now=self.now())
        self._save()
        return done

    def refuse(self, reference: str, *, why: ErrorCode = ErrorCode.USER_CANCELLED) -> bool:
        """The person at the virtual phone declines, or can't pay, which `why` says; False when no such payment waits.
        Raises OSError when the book can't be written."""
        done = self._operator.refuse(reference, why=why, now=self.now())
        self._save()
        return done

    def prompts(self) -> tuple[Prompt, ...]:
        """What the virtual phone shows, the oldest first."""
        return self._operator.prompts()

    def next_due(self) -> Instant | None:
        """When the operator has something to do by itself."""
        return self._operator.next_due()

    def clock_moved(self) -> None:
        """Look again at what is due."""
        self._news.set()

    async def wait_idle(self, until: Instant) -> None:
        """Return once everything due until then was told and acknowledged; what falls due later isn't waited for."""
        self.clock_moved()
        while self._is_due(until) or any(due <= until for due in self._telling):
            await self._told.wait()
        await trio.lowlevel.checkpoint()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Tell what is due, in order, until cancelled; the book is closed then."""
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    due = self._operator.next_due() or 0
                    told = self._operator.due(now=self.now())
                    self._telling[due] += len(told)
                    await self._save_surely()
                    for start in range(0, len(told), TELLING_MAX):
                        part = told[start : start + TELLING_MAX]
                        # Posted here, in their order; a task of its own only waits.
                        nursery.start_soon(self._see_through, self._post(part), due)
                        await trio.lowlevel.checkpoint()
                    self._has_told(due, 0)
                    await self._sleep()
        finally:
            self.book.close()

    def _post(self, told: Sequence[Notification]) -> Sequence[tuple[Notification, Told | None]]:
        """Each with its way through the gateway; without one when there was no room."""
        return [(each, self._posted(each)) for each in told]

    def _posted(self, told: Notification) -> Told | None:
        try:
            return self.notify(told.request)
        except StoreUnavailable:
            return None

    async def _see_through(
        self, posted: Sequence[tuple[Notification, Told | None]], due: Instant
    ) -> None:
        """Acknowledge what the gateway has, all in one write, and tell the rest again until it has it."""
        count = len(posted)
        while posted:
            left: list[Notification] = []
            for notification, call in posted:
                if call is None or not await self._has_arrived(notification, call):
                    left.append(notification)
            await self._save_surely()
            if left:
                logger.warning("sandbox notifications not stored", count=len(left))
                await trio.sleep(RETRY_S)
            posted = self._post(left)
        self._has_told(due, count)

    async def _has_arrived(self, notification: Notification, call: Told) -> bool:
        """Whether it is done with. After a fault of ours it is, until a restart."""
        try:
            await call.reply()
        except (StoreUnavailable, OutcomeUnknown):
            return False
        except Exception as error:
            logger.error("sandbox notification failed", fault=describe_fault(error))
        else:
            self._operator.acknowledge(notification.id, now=self.now())
        return True

    def _save(self) -> None:
        """Write what has become true, then see whether it changes what is due next."""
        entries = self._operator.take_entries()
        if entries:
            self.book.append(entries)
        due = self._operator.next_due()
        if due is not None and due < self._sleeps_until:
            self._news.set()

    async def _save_surely(self) -> None:
        while True:
            try:
                self._save()
            except OSError as error:
                logger.warning("sandbox book not written", error=str(error))
                await trio.sleep(RETRY_S)
            else:
                return

    async def _sleep(self) -> None:
        due = self._operator.next_due()
        self._sleeps_until = math.inf if due is None else due
        seconds = math.inf if due is None else max(0.0, (due - self.now()) / clock.SECOND)
        with trio.move_on_after(seconds):
            await self._news.wait()
        self._news = trio.Event()
        self._sleeps_until = -math.inf

    def _has_told(self, due: Instant, count: int) -> None:
        """This many notifications of the round that was due then have ended."""
        self._telling[due] -= count
        if not self._telling[due]:
            del self._telling[due]
        self._told.set()
        self._told = trio.Event()

    def _is_due(self, until: Instant) -> bool:
        due = self._operator.next_due()
        return due is not None and due <= until

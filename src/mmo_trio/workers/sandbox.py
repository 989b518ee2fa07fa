"""The sandbox operator, run in our own process: what it has to tell is told in time, and its book is kept.

Nothing leaves before the book holds it. Writing a line of the book doesn't wait for a disk, so it is done in place.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import structlog
import trio
from attrs import Factory, define

from mmo_sansio import clock
from mmo_sansio.clock import Instant
from mmo_sansio.http import HttpRequest, HttpResponse
from mmo_sansio.providers.conversation import ExchangeFailed
from mmo_sansio.providers.sandbox_operator import Notification, Prompt, SandboxOperator
from mmo_trio.http.faults import describe_fault
from mmo_trio.storage.base import OutcomeUnknown, StoreUnavailable
from mmo_trio.workers.sandbox_book import Book, read_book

logger = structlog.get_logger(__name__)

TELLING_MAX = 512
"""Notifications under way at one time: enough to fill the engine's batches."""

RETRY_S = 1.0
"""How long to wait before the book, or the gateway, is tried again."""

Notify: TypeAlias = Callable[[HttpRequest], Awaitable[None]]
"""Hands a notification to the gateway and returns once it is durable there."""


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

    def refuse(self, reference: str) -> bool:
        """The person at the virtual phone declines; False when no such payment waits. Raises OSError when the book
        can't be written."""
        done = self._operator.refuse(reference, now=self.now())
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
        room = trio.Semaphore(TELLING_MAX)
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    due = self._operator.next_due() or 0
                    told = self._operator.due(now=self.now())
                    self._telling[due] += len(told)
                    await self._save_surely()
                    for each in told:
                        await room.acquire()
                        # `start` rather than `start_soon`, which keeps no order.
                        await nursery.start(self._tell, each, due, room)
                    self._has_told(due, 0)
                    await self._sleep()
        finally:
            self.book.close()

    async def _tell(
        self,
        notification: Notification,
        due: Instant,
        room: trio.Semaphore,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        task_status.started()
        try:
            if await self._notify_surely(notification.request):
                self._operator.acknowledge(notification.id, now=self.now())
                await self._save_surely()
        finally:
            room.release()
            self._has_told(due, 1)

    async def _notify_surely(self, request: HttpRequest) -> bool:
        """Tell until the gateway has it. False for a fault of ours: it is told again after a restart."""
        while True:
            try:
                await self.notify(request)
            except (StoreUnavailable, OutcomeUnknown) as error:
                logger.warning("sandbox notification not stored", error=str(error))
                await trio.sleep(RETRY_S)
            except Exception as error:
                logger.error("sandbox notification failed", fault=describe_fault(error))
                return False
            else:
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

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
from mmo_sansio.providers.sandbox.simulated_operator import (
    PhonePrompt,
    SandboxNotification,
    SimulatedOperator,
)
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_trio.sandbox.operator_journal import OperatorJournal, read_operator_journal
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

NOTIFICATIONS_PER_ROUND_MAX = 512
"""Notifications told in one go: enough to fill the engine's batches, and others get their turn between."""

RETRY_DELAY_S = 1.0
"""How long to wait before the book, or the gateway, is tried again."""


class PendingReply(Protocol):
    """A notification on its way into the gateway, such as a :class:`mmo_trio.engine.engine.Call`."""

    async def reply(self) -> object:
        """Return once it is durable there. Raises StoreUnavailable or OutcomeUnknown when it isn't, or may not be."""
        ...


Notify: TypeAlias = Callable[[HttpRequest], PendingReply]
"""Hands a notification to the gateway, at once; raises StoreUnavailable when it has no room."""


@define(eq=False)
class SandboxOperatorWorker:
    """Keeps the operator's time and its book; `exchange` is how providers reach it."""

    journal: OperatorJournal
    now: Callable[[], Instant]
    notify: Notify
    _operator: SimulatedOperator = Factory(SimulatedOperator)
    _changed: trio.Event = Factory(trio.Event)
    """Set when the operator may have something to do sooner than was thought."""
    _notifications_concluded: trio.Event = Factory(trio.Event)
    """Set, and replaced, whenever a notification has ended, or nothing was due."""
    _sleeps_until: float = math.inf
    _in_flight: Counter[Instant] = Factory(Counter)
    """How many notifications the operator has given out that haven't ended, by when the first of its round was due."""

    def __attrs_post_init__(self) -> None:
        self._operator.restore(read_operator_journal(self.journal.path))

    async def exchange(self, request: HttpRequest) -> HttpResponse:
        """The operator's answer; raises ExchangeFailed when its book can't be written."""
        await trio.lowlevel.checkpoint()
        answer = self._operator.receive(request, now=self.now())
        try:
            self._save_journal()
        except OSError as error:
            raise ExchangeFailed(f"The book: {error}", may_have_arrived=True) from error
        return answer

    def approve(self, reference: str) -> bool:
        """The person at the virtual phone agrees; False when no such payment waits. Raises OSError when the book
        can't be written."""
        done = self._operator.approve(reference, now=self.now())
        self._save_journal()
        return done

    def decline(self, reference: str, *, error_code: ErrorCode = ErrorCode.USER_CANCELLED) -> bool:
        """The person at the virtual phone declines, or can't pay, which `why` says; False when no such payment waits.
        Raises OSError when the book can't be written."""
        done = self._operator.decline(reference, reason=error_code, now=self.now())
        self._save_journal()
        return done

    def prompts(self) -> tuple[PhonePrompt, ...]:
        """What the virtual phone shows, the oldest first."""
        return self._operator.prompts()

    def next_due(self) -> Instant | None:
        """When the operator has something to do by itself."""
        return self._operator.next_due()

    def wake_up(self) -> None:
        """Look again at what is due."""
        self._changed.set()

    async def wait_idle(self, until: Instant) -> None:
        """Return once everything due until then was told and acknowledged; what falls due later isn't waited for."""
        self.wake_up()
        while self._has_due(until) or any(due <= until for due in self._in_flight):
            await self._notifications_concluded.wait()
        await trio.lowlevel.checkpoint()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Tell what is due, in order, until cancelled; the book is closed then."""
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    due = Instant(self._operator.next_due() or 0)
                    told = self._operator.due_notifications(now=self.now())
                    self._in_flight[due] += len(told)
                    await self._save_journal_with_retry()
                    for start in range(0, len(told), NOTIFICATIONS_PER_ROUND_MAX):
                        part = told[start : start + NOTIFICATIONS_PER_ROUND_MAX]
                        # Posted here, in their order; a task of its own only waits.
                        nursery.start_soon(
                            self._deliver_until_stored, self._post_notifications(part), due
                        )
                        await trio.lowlevel.checkpoint()
                    self._count_concluded(due, 0)
                    await self._sleep_until_due()
        finally:
            self.journal.close()

    def _post_notifications(
        self, notifications: Sequence[SandboxNotification]
    ) -> Sequence[tuple[SandboxNotification, PendingReply | None]]:
        """Each with its way through the gateway; without one when there was no room."""
        return [(each, self._post_notification(each)) for each in notifications]

    def _post_notification(self, notification: SandboxNotification) -> PendingReply | None:
        try:
            return self.notify(notification.request)
        except StoreUnavailable:
            return None

    async def _deliver_until_stored(
        self, posted: Sequence[tuple[SandboxNotification, PendingReply | None]], due: Instant
    ) -> None:
        """Acknowledge what the gateway has, all in one write, and tell the rest again until it has it."""
        count = len(posted)
        while posted:
            left: list[SandboxNotification] = []
            for notification, call in posted:
                if call is None or not await self._is_concluded(notification, call):
                    left.append(notification)
            await self._save_journal_with_retry()
            if left:
                logger.warning("sandbox_notifications_deferred", count=len(left))
                await trio.sleep(RETRY_DELAY_S)
            posted = self._post_notifications(left)
        self._count_concluded(due, count)

    async def _is_concluded(
        self, notification: SandboxNotification, pending_reply: PendingReply
    ) -> bool:
        """Whether it is done with. After a fault of ours it is, until a restart."""
        try:
            await pending_reply.reply()
        except (StoreUnavailable, OutcomeUnknown):
            return False
        except Exception as error:
            logger.error("sandbox_notification_failed", fault=describe_fault(error))
        else:
            self._operator.acknowledge(notification.id, now=self.now())
        return True

    def _save_journal(self) -> None:
        """Write what has become true, then see whether it changes what is due next."""
        entries = self._operator.take_entries()
        if entries:
            self.journal.append(entries)
        due = self._operator.next_due()
        if due is not None and due < self._sleeps_until:
            self._changed.set()

    async def _save_journal_with_retry(self) -> None:
        while True:
            try:
                self._save_journal()
            except OSError as error:
                logger.warning("sandbox_journal_write_failed", error=str(error))
                await trio.sleep(RETRY_DELAY_S)
            else:
                return

    async def _sleep_until_due(self) -> None:
        due = self._operator.next_due()
        self._sleeps_until = math.inf if due is None else due
        seconds = math.inf if due is None else max(0.0, (due - self.now()) / clock.SECOND)
        with trio.move_on_after(seconds):
            await self._changed.wait()
        self._changed = trio.Event()
        self._sleeps_until = -math.inf

    def _count_concluded(self, due: Instant, count: int) -> None:
        """This many notifications of the round that was due then have ended."""
        self._in_flight[due] -= count
        if not self._in_flight[due]:
            del self._in_flight[due]
        self._notifications_concluded.set()
        self._notifications_concluded = trio.Event()

    def _has_due(self, until: Instant) -> bool:
        due = self._operator.next_due()
        return due is not None and due <= until

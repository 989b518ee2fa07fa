"""Runs the simulated operator in this process: it sends notifications in time and writes the
journal.

Nothing leaves before the journal holds it. Writing to the journal doesn't wait for a disk, so no
thread is needed."""

from __future__ import annotations

import fcntl
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import Input
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.sandbox.journal import (
    SandboxJournalEntry,
    SandboxSubmission,
    format_entry,
    parse_entry,
)
from mmo_sansio.providers.sandbox.simulated_operator import SandboxNotification, SimulatedOperator
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_trio.engine.engine import Enqueue, PendingInput
from mmo_trio.settings.service import SHARED_OPERATOR_ADVICE
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, StoreUnusable
from mmo_trio.system.damaged_file import DamagedFile
from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)
_LINE_FEED = b"\n"

# Notifications that are sent without a pause for other tasks: enough for the engine's batches.
NOTIFICATIONS_PER_ROUND_MAX = 512

# Seconds before the journal, or the gateway, is tried again.
RETRY_DELAY_S = 1.0


class OperatorJournal:
    """The operator's journal while it is open: a file with one line for each entry, so that `kill
    -9` loses nothing.

    The file belongs to one process at a time, which locks it. Lines that the operating system has
    survive the process; a power failure may lose the last lines, which a sandbox tolerates. Entries
    that can't be written are written first by the next `append`."""

    def __init__(self, path: Path) -> None:
        """Open or create the file, and cut off an incomplete last line. Raises OSError, and
        StoreUnusable while another process has it open."""
        self.path = path
        self._unwritten_bytes = b""
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise StoreUnusable(
                f"another process runs the simulated operator whose journal is {path}, and a"
                f" sandbox is one process: stop the other, or use {SHARED_OPERATOR_ADVICE}"
            ) from None

        # Only with the lock: before, the line may be another process's, which is writing it.
        os.ftruncate(self._descriptor, _complete_lines_size(path.read_bytes()))

    def append(self, entries: Iterable[SandboxJournalEntry]) -> None:
        """Write the entries. Raises OSError while they can't be written."""
        self._unwritten_bytes += b"".join(map(format_entry, entries))
        # A write may take a part only, as on a full disk; the rest stays for the next call.
        while self._unwritten_bytes:
            self._unwritten_bytes = self._unwritten_bytes[
                os.write(self._descriptor, self._unwritten_bytes) :
            ]

    def close(self) -> None:
        """Close the file; `append` raises OSError from now on."""
        os.close(self._descriptor)
        self._descriptor = -1  # The number may soon be another file's.


def read_operator_journal(path: Path) -> list[SandboxJournalEntry]:
    """Return every entry of a journal, also while its owner writes; [] when there is no file.

    Raises DamagedFile, naming the line, for a damaged entry; an incomplete last line is no entry
    yet."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []

    lines = content[: _complete_lines_size(content)].splitlines()
    entries: list[SandboxJournalEntry] = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(parse_entry(line))
        except ValueError as error:
            fault = f"{path}, line {number}, is no entry of the simulated operator ({error})"
            raise DamagedFile(f"{fault}: remove the file to begin with an empty one.") from None

    return entries


def _complete_lines_size(content: bytes) -> int:
    return content.rfind(_LINE_FEED) + 1


@define(eq=False)
class SandboxOperatorWorker:
    """Runs the operator by the clock and writes its journal; `exchange` takes requests."""

    journal: OperatorJournal
    own_time: Callable[[], Instant]
    read_notification: Callable[[HttpRequest], Input]
    """Reads a notification as the account's adapter does."""
    enqueue: Enqueue
    _operator: SimulatedOperator = Factory(SimulatedOperator)
    _changed: trio.Event = Factory(trio.Event)
    """Set when the operator may have something due sooner than expected."""
    _notifications_concluded: trio.Event = Factory(trio.Event)
    """Set, and replaced, whenever notifications were concluded, or nothing was due."""
    _sleeps_until: float = math.inf
    _in_flight: Counter[Instant] = Factory(Counter)
    """The number of notifications that are sent and not concluded, by the instant at which their
    round was due."""
    _held_at: Instant | None = None
    """The instant at which its time is held; None: it goes on."""

    def __attrs_post_init__(self) -> None:
        self._operator.restore(read_operator_journal(self.journal.path))

    async def exchange(self, request: HttpRequest) -> HttpResponse:
        """Return the response. Raises ExchangeFailed when the journal can't be written."""
        # Nothing below waits, and an async function is a checkpoint (Trio, "Checkpoints").
        await trio.lowlevel.checkpoint()
        response = self._operator.receive(request, now=self._time())
        try:
            self._save_journal()
        except OSError as error:
            # The operator has it in memory, so the gateway may not send it again.
            raise ExchangeFailed(f"The journal: {error}", may_have_arrived=True) from error
        return response

    def approve(self, reference: str) -> bool:
        """Approve a payment at the virtual phone; False when no such payment waits. Raises OSError
        when the journal can't be written."""
        was_waiting = self._operator.approve(reference, now=self._time())
        self._save_journal()
        return was_waiting

    def decline(self, reference: str, *, error_code: ErrorCode = ErrorCode.USER_CANCELLED) -> bool:
        """Decline a payment at the virtual phone for the reason of `error_code`; False when no such
        payment waits. Raises OSError when the journal can't be written."""
        was_waiting = self._operator.decline(reference, reason=error_code, now=self._time())
        self._save_journal()
        return was_waiting

    def prompts(self) -> tuple[SandboxSubmission, ...]:
        """Return the prompts that the virtual phone shows, the oldest first."""
        return self._operator.prompts()

    def next_due(self) -> Instant | None:
        """Return when the operator has something to do by itself; None for never."""
        return self._operator.next_due()

    def hold_time(self, at: Instant | None) -> None:
        """Let nothing happen at the operator after this instant, while the sandbox's clock is
        moved; None: its time goes on."""
        self._held_at = at
        self._changed.set()

    async def wait_idle(self, until: Instant) -> None:
        """Return once every notification that is due until then was sent and concluded."""
        self._changed.set()
        # What was sent counts until its reply is durable: else a payment could expire before its
        # result is applied.
        while any(
            at <= until for at in (self._operator.next_due(), *self._in_flight) if at is not None
        ):
            await self._notifications_concluded.wait()
        await trio.lowlevel.checkpoint()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send due notifications, in order, until cancelled; then close the journal."""
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    due = Instant(self._operator.next_due() or 0)
                    notifications = self._operator.due_notifications(now=self._time())
                    self._in_flight[due] += len(notifications)
                    # Nothing leaves before the journal holds it: a restart must know the same.
                    await self._save_journal_with_retry()
                    for start in range(0, len(notifications), NOTIFICATIONS_PER_ROUND_MAX):
                        part = notifications[start : start + NOTIFICATIONS_PER_ROUND_MAX]
                        # They are sent here, in their order; the task only waits for the replies.
                        sent = self._send_notifications(part)
                        nursery.start_soon(self._deliver_until_stored, sent, due)
                        await trio.lowlevel.checkpoint()
                    # A round without notifications ends as well, and somebody may wait for that.
                    self._count_concluded(due, 0)
                    await self._sleep_until_due()
        finally:
            self.journal.close()

    def _send_notifications(
        self, notifications: Sequence[SandboxNotification]
    ) -> Sequence[tuple[SandboxNotification, PendingInput | None]]:
        """Return each notification with its pending reply; None when the gateway had no room."""
        return [
            (notification, self._send_notification(notification)) for notification in notifications
        ]

    def _send_notification(self, notification: SandboxNotification) -> PendingInput | None:
        try:
            return self.enqueue(self.read_notification(notification.request))
        except StoreUnavailable:
            return None

    async def _deliver_until_stored(
        self, sent: Sequence[tuple[SandboxNotification, PendingInput | None]], due: Instant
    ) -> None:
        """Send the notifications until all are stored; acknowledge each round in one write."""
        count = len(sent)
        while sent:
            deferred: list[SandboxNotification] = []
            for notification, reply in sent:
                if reply is None or not await self._is_concluded(notification, reply):
                    deferred.append(notification)

            await self._save_journal_with_retry()
            if deferred:
                logger.warning("sandbox_notifications_deferred", count=len(deferred))
                await trio.sleep(RETRY_DELAY_S)

            sent = self._send_notifications(deferred)

        self._count_concluded(due, count)

    async def _is_concluded(
        self, notification: SandboxNotification, pending_reply: PendingInput
    ) -> bool:
        """Tell whether the notification is stored, or has failed with an internal error, which ends
        it until a restart."""
        try:
            await pending_reply.reply()
        except (StoreUnavailable, OutcomeUnknown):
            return False
        except Exception as error:
            # A fault of ours would come again at once, and for ever.
            logger.error("sandbox_notification_failed", fault=describe_fault(error))
        else:
            self._operator.acknowledge(notification.id, now=self._time())

        return True

    def _save_journal(self) -> None:
        """Write new entries to the journal, and wake up the loop if something is due sooner."""
        entries = self._operator.take_entries()
        if entries:
            self.journal.append(entries)
        due = self._operator.next_due()
        if due is not None and due < self._sleeps_until:
            self._changed.set()

    async def _save_journal_with_retry(self) -> None:
        while True:
            try:
                return self._save_journal()
            except OSError as error:
                logger.warning("sandbox_journal_write_failed", error=str(error))
            await trio.sleep(RETRY_DELAY_S)

    def _time(self) -> Instant:
        now = self.own_time()
        if self._held_at is None:
            return now
        return min(now, self._held_at)

    async def _sleep_until_due(self) -> None:
        due = self._operator.next_due()
        # While its time is held, what is due later never comes by itself.
        if due is not None and self._held_at is not None and due > self._held_at:
            due = None

        if due is None:
            self._sleeps_until = math.inf
            seconds = math.inf
        else:
            self._sleeps_until = due
            seconds = max(0.0, (due - self._time()) / clock.SECOND)

        with trio.move_on_after(seconds):
            await self._changed.wait()

        # Set anew without a checkpoint in between, so no change is lost.
        self._changed = trio.Event()
        self._sleeps_until = -math.inf

    def _count_concluded(self, due: Instant, count: int) -> None:
        """Record that this many notifications of the round that was due then are concluded."""
        self._in_flight[due] -= count
        if not self._in_flight[due]:
            del self._in_flight[due]
        self._notifications_concluded.set()
        self._notifications_concluded = trio.Event()

"""Wakes transactions that are due, and claims the work of processes that have ended (clauses S3,
S6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import structlog
import trio
from attrs import Factory, define, frozen

from mmo_sansio.messages.inputs import TransactionWoke
from mmo_sansio.values import clock
from mmo_sansio.values.clock import FIRST_INSTANT, Instant
from mmo_trio.engine.engine import Enqueue
from mmo_trio.storage.interface.store import STORE_ERRORS, WorkItem, log_store_failure
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.postponed import Postponed

logger = structlog.get_logger(__name__)

# Transactions that are woken in one round: less than a sixth of an engine's batch. A round is
# enqueued once the one before it is decided, so that other inputs wait for one round and are
# decided with the next. With 64 the slowest of them waited half as long again, and no more
# transactions ended in a second; with 24 a fifth fewer ended.
ROUND_SIZE_MAX = 40

# Intents that are claimed at a time.
CLAIMED_MAX = 128

# Seconds between two searches for abandoned work; the maximum between two for due work.
SCAN_INTERVAL_S = 1.0

# The minimum between two rounds of which the second finds the same again, so that a transaction
# that can't be woken costs little. After a full round of others the next one follows at once.
SCAN_INTERVAL_MIN_S = 0.02

# Seconds before the next round when the store can't serve.
RETRY_DELAY_S = 1.0

# Seconds that work waits for a backlog of due transactions at most.
BACKLOG_WAIT_MAX_S = 5.0


@define(eq=False)
class DueBacklog:
    """Tells whether more transactions are due than one round wakes. Work that nobody waits for lets
    them go first."""

    _ended: trio.Event | None = None
    """Set at the end of the present backlog; None while there is none."""

    def update(self, *, is_present: bool) -> None:
        """Record whether there is a backlog now."""
        if is_present and self._ended is None:
            self._ended = trio.Event()
        elif not is_present and self._ended is not None:
            self._ended.set()
            self._ended = None

    async def wait_for_end(self) -> None:
        """Return when there is no backlog, or after `BACKLOG_WAIT_MAX_S`."""
        if self._ended is not None:
            with trio.move_on_after(BACKLOG_WAIT_MAX_S):
                await self._ended.wait()


@frozen
class WakeRound:
    """What became of one round of due transactions."""

    references: frozenset[str] = frozenset()
    """Those that were tried, whether they could be woken or not."""
    errors: Sequence[Exception] = ()
    """Why some could not be woken; these are postponed."""

    @property
    def is_full(self) -> bool:
        """Whether more transactions may be due than one round takes."""
        return len(self.references) == ROUND_SIZE_MAX

    @property
    def store_error(self) -> Exception | None:
        """The store's error for which not one of a full round could be woken, if it is one."""
        if len(self.errors) == ROUND_SIZE_MAX and isinstance(self.errors[0], STORE_ERRORS):
            return self.errors[0]
        return None


@define(eq=False)
class Scheduler:
    """Runs once in each process; the store gives each process its share of what is due."""

    store: Store
    enqueue: Enqueue
    dispatch: Callable[[WorkItem], None]
    """Passes abandoned work to its worker."""
    has_room: Callable[[], bool]
    """Tells whether the workers can take abandoned work."""
    own_time: Callable[[], Instant]
    backlog: DueBacklog = Factory(DueBacklog)
    """What others learn about the work that is left to do."""
    scan_interval_s: float = SCAN_INTERVAL_S
    """Seconds between two rounds at most."""
    lock: trio.Lock = Factory(trio.Lock)
    """Held while transactions are woken."""
    _wake_up: trio.Event = Factory(trio.Event)
    _next_claim_at: float = -math.inf
    """Trio's time of the next search for abandoned work."""
    _tried_last: frozenset[str] = frozenset()
    """References of the transactions that the last round has tried to wake."""
    _postponed: Postponed[str] = Factory(Postponed)
    """Payments that could not be woken, by reference: each round passes over those whose time has
    not come."""

    def wake_up(self) -> None:
        """Start the next round now, as the clock has moved or something is due sooner."""
        self._wake_up.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run rounds until cancelled; a store that fails is tried again."""
        task_status.started()
        while True:
            try:
                async with self.lock:
                    pause_s = await self._run_round()
            except Exception as error:
                self.backlog.update(is_present=False)
                log_store_failure(logger, "schedule_scan_failed", error)
                pause_s = RETRY_DELAY_S

            with trio.move_on_after(pause_s):
                await self._wake_up.wait()

            self._wake_up = trio.Event()

    async def wake_all_due(self, until: Instant) -> int:
        """Wake all transactions that are due by then, and return their number. The caller holds
        `lock`.

        Raises StoreUnavailable when the store can't serve.
        """
        count = 0
        self._postponed.retain(())
        while True:
            woken = await self._wake_due(until)
            if woken.errors:
                raise woken.errors[0]

            count += len(woken.references)
            if not woken.is_full:
                return count

    async def _run_round(self) -> float:
        """Wake and claim once, and return the seconds until the next round. A payment that cannot
        be woken holds up neither the others nor the claim. Raises the first error when none could
        be woken because of the store."""
        tried_before = self._tried_last
        self._tried_last = frozenset()  # Where this round fails, the next one compares with none.
        until = self.own_time()
        woken = await self._wake_due(until)
        self._tried_last = woken.references
        for error in woken.errors:
            log_store_failure(logger, "wake_failed", error)

        # The claim comes between two rounds, so that a long backlog of due transactions leaves no
        # abandoned payment unsent.
        claimed = await self._claim_abandoned()

        # 1. More is due: at once, unless the round has found the same again.
        if woken.is_full:
            if woken.store_error is not None:
                raise woken.store_error
            if tried_before.isdisjoint(woken.references):
                return 0.0

            self.backlog.update(is_present=False)
            return SCAN_INTERVAL_MIN_S

        # 2. More is abandoned.
        if claimed == CLAIMED_MAX:
            return SCAN_INTERVAL_MIN_S

        # 3. Nothing is left to do until the next time at which a transaction is due.
        return await self._pause_s(until)

    async def _claim_abandoned(self) -> int:
        """Claim a round of abandoned work if it is time, and return the number of intents."""
        if trio.current_time() < self._next_claim_at or not self.has_room():
            return 0

        abandoned = await self.store.claim_abandoned(limit=CLAIMED_MAX)
        for work in abandoned:
            self.dispatch(work)

        # The work of a process that has ended comes in rounds until there is no more.
        pause_s = self.scan_interval_s
        if len(abandoned) == CLAIMED_MAX:
            pause_s = SCAN_INTERVAL_MIN_S

        self._next_claim_at = trio.current_time() + pause_s
        return len(abandoned)

    async def _pause_s(self, until: Instant) -> float:
        """Return the seconds until something is due that is not postponed; everything else was due
        by `until`."""
        # What is postponed is overdue, and would be the next of all each time.
        after = FIRST_INSTANT
        if self._postponed:
            after = until

        at = await self.store.next_wake(after=after)
        if at is None:
            return self.scan_interval_s

        # At most an interval: another process may make something due sooner, or end and leave work.
        return min(
            max((at - self.own_time()) / clock.SECOND, SCAN_INTERVAL_MIN_S), self.scan_interval_s
        )

    async def _wake_due(self, until: Instant) -> WakeRound:
        """Wake one round of due transactions in the order of their times; postpone those that could
        not be woken."""
        # However many are postponed, a round finds enough of the others.
        limit = ROUND_SIZE_MAX + len(self._postponed)
        references = await self.store.due(until, limit=limit)
        if len(references) < limit:
            # All that are due were found; postponed ones that are not among them have moved on.
            self._postponed.retain(references)

        due = [reference for reference in references if not self._postponed.must_wait(reference)]
        del due[ROUND_SIZE_MAX:]
        self.backlog.update(is_present=len(due) == ROUND_SIZE_MAX)

        # All are enqueued before the first reply is awaited, so that the engine decides them in one
        # batch.
        submissions = [(reference, self.enqueue(TransactionWoke(reference))) for reference in due]
        errors: list[Exception] = []
        for reference, submission in submissions:
            try:
                await submission.reply()
            except Exception as error:
                errors.append(error)
                self._postponed.add(reference)
            else:
                self._postponed.discard(reference)

        return WakeRound(frozenset(due), errors)

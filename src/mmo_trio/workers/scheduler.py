"""Gives work to the workers: wakes transactions that are due, claims the work of processes that
have ended, passes each intent to its worker, and offers it again when the worker had no room
(clauses S3, S6)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TypeAlias, assert_never

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages import intents
from mmo_sansio.messages.inputs import TransactionWoke
from mmo_sansio.values import clock
from mmo_sansio.values.clock import FIRST_INSTANT, Instant
from mmo_trio.engine.engine import Enqueue
from mmo_trio.storage.interface.store import STORE_ERRORS, WorkItem, log_store_failure
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.channel_owner import ChannelOwner
from mmo_trio.workers.deliveries import CallbackWorker, QrWorker
from mmo_trio.workers.postponed import Postponed
from mmo_trio.workers.providers.worker import ProviderWorker

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
    _woken_last: frozenset[str] = frozenset()
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
            references, errors = await self._wake_due(until)
            if errors:
                raise errors[0]

            woken = len(references)
            count += woken
            if woken < ROUND_SIZE_MAX:
                return count

    async def _run_round(self) -> float:
        """Wake and claim once, and return the seconds until the next round. A payment that cannot
        be woken holds up neither the others nor the claim. Raises the first error when none could
        be woken because of the store."""
        before, self._woken_last = self._woken_last, frozenset()
        until = self.own_time()
        tried, errors = await self._wake_due(until)
        self._woken_last = tried
        for error in errors:
            log_store_failure(logger, "wake_failed", error)

        claimed = await self._claim_abandoned()
        if len(tried) == ROUND_SIZE_MAX:
            if len(errors) == ROUND_SIZE_MAX and isinstance(errors[0], STORE_ERRORS):
                raise errors[0]
            if before.isdisjoint(tried):
                return 0.0

            self.backlog.update(is_present=False)
            return SCAN_INTERVAL_MIN_S

        if claimed == CLAIMED_MAX:
            return SCAN_INTERVAL_MIN_S

        return await self._pause_s(until)

    async def _claim_abandoned(self) -> int:
        """Claim a round of abandoned work if it is time, and return the number of intents."""
        if trio.current_time() < self._next_claim_at or not self.has_room():
            return 0
        abandoned = await self.store.claim_abandoned(limit=CLAIMED_MAX)
        for payment in abandoned:
            self.dispatch(payment)
        is_full = len(abandoned) == CLAIMED_MAX
        pause_s = SCAN_INTERVAL_MIN_S if is_full else self.scan_interval_s
        self._next_claim_at = trio.current_time() + pause_s
        return len(abandoned)

    async def _pause_s(self, until: Instant) -> float:
        """Return the seconds until something is due that is not postponed; everything else was due
        by `until`."""
        at = await self.store.next_wake(after=until if self._postponed else FIRST_INSTANT)
        if at is None:
            return self.scan_interval_s
        return min(
            max((at - self.own_time()) / clock.SECOND, SCAN_INTERVAL_MIN_S), self.scan_interval_s
        )

    async def _wake_due(self, until: Instant) -> tuple[frozenset[str], Sequence[Exception]]:
        """Wake one round of due transactions in the order of their times. Return the references of
        all, and the errors of those that could not be woken and are postponed."""
        limit = ROUND_SIZE_MAX + len(self._postponed)
        found = await self.store.due(until, limit=limit)
        if len(found) < limit:  # All that are due were found; the others have ended or moved on.
            self._postponed.retain(found)

        due = [payment for payment in found if not self._postponed.must_wait(payment)]
        del due[ROUND_SIZE_MAX:]
        self.backlog.update(is_present=len(due) == ROUND_SIZE_MAX)
        errors: list[Exception] = []
        for reference, submission in [
            (reference, self.enqueue(TransactionWoke(reference))) for reference in due
        ]:
            try:
                await submission.reply()
            except Exception as error:
                errors.append(error)
                self._postponed.add(reference)
            else:
                self._postponed.discard(reference)

        return frozenset(due), errors


# Seconds before waiting intents are offered again that found no room.
RETRY_INTERVAL_S = 0.5

# Intents of one queue that are offered in one round; other queues follow.
RETRIES_PER_ROUND_MAX = 512

# Transactions that are read at a time, once the first of a round has found room.
READ_AT_ONCE_MAX = 64

# Intents that wait, in some 30 MB, before no further ones are claimed. So many open callbacks of
# one slow merchant do not hold back anybody's unsent payments.
WAITING_MAX = 262_144

# Names the queue of a provider's submissions or polls, a brand's callbacks or a brand's QR codes.
WaitingQueueKey: TypeAlias = tuple[intents.IntentKind, str]


@define(eq=False)
class Dispatcher:
    """Knows all workers. Of intents that wait only the gatewayReference is kept: a hundred thousand
    of them take little memory, and the garbage collector has nothing to examine."""

    store: Store
    providers: ProviderWorker
    callbacks: CallbackWorker | ChannelOwner
    """The channel owner where several processes share the store."""
    qr_codes: QrWorker
    _waiting: dict[WaitingQueueKey, deque[str]] = Factory(dict)
    """The gatewayReferences of intents that wait, by queue; no queue is empty."""

    def dispatch(self, work: WorkItem) -> None:
        """Pass work to its worker, or let it wait at the end of its queue. The poll of a pending
        transaction never waits: it is polled again at its time."""
        if isinstance(work.intent, intents.PollProvider):
            self._try_enqueue(work)
            return
        order = work.transaction.order
        is_for_provider = work.intent.kind in (intents.IntentKind.SUBMIT, intents.IntentKind.POLL)
        queue_key = work.intent.kind, order.provider if is_for_provider else order.brand
        if queue_key in self._waiting or not self._try_enqueue(work):
            self._waiting.setdefault(queue_key, deque()).append(work.intent.gateway_reference)

    def has_room(self) -> bool:
        """Tell whether work of other processes that have ended can be claimed."""
        return sum(map(len, self._waiting.values())) < WAITING_MAX

    async def run(self) -> None:
        """Offer waiting intents again, until cancelled."""
        has_more = False
        while True:
            await trio.sleep(0 if has_more else RETRY_INTERVAL_S)
            has_more = False
            try:
                for queue_key in tuple(self._waiting):
                    has_more |= await self._retry_waiting(queue_key)
            except Exception as error:
                log_store_failure(logger, "waiting_work_read_failed", error)

    async def _retry_waiting(self, queue_key: WaitingQueueKey) -> bool:
        """Offer the intents of a queue in order until the worker has no more room; tell whether a
        whole round found room, and more intents wait."""
        waiting, (kind, _) = self._waiting[queue_key], queue_key
        left, to_read = min(RETRIES_PER_ROUND_MAX, len(waiting)), 1
        while left:
            references = list(islice(waiting, min(left, to_read)))
            for work in await self._read_work(kind, references):
                if work is not None and not self._try_enqueue(work):
                    return False
                waiting.popleft()

            left, to_read = left - len(references), READ_AT_ONCE_MAX

        if not waiting:
            del self._waiting[queue_key]

        return bool(waiting)

    async def _read_work(
        self, kind: intents.IntentKind, references: Sequence[str]
    ) -> Sequence[WorkItem | None]:
        """Return the intents of this kind about these payments, in their order; None in place of
        one that is not there any more."""
        transactions = await self.store.transactions(references)
        open_intents: Mapping[str, intents.DurableIntent]
        if kind is intents.IntentKind.POLL:
            open_intents = await self.store.open_polls(references)
        else:
            open_intents = {
                reference: intents.durable_intent(kind, reference) for reference in references
            }

        found = transactions.keys() & open_intents.keys()
        return [
            WorkItem(open_intents[reference], transactions[reference])
            if reference in found
            else None
            for reference in references
        ]

    def _try_enqueue(self, work: WorkItem) -> bool:
        match work.intent:
            case intents.SubmitToProvider() | intents.PollProvider() | intents.PollEnded():
                return self.providers.try_enqueue(work)
            case intents.DeliverCallback():
                return self.callbacks.try_enqueue(work)
            case intents.DeliverQr():
                return self.qr_codes.try_enqueue(work)
            case _:
                assert_never(work.intent)

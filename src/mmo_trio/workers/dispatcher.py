"""Passes each intent to its worker, and offers it again when the worker had no room (clause S6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TypeAlias, assert_never

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages import intents
from mmo_trio.storage.interface.store import WorkItem, log_store_failure
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.channel_owner import ChannelOwner
from mmo_trio.workers.deliveries import CallbackWorker, QrWorker
from mmo_trio.workers.providers.worker import ProviderWorker

logger = structlog.get_logger(__name__)

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
    note_result: Sequence[Callable[[WorkItem], None]] = ()
    """Told of all work that has just become durable, once its worker has it."""
    _waiting: dict[WaitingQueueKey, deque[str]] = Factory(dict)
    """The gatewayReferences of intents that wait, by queue; no queue is empty."""

    def take(self, work: WorkItem) -> None:
        """Take on work that has just become durable."""
        # Work first, then what only counts.
        self.dispatch(work)
        for note in self.note_result:
            note(work)

    def dispatch(self, work: WorkItem) -> None:
        """Pass work to its worker, or let it wait at the end of its queue. The poll of a pending
        transaction never waits: it is polled again at its time."""
        if isinstance(work.intent, intents.PollProvider):
            self._try_enqueue(work)
            return

        # A slow provider holds up only its own queue, and so does a slow merchant.
        order = work.transaction.order
        queue_key: WaitingQueueKey
        if work.intent.kind in (intents.IntentKind.SUBMIT, intents.IntentKind.POLL):
            queue_key = work.intent.kind, order.provider
        else:
            queue_key = work.intent.kind, order.brand

        # Behind those that wait already, although the worker may have room: first come, first
        # served.
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
                # A copy: a queue that becomes empty is removed meanwhile.
                for queue_key in tuple(self._waiting):
                    has_more |= await self._retry_waiting(queue_key)
            except Exception as error:
                log_store_failure(logger, "waiting_work_read_failed", error)

    async def _retry_waiting(self, queue_key: WaitingQueueKey) -> bool:
        """Offer the intents of a queue in order until the worker has no more room; tell whether a
        whole round found room, and more intents wait."""
        waiting = self._waiting[queue_key]
        kind, _ = queue_key
        left = min(RETRIES_PER_ROUND_MAX, len(waiting))

        # One alone first: while the worker stays full, a round costs the read of one payment.
        to_read = 1
        while left:
            references = list(islice(waiting, min(left, to_read)))
            for work in await self._read_work(kind, references):
                if work is not None and not self._try_enqueue(work):
                    return False

                # Only after it was enqueued: a failed read loses nothing.
                waiting.popleft()

            left -= len(references)
            to_read = READ_AT_ONCE_MAX

        if not waiting:
            del self._waiting[queue_key]

        return bool(waiting)

    async def _read_work(
        self, kind: intents.IntentKind, references: Sequence[str]
    ) -> Sequence[WorkItem | None]:
        """Return the intents of this kind about these payments, in their order; None in place of
        one that is not there any more."""
        transactions = await self.store.transactions(references)

        # A poll carries what the provider is asked with, so it is read from the store; any other
        # intent follows from its kind and the payment.
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

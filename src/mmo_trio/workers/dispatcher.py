"""Passes each intent to its worker, and offers it again when the worker had no room."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TypeAlias, assert_never

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages.intents import (
    DeliverCallback,
    DeliverQr,
    IntentKind,
    PollEnded,
    PollProvider,
    SubmitToProvider,
    durable_intent,
)
from mmo_trio.storage.interface.store import WorkItem, log_store_failure
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.channel_owner import ChannelOwner
from mmo_trio.workers.deliveries import CallbackWorker, QrWorker
from mmo_trio.workers.providers.worker import ProviderWorker

logger = structlog.get_logger(__name__)

RETRY_INTERVAL_S = 0.5
"""Seconds before waiting intents are offered again that found no room."""

RETRIES_PER_ROUND_MAX = 512
"""Intents of one queue that are offered in one round; other queues follow."""

READ_AT_ONCE_MAX = 64
"""Transactions that are read at a time, once the first of a round has found room."""

WAITING_MAX = 262_144
"""Intents that wait, in some 30 MB, before no further ones are claimed. So many open callbacks of one slow merchant do
not hold back anybody's unsent payments."""

WaitingQueueKey: TypeAlias = tuple[IntentKind, str]
"""Names the queue of a provider's submissions or polls, a brand's callbacks or a brand's QR codes."""


@define(eq=False)
class Dispatcher:
    """Knows all workers. Of intents that wait only the gatewayReference is kept: a hundred thousand of them take little
    memory, and the garbage collector has nothing to examine."""

    store: Store
    providers: ProviderWorker
    callbacks: CallbackWorker | ChannelOwner
    """The channel owner where several processes share the store."""
    qr_codes: QrWorker
    _waiting: dict[WaitingQueueKey, deque[str]] = Factory(dict)
    """The gatewayReferences of intents that wait, by queue; no queue is empty."""

    def dispatch(self, work: WorkItem) -> None:
        """Pass work to its worker, or let it wait at the end of its queue. The poll of a pending transaction never
        waits: it is polled again at its time."""
        if isinstance(work.intent, PollProvider):
            self._try_enqueue(work)
            return
        order = work.transaction.order
        is_for_provider = work.intent.kind in (IntentKind.SUBMIT, IntentKind.POLL)
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
        """Offer the intents of a queue in order until the worker has no more room; tell whether a whole round found
        room, and more intents wait."""
        waiting, (kind, _) = self._waiting[queue_key], queue_key
        left, to_read = min(RETRIES_PER_ROUND_MAX, len(waiting)), 1
        while left:
            references = list(islice(waiting, min(left, to_read)))
            transactions = await self.store.transactions(references)
            for each in references:
                transaction = transactions.get(each)
                if transaction is not None and not self._try_enqueue(WorkItem(durable_intent(kind, each), transaction)):
                    return False
                waiting.popleft()
            left, to_read = left - len(references), READ_AT_ONCE_MAX
        if not waiting:
            del self._waiting[queue_key]
        return bool(waiting)

    def _try_enqueue(self, work: WorkItem) -> bool:
        match work.intent:
            case SubmitToProvider() | PollProvider() | PollEnded():
                return self.providers.try_enqueue(work)
            case DeliverCallback():
                return self.callbacks.try_enqueue(work)
            case DeliverQr():
                return self.qr_codes.try_enqueue(work)
            case _:
                assert_never(work.intent)

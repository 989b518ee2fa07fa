"""Passes each intent to its worker, and offers it again when the worker had no room."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TypeAlias, assert_never

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages.intents import DeliverCallback, DeliverQr, Intent, PollProvider, SubmitToProvider
from mmo_trio.storage.interface.failures import log_store_failure
from mmo_trio.storage.interface.store import Store, WorkItem
from mmo_trio.workers.delivery.callbacks import CallbackWorker
from mmo_trio.workers.delivery.channel_owner import ChannelOwner
from mmo_trio.workers.delivery.qr_codes import QrWorker
from mmo_trio.workers.providers.worker import ProviderWorker

logger = structlog.get_logger(__name__)

RETRY_INTERVAL_S = 0.5
"""Seconds before waiting intents are offered again that found no room."""

RETRIES_PER_ROUND_MAX = 512
"""Intents of one queue that are offered in one round; other queues follow."""

READ_AT_ONCE_MAX = 64
"""Transactions that are read at a time, once the first of a round has found room."""

WaitingQueueKey: TypeAlias = tuple[str, str]
"""Names the queue of a provider's submissions, a brand's callbacks or a brand's QR codes."""


@define(eq=False)
class Dispatcher:
    """Knows all workers. Intents wait without their transactions, which saves memory."""

    store: Store
    providers: ProviderWorker
    callbacks: CallbackWorker | ChannelOwner
    """The channel owner where several processes share the store."""
    qr_codes: QrWorker
    _waiting: dict[WaitingQueueKey, deque[Intent]] = Factory(dict)
    """Intents that wait, by queue; no queue is empty."""

    def dispatch(self, work: WorkItem) -> None:
        """Pass work to its worker, or let it wait at the end of its queue. A poll never waits: the transaction is
        polled again at its time."""
        queue_key = _queue_key(work)
        must_wait = queue_key in self._waiting and not isinstance(work.intent, PollProvider)
        if must_wait or not self._try_enqueue(work):
            self._waiting.setdefault(queue_key, deque()).append(work.intent)

    def has_room(self) -> bool:
        """Tell whether work of other processes that have ended can be claimed."""
        return not self._waiting

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
        waiting = self._waiting[queue_key]
        left, to_read = min(RETRIES_PER_ROUND_MAX, len(waiting)), 1
        while left:
            intents = list(islice(waiting, min(left, to_read)))
            transactions = await self.store.transactions([each.gateway_reference for each in intents])
            for intent in intents:
                transaction = transactions.get(intent.gateway_reference)
                if transaction is not None and not self._try_enqueue(WorkItem(intent, transaction)):
                    return False
                waiting.popleft()
            left, to_read = left - len(intents), READ_AT_ONCE_MAX
        if not waiting:
            del self._waiting[queue_key]
        return bool(waiting)

    def _try_enqueue(self, work: WorkItem) -> bool:
        match work.intent:
            case SubmitToProvider() | PollProvider():
                return self.providers.try_enqueue(work)
            case DeliverCallback():
                return self.callbacks.try_enqueue(work)
            case DeliverQr():
                return self.qr_codes.try_enqueue(work)
            case _:
                assert_never(work.intent)


def _queue_key(work: WorkItem) -> WaitingQueueKey:
    order = work.transaction.order
    match work.intent:
        case SubmitToProvider() | PollProvider():
            return "provider", order.provider
        case DeliverCallback():
            return "brand", order.brand
        case DeliverQr():
            return "qr", order.brand
        case _:
            assert_never(work.intent)

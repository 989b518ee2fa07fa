"""Hands each intent to the worker that does it, and offers again what a worker had no room for."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias, assert_never

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages.intents import (
    DeliverCallback,
    DeliverQr,
    Intent,
    PollProvider,
    SubmitToProvider,
)
from mmo_trio.storage.interface.store import Store, StoreUnavailable, WorkItem
from mmo_trio.workers.delivery.callbacks import CallbackWorker
from mmo_trio.workers.delivery.channel_owner import ChannelOwner
from mmo_trio.workers.delivery.qr_codes import QrWorker
from mmo_trio.workers.providers.worker import ProviderWorker

logger = structlog.get_logger(__name__)

RETRY_INTERVAL_S = 0.5
"""How long what didn't fit waits before it is offered again."""

RETRIES_PER_ROUND_MAX = 512
"""How much is offered in one go; in between others get their turn."""

WaitingQueueKey: TypeAlias = tuple[str, str]
"""What waits for the same: a provider's submissions, a merchant's callbacks, a merchant's QR codes."""


@define(eq=False)
class Dispatcher:
    """Knows all workers. What waits is kept as references only, so a long queue costs little memory."""

    store: Store
    providers: ProviderWorker
    callbacks: CallbackWorker | ChannelOwner
    """Where several processes share the store, who holds channels there."""
    qr_codes: QrWorker
    _waiting: dict[WaitingQueueKey, deque[Intent]] = Factory(dict)
    """Never an empty one."""

    def dispatch(self, work: WorkItem) -> None:
        """Hand over work; what its worker can't take now waits here, behind what waits for the same. A question
        never waits: it is asked again at its time."""
        lane = _queue_key(work)
        must_queue = lane in self._waiting and not isinstance(work.intent, PollProvider)
        if must_queue or not self._try_enqueue(work):
            self._waiting.setdefault(lane, deque()).append(work.intent)

    def has_room(self) -> bool:
        """Whether more of what others have left can be taken on."""
        return not self._waiting

    async def run(self) -> None:
        """Offer again what waits, until cancelled."""
        while True:
            await trio.sleep(RETRY_INTERVAL_S)
            try:
                for lane in tuple(self._waiting):
                    await self._retry_waiting(lane)
            except StoreUnavailable as error:
                logger.warning("waiting_work_read_failed", error=str(error))

    async def _retry_waiting(self, queue_key: WaitingQueueKey) -> None:
        """Offer one after the other, until one isn't taken: who had no room for it has none for the next."""
        waiting = self._waiting[queue_key]
        for _ in range(min(RETRIES_PER_ROUND_MAX, len(waiting))):
            intent = waiting[0]
            transaction = await self.store.transaction(intent.gateway_reference)
            if transaction is not None and not self._try_enqueue(WorkItem(intent, transaction)):
                return
            waiting.popleft()
        if not waiting:
            del self._waiting[queue_key]

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

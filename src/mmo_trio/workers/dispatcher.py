"""Hands each intent to the worker that does it, and offers again what a worker had no room for."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias, assert_never

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages.intents import (
    AskProvider,
    DeliverCallback,
    DeliverQr,
    Intent,
    SubmitToProvider,
)
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.store import Store, StoreUnavailable, Work
from mmo_trio.workers.delivery.callbacks import CallbackWorker
from mmo_trio.workers.delivery.channel_owner import ChannelKeeper
from mmo_trio.workers.delivery.qr_codes import QrWorker
from mmo_trio.workers.providers.worker import ProviderWorker

logger = structlog.get_logger(__name__)

OFFER_AGAIN_S = 0.5
"""How long what didn't fit waits before it is offered again."""

OFFERS = 512
"""How much is offered in one go; in between others get their turn."""

Lane: TypeAlias = tuple[str, str]
"""What waits for the same: a provider's submissions, a merchant's callbacks, a merchant's QR codes."""


@define(eq=False)
class Dispatcher:
    """Knows all workers. What waits is kept as references only, so a long queue costs little memory."""

    store: Store
    providers: ProviderWorker
    callbacks: CallbackWorker | ChannelKeeper
    """Where several processes share the store, who holds channels there."""
    qr_codes: QrWorker
    _waiting: dict[Lane, deque[Intent]] = Factory(dict)
    """Never an empty one."""

    def act(self, intent: Intent, transaction: Transaction) -> None:
        """Hand over an intent that has just become durable."""
        self.hand_over(Work(intent, transaction))

    def hand_over(self, work: Work) -> None:
        """Hand over work; what its worker can't take now waits here, behind what waits for the same. A question
        never waits: it is asked again at its time."""
        lane = _lane(work)
        must_queue = lane in self._waiting and not isinstance(work.intent, AskProvider)
        if must_queue or not self._taken(work):
            self._waiting.setdefault(lane, deque()).append(work.intent)

    def has_room(self) -> bool:
        """Whether more of what others have left can be taken on."""
        return not self._waiting

    async def run(self) -> None:
        """Offer again what waits, until cancelled."""
        while True:
            await trio.sleep(OFFER_AGAIN_S)
            try:
                for lane in tuple(self._waiting):
                    await self._offer_again(lane)
            except StoreUnavailable as error:
                logger.warning("waiting work can't be read", error=str(error))

    async def _offer_again(self, lane: Lane) -> None:
        """Offer one after the other, until one isn't taken: who had no room for it has none for the next."""
        waiting = self._waiting[lane]
        for _ in range(min(OFFERS, len(waiting))):
            intent = waiting[0]
            transaction = await self.store.transaction(intent.gateway_reference)
            if transaction is not None and not self._taken(Work(intent, transaction)):
                return
            waiting.popleft()
        if not waiting:
            del self._waiting[lane]

    def _taken(self, work: Work) -> bool:
        match work.intent:
            case SubmitToProvider() | AskProvider():
                return self.providers.take_nowait(work)
            case DeliverCallback():
                return self.callbacks.take(work)
            case DeliverQr():
                return self.qr_codes.take(work)
            case _:
                assert_never(work.intent)


def _lane(work: Work) -> Lane:
    order = work.transaction.order
    match work.intent:
        case SubmitToProvider() | AskProvider():
            return "provider", order.provider
        case DeliverCallback():
            return "brand", order.brand
        case DeliverQr():
            return "qr", order.brand
        case _:
            assert_never(work.intent)

"""Bugs of the delivery of callbacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import trio
from attrs import evolve

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.inputs import CallbackConcluded
from mmo_sansio.resilience.circuit_breaker import CircuitBreaker
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.workers.channel_owner import ChannelOwner, OwnedChannels
from mmo_trio.workers.deliveries import CallbackWorker, DeliveryPool, fence_of
from tests.support.ownership_model import OwnershipModel


@contextmanager
def drain_drops_callbacks() -> Iterator[None]:
    """A process that drains does not wait for deliveries, and records them as delivered."""
    process, run = CallbackWorker._process, DeliveryPool.run

    async def run_without_grace(self: DeliveryPool, **arguments: Any) -> None:
        await run(self, **arguments, grace_s=0.0)

    async def process_or_drop(self: CallbackWorker, work: WorkItem) -> None:
        try:
            await process(self, work)
        except trio.Cancelled:
            url = work.transaction.order.result_url or ""
            dropped = DeliveryAttempt(DeliveryOutcome.DELIVERED, url, 204)
            with trio.CancelScope(shield=True), trio.move_on_after(5):
                await self._record_outcome(
                    CallbackConcluded(work.transaction.reference, dropped, fence_of(work))
                )
            raise

    with (
        patch.object(CallbackWorker, "_process", process_or_drop),
        patch.object(DeliveryPool, "run", run_without_grace),
    ):
        yield


def claim_without_a_fence() -> AbstractContextManager[object]:
    """A channel is given to whoever asks, also while another process owns it."""
    claim = OwnershipModel.claim

    def claim_anyway(self: OwnershipModel, holder: int, brands: Any, *, known: Any = None) -> Any:
        for brand in brands:
            if brand in self._channels:
                self._channels[brand] = evolve(self._channels[brand], holder=None)
        return claim(self, holder, brands, known=known)

    return patch.object(OwnershipModel, "claim", claim_anyway)


def expired_lease_renewed() -> AbstractContextManager[object]:
    """A process whose lease was ended goes on with its channels once it has another lease."""
    return patch.object(ChannelOwner, "_drop_channels", lambda self: None)


def half_claimed_channels_trusted() -> AbstractContextManager[object]:
    """A process that does not know the outcome of a claim goes on as if it had failed."""
    return patch.object(ChannelOwner, "_distrust_channels", lambda self: None)


def callback_sent_twice() -> AbstractContextManager[object]:
    """Each callback is sent once more, whatever the answer."""
    attempt = CallbackWorker._attempt

    async def attempt_twice(self: CallbackWorker, transaction: Transaction, fence: int) -> Any:
        await attempt(self, transaction, fence)
        return await attempt(self, transaction, fence)

    return patch.object(CallbackWorker, "_attempt", attempt_twice)


def outcome_recorded_before_it_is_known() -> AbstractContextManager[object]:
    """Every callback is recorded as delivered."""
    limit_body = CallbackWorker._limit_body

    def limit_and_deliver(
        self: CallbackWorker, brand: str, attempt: DeliveryAttempt
    ) -> DeliveryAttempt:
        return evolve(limit_body(self, brand, attempt), outcome=DeliveryOutcome.DELIVERED)

    return patch.object(CallbackWorker, "_limit_body", limit_and_deliver)


def sent_without_looking_again() -> AbstractContextManager[object]:
    """A process does not check before it sends that it still owns the channel."""
    return patch.object(OwnedChannels, "owns", lambda self, brand, fence: True)


def breaker_of_each_process() -> AbstractContextManager[object]:
    """A process that takes over a channel begins with a new breaker."""
    return patch.object(CallbackWorker, "load_breaker", lambda self, brand, snapshot: None)


def breaker_that_stays_closed() -> AbstractContextManager[object]:
    """No breaker ever opens."""
    return patch.object(CircuitBreaker, "_is_failing", lambda self: False)

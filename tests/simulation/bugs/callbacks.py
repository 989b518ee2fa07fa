"""Bugs of the delivery of callbacks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from attrs import evolve

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.resilience.circuit_breaker import INITIAL_SNAPSHOT, CircuitBreaker
from mmo_sansio.resilience.ownership import Channel
from mmo_sansio.values.model import Transaction
from mmo_trio.workers.deliveries import CallbackWorker
from tests.support.ownership_model import OwnershipModel


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


def breaker_that_stays_closed() -> AbstractContextManager[object]:
    """No breaker ever opens."""
    return patch.object(CircuitBreaker, "_is_failing", lambda self: False)


@contextmanager
def channel_of_every_process() -> Iterator[None]:
    """Each process owns the channel of each merchant."""

    def claim(
        self: OwnershipModel, holder: int, brands: Collection[str], *, known: Any = None
    ) -> Sequence[Channel]:
        return [
            Channel(brand, 1, INITIAL_SNAPSHOT) for brand in brands if brand not in (known or {})
        ]

    with (
        patch.object(OwnershipModel, "claim", claim),
        patch.object(OwnershipModel, "fence", lambda self, holder, brand: 1),
    ):
        yield

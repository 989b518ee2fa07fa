"""Provides a callback worker with work, API keys, merchants' servers and recorded outcomes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import CallbackConcluded
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.resilience.circuit_breaker import BreakerSettings
from mmo_sansio.testing import a_transaction, numbered_reference
from mmo_sansio.values.clock import Instant, MonotonicInstant
from mmo_sansio.values.model import Order, Stage
from mmo_trio.brands.delivery_key import NO_API_KEY, DeliveryRefused
from mmo_trio.http.client.client import HttpClient, MaySend
from mmo_trio.storage.interface.store import StoreUnavailable, WorkItem
from mmo_trio.workers.deliveries import CallbackWorker, SendCallback
from tests.support.hostile_receivers import PRIVATE, FixedResolver, trusting_context


def work_for(brand: str, number: int, url: str = "https://merchant.example/callbacks") -> WorkItem:
    """Return the work of one callback of this brand; the number determines its reference."""
    transaction = a_transaction(
        Stage.SUCCEEDED, gateway_reference=numbered_reference(number), brand=brand, result_url=url
    )
    return WorkItem(DeliverCallback(transaction.reference), transaction)


def trio_clock() -> Instant:
    """Trio's time in microseconds: the tests' time, whatever kind it is."""
    return Instant(round(trio.current_time() * 1_000_000))


def monotonic_of_trio() -> MonotonicInstant:
    """The same, as a monotonic clock gives it."""
    return MonotonicInstant(trio_clock())


@define(eq=False)
class DeliveryRecords:
    """Provides API keys and records outcomes; recording may fail for a while."""

    keys: dict[str, bytes | None] = field(factory=dict)
    """The keys by brand, where they are not `key of BRAND`."""
    failures_left: int = 0
    """The number of failures before recording succeeds."""
    error: type[Exception] = StoreUnavailable
    """The type of those failures."""
    undecidable: frozenset[str] = frozenset()
    """The gatewayReferences of callbacks whose outcome can never be recorded."""
    recorded: dict[str, DeliveryAttempt] = field(factory=dict)
    """The attempts by gatewayReference."""
    _changed: trio.Event = field(factory=trio.Event)

    async def find_key(self, order: Order, url: str) -> bytes | DeliveryRefused:
        await trio.lowlevel.checkpoint()
        return self.keys.get(order.brand, f"key of {order.brand}".encode()) or NO_API_KEY

    async def record(self, concluded: CallbackConcluded) -> None:
        await trio.lowlevel.checkpoint()
        if concluded.gateway_reference in self.undecidable:
            raise RuntimeError("this one can't be decided")
        if self.failures_left:
            self.failures_left -= 1
            raise self.error("closed for a while")
        assert concluded.gateway_reference not in self.recorded, "concluded twice"
        self.recorded[concluded.gateway_reference] = concluded.attempt
        self._changed.set()
        self._changed = trio.Event()

    async def outcomes(self, *numbers: int) -> list[DeliveryOutcome]:
        """Return the outcomes of the callbacks with these numbers, once all are recorded."""
        references = [numbered_reference(number) for number in numbers]
        with trio.fail_after(60):
            while not all(each in self.recorded for each in references):
                await self._changed.wait()
        return [self.recorded[each].outcome for each in references]


def delivery_client(rules: EgressRules = PRIVATE, *, address: str = "127.0.0.1") -> HttpClient:
    """Return the real client; every host name has this address."""
    return HttpClient(rules=rules, context=trusting_context(), resolver=FixedResolver([address]))


@define(eq=False)
class MerchantServers:
    """Replaces merchants' servers without sockets, with an outcome and a delay for each brand."""

    answers: dict[str, tuple[DeliveryOutcome, float]] = field(factory=dict)
    """Outcome and duration in seconds by brand; others are delivered at once."""
    sent: list[tuple[str, HttpRequest]] = field(factory=list)

    async def deliver(
        self, request: HttpRequest, *, brand: str, may_send: MaySend
    ) -> DeliveryAttempt:
        brand = (request.value(b"x-api-key") or b"").decode().removeprefix("key of ")
        self.sent.append((brand, request))
        outcome, after_s = self.answers.get(brand, (DeliveryOutcome.DELIVERED, 0.0))
        await trio.sleep(after_s)
        return DeliveryAttempt(outcome, request.target.decode())

    def times_sent(self, brand: str) -> int:
        return sum(1 for each, _ in self.sent if each == brand)


def callback_worker(
    records: DeliveryRecords, deliver: SendCallback, **settings: Any
) -> CallbackWorker:
    """Return a worker between these; settings replace what it is made with."""
    made: dict[str, Any] = {
        "deliver": deliver,
        "find_key": records.find_key,
        "record_outcome": records.record,
        "own_time": trio_clock,
        "monotonic": monotonic_of_trio,
        "breaker": BreakerSettings(),
    }
    return CallbackWorker(**{**made, **settings})


@asynccontextmanager
async def running_worker(
    records: DeliveryRecords, deliver: SendCallback, **settings: Any
) -> AsyncIterator[CallbackWorker]:
    """Run a worker during the block; active deliveries are cancelled at its end."""
    worker = callback_worker(records, deliver, **settings)
    async with trio.open_nursery() as nursery:
        await nursery.start(
            lambda task_status: worker.run(drain=trio.Event(), task_status=task_status)
        )
        yield worker
        nursery.cancel_scope.cancel()

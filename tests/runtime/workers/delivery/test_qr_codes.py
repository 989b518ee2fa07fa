"""The QR worker delivers codes to merchants; the delivery is simulated (Q1)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
from attrs import evolve
from trio.testing import MockClock

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import QrConcluded
from mmo_sansio.messages.intents import DeliverQr
from mmo_sansio.testing import a_transaction, an_attempt, numbered_reference
from mmo_sansio.values.model import Flow, Order, QrCode, Stage, Transaction
from mmo_trio.brands.delivery_key import NO_API_KEY, DeliveryRefused
from mmo_trio.storage.interface.store import StoreUnavailable, WorkItem
from mmo_trio.workers.deliveries import QR_ACTIVE_PER_BRAND_MAX, QrWorker

CODE = QrCode(image="iVBORw0KGgo=")


def shown(number: int = 0, stage: Stage = Stage.AWAITING_RESULT, **members: object) -> WorkItem:
    made = a_transaction(
        stage, flow=Flow.QR, display_qr_url="https://acme.example/qr", **{"qr": CODE, **members}
    )
    order = evolve(made.order, gateway_reference=numbered_reference(number))
    transaction = Transaction(order, made.progress)
    return WorkItem(DeliverQr(transaction.reference), transaction)


class World:
    """Records the sent requests and the recorded outcomes; `play` may be replaced."""

    def __init__(self) -> None:
        self.sent: list[HttpRequest] = []
        self.recorded: list[QrConcluded] = []
        self.key: bytes | None = b"a-key"
        self.play: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        self.failures_left = 0
        self.worker = QrWorker(
            deliver=self.deliver, find_key=self.find_key, record_outcome=self.record
        )

    async def deliver(self, request: HttpRequest, *, brand: str) -> DeliveryAttempt:
        self.sent.append(request)
        await self.play()
        return an_attempt()

    async def find_key(self, order: Order, url: str) -> bytes | DeliveryRefused:
        await trio.lowlevel.checkpoint()
        return self.key or NO_API_KEY

    async def record(self, concluded: QrConcluded) -> None:
        await trio.lowlevel.checkpoint()
        if self.failures_left:
            self.failures_left -= 1
            raise StoreUnavailable
        self.recorded.append(concluded)

    async def run(self, *works: WorkItem, seconds: float = 60) -> None:
        """Give this work to the worker and run it for this long."""
        drain = trio.Event()
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(self.worker.run, drain=drain))
            assert all(self.worker.try_enqueue(each) for each in works)
            await trio.sleep(seconds)
            drain.set()


@pytest.mark.spec("Q1")
async def test_what_is_taken_twice_is_sent_once_and_recorded_although_the_store_was_away(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.failures_left = 3
    await world.run(shown(), shown())
    (request,), (recorded,) = world.sent, world.recorded
    assert json.loads(request.body)["qrImage"] == CODE.image
    assert recorded.attempt.outcome is DeliveryOutcome.DELIVERED


@pytest.mark.spec("Q1")
@pytest.mark.parametrize(
    ("work", "key", "why"),
    [
        (shown(qr=None), b"k", "The provider gave no code"),
        (shown(stage=Stage.SUCCEEDED), b"k", "The payment had ended"),
        (shown(), None, "The brand has no API key in use"),
    ],
    ids=["no code", "ended", "no key"],
)
async def test_what_cant_be_sent_is_recorded_with_its_reason(
    autojump_clock: MockClock, work: WorkItem, key: bytes | None, why: str
) -> None:
    world = World()
    world.key = key
    await world.run(work)
    assert world.sent == []
    (recorded,) = world.recorded
    assert recorded.attempt.outcome is DeliveryOutcome.TRANSPORT_ERROR
    assert why in recorded.attempt.detail


@pytest.mark.spec("Q1")
async def test_a_merchant_that_hangs_holds_its_own_places_only(autojump_clock: MockClock) -> None:
    world = World()
    world.play = trio.sleep_forever
    hanging = [shown(number) for number in range(3 * QR_ACTIVE_PER_BRAND_MAX)]
    other = shown(999)
    transaction = evolve(other.transaction, order=evolve(other.transaction.order, brand="other"))
    await world.run(*hanging, WorkItem(other.intent, transaction), seconds=1)
    assert len(world.sent) <= QR_ACTIVE_PER_BRAND_MAX + 1
    references = [json.loads(each.body)["gatewayReference"] for each in world.sent]
    assert numbered_reference(999) in references
    assert world.recorded == []


@pytest.mark.spec("Q1")
async def test_a_fault_of_ours_while_a_code_is_sent_ends_its_attempt_and_no_other(
    autojump_clock: MockClock,
) -> None:
    world = World()
    faults = [ZeroDivisionError()]

    async def fails_once() -> None:
        await trio.lowlevel.checkpoint()
        if faults:
            raise faults.pop()

    world.play = fails_once
    await world.run(shown(1), shown(2))
    assert {each.gateway_reference for each in world.recorded} == {
        numbered_reference(1),
        numbered_reference(2),
    }
    assert (
        sum(each.attempt.outcome is DeliveryOutcome.TRANSPORT_ERROR for each in world.recorded) == 1
    )
    assert len(world.sent) == 2
    assert not world.worker.try_enqueue(shown(3)), "it has drained"

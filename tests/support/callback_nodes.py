"""Runs several nodes on one store, each with an engine, a callback worker and a channel owner, in
Trio's time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
import trio.testing
from attrs import define, field

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.resilience.circuit_breaker import BreakerSettings
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, MonotonicInstant, later
from mmo_sansio.values.model import Order
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.http.client.client import MaySend, SendForbidden
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.workers.channel_owner import ChannelOwner, OwnedChannels
from mmo_trio.workers.deliveries import CallbackWorker, owns_every_channel
from tests.conformance.inputs import creation, reference, succeeded
from tests.support.callback_work import monotonic_of_trio


class TrioClock(GatewayClock):
    """Starts in 2023 and follows Trio's time; nodes may share it."""

    def raw_wall_time(self) -> Instant:
        return Instant(1_700_000_000 * clock.SECOND + self.monotonic())

    def monotonic(self) -> MonotonicInstant:
        return later(monotonic_of_trio(), self.offset)


@define(eq=False)
class Receiver:
    """Records the callbacks to a merchant's server, with sender and time."""

    answers: DeliveryOutcome = DeliveryOutcome.DELIVERED
    connecting_s: float = 0.0
    """Seconds until the request is sent."""
    answering_s: float = 0.0
    """Seconds from then until the answer."""
    sent: list[tuple[str, str, float]] = field(factory=list)
    """Tuples of node, gatewayReference and Trio's time."""

    def references_from(self, node: str) -> list[str]:
        return [reference for sender, reference, _ in self.sent if sender == node]


@define(eq=False)
class Node:
    """Represents one process of a gateway."""

    name: str
    store: Store
    receiver: Receiver
    time: GatewayClock = field(factory=TrioClock)
    drain: trio.Event = field(factory=trio.Event)
    callbacks: CallbackWorker = field(init=False)
    channel_owner: ChannelOwner | None = field(init=False)
    engine: Engine = field(init=False)
    channel_owner_scope: trio.CancelScope = field(factory=trio.CancelScope)
    """To cancel it stops the channel owner: no renewals and no queries."""

    def __attrs_post_init__(self) -> None:
        outbox = Outbox()
        outbox.subscribe(self._act)
        self.engine = Engine(self.store, self.time, outbox)
        channels = self.store.ownership
        owned = OwnedChannels(monotonic_of_trio)
        self.callbacks = CallbackWorker(
            deliver=self._deliver,
            find_key=self._key_for,
            record_outcome=self.engine.submit,
            own_time=self.time.own_time,
            monotonic=self.time.monotonic,
            breaker=BreakerSettings(),
            owns_channel=owns_every_channel if channels is None else owned.owns,
        )
        self.channel_owner = (
            None if channels is None else ChannelOwner(channels, self.callbacks, owned)
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run like the service until it is drained, or cancelled as by kill -9."""
        if self.channel_owner is None:
            for brand, snapshot in (await self.store.breakers()).items():
                self.callbacks.load_breaker(brand, snapshot)
        async with trio.open_nursery() as engine:
            await engine.start(self.engine.run)
            ended = trio.Event()
            async with trio.open_nursery() as workers:
                workers.start_soon(self._run_callbacks, ended)
                if self.channel_owner is not None:
                    workers.start_soon(self._run_channel_owner, ended)
                task_status.started()
            engine.cancel_scope.cancel()

    async def pay(self, number: int, *, of: str = "acme") -> None:
        """Bring a payment to its success on this node."""
        await self.engine.submit(creation(number, brand_id=of))
        await self.engine.submit(BeginSubmission(reference(number)))
        await self.engine.submit(succeeded(number))

    async def _run_callbacks(self, ended: trio.Event) -> None:
        await self.callbacks.run(drain=self.drain)
        ended.set()

    async def _run_channel_owner(self, ended: trio.Event) -> None:
        assert self.channel_owner is not None
        with self.channel_owner_scope:
            await self.channel_owner.run(drain=self.drain, callbacks_ended=ended)

    def _act(self, work: WorkItem) -> None:
        if isinstance(work.intent, DeliverCallback):
            (self.channel_owner or self.callbacks).try_enqueue(work)

    async def _deliver(
        self, request: HttpRequest, *, brand: str, may_send: MaySend
    ) -> DeliveryAttempt:
        await trio.sleep(self.receiver.connecting_s)
        if not may_send():
            raise SendForbidden
        reference = request.body.partition(b'"gatewayReference":"')[2].partition(b'"')[0].decode()
        self.receiver.sent.append((self.name, reference, trio.current_time()))
        await trio.sleep(self.receiver.answering_s)
        return DeliveryAttempt(self.receiver.answers, request.target.decode())

    async def _key_for(self, order: Order, url: str) -> bytes:
        return b"key"


@asynccontextmanager
async def running_nodes(*nodes: Node) -> AsyncIterator[dict[str, trio.CancelScope]]:
    """Run these nodes during the block; to cancel a scope kills its node."""
    async with trio.open_nursery() as nursery:
        scopes = {node.name: trio.CancelScope() for node in nodes}

        async def run(node: Node, *, task_status: trio.TaskStatus[None]) -> None:
            with scopes[node.name]:
                await node.run(task_status=task_status)

        for node in nodes:
            await nursery.start(run, node)
        await (
            trio.testing.wait_all_tasks_blocked()
        )  # Each has looked for channels once, and found none.
        yield scopes
        nursery.cancel_scope.cancel()


async def recorded_outcomes(store: Store, *numbers: int) -> dict[int, DeliveryOutcome]:
    """Return the outcomes of these payments' callbacks, once each is recorded exactly once."""
    numbers_by_reference = {reference(number): number for number in numbers}
    with trio.fail_after(200):
        while True:
            every = await store.admin.callbacks(limit=10_000)
            found = [each for each in every if each.gateway_reference in numbers_by_reference]
            if {each.gateway_reference for each in found} == numbers_by_reference.keys():
                break
            await trio.sleep(0.05)
    assert len(found) == len(numbers_by_reference), "recorded twice"
    return {numbers_by_reference[each.gateway_reference]: each.attempt.outcome for each in found}

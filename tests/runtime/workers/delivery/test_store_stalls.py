"""A store that stands still for seconds while no process dies: each callback is sent, and none
twice (K3, P5)."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection
from enum import Enum
from random import Random

import pytest
import trio
from attrs import Factory, define
from trio.testing import MockClock

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.sql.store import Store
from tests.conformance.inputs import reference
from tests.simulation.stores.simulated_run import at_once, quiet_server
from tests.support.callback_nodes import Node, Receiver, recorded_outcomes, running_nodes
from tests.support.effort import by_effort

pytestmark = pytest.mark.long

OWNERSHIP_CALLS = ("renew_lease", "counts", "claim", "find_callbacks", "release")
CALLS_BY_TABLE = {
    "transactions": ("transact", "find_callbacks"),
    "intents": ("transact", "claim", "find_callbacks"),
    "channels": ("transact", "counts", "claim", "find_callbacks", "release"),
    "holders": ("renew_lease", "counts", "claim", "find_callbacks"),
    "batches": ("transact",),
    "everything": ("transact", *OWNERSHIP_CALLS),
}
"""The calls that stand still while a table is locked, or the server is paused."""
CALL_TIMEOUT_S = 2.0
"""After which a call about channels is given up, with an outcome that nobody knows."""
COMMIT_TIMEOUT_S = 10.0
MERCHANTS = ("acme", "globex", "initech")
PAYMENTS_PER_S = 10
OWNED_FOR_S = 25
"""Seconds before the standstill: long enough that owners take callbacks at once from their own
commits."""


class GivenUp(Enum):
    """What becomes of a statement whose caller has given up."""

    DONE = "it takes effect once the store goes on"
    CANCELLED = "it never takes effect"


@define(eq=False)
class StallingStore:
    """Lets calls of one node's store stand still for a while."""

    store: Store
    nursery: trio.Nursery
    random: Random
    calls: Collection[str] = ()
    ends_at: float = -math.inf
    _originals: dict[str, Callable[..., Awaitable[object]]] = Factory(dict)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("transact", *OWNERSHIP_CALLS):
            owner = self.store if name == "transact" else self.store.ownership
            self._originals[name] = getattr(owner, name)
            patch.setattr(owner, name, self._stalling(name))

    def _stalling(self, name: str) -> Callable[..., Awaitable[object]]:
        timeout_s = COMMIT_TIMEOUT_S if name == "transact" else CALL_TIMEOUT_S

        async def call(*positional: object, **named: object) -> object:
            original = self._originals[name]
            if name in self.calls:
                with trio.move_on_after(timeout_s):
                    await trio.sleep_until(self.ends_at)
                if trio.current_time() < self.ends_at:
                    if name == "transact":
                        raise StoreUnavailable("the store stands still")
                    if self.random.choice([*GivenUp]) is GivenUp.DONE:
                        self.nursery.start_soon(self._take_effect_late, original, positional, named)
                    raise OutcomeUnknown("the store stands still")
            return await original(*positional, **named)

        return call

    async def _take_effect_late(
        self,
        original: Callable[..., Awaitable[object]],
        positional: tuple[object, ...],
        named: dict[str, object],
    ) -> None:
        await trio.sleep_until(self.ends_at + self.random.choice([0.0, 0.01, 0.4]))
        await original(*positional, **named)


@pytest.mark.spec("K3", "P5")
@pytest.mark.parametrize("table", CALLS_BY_TABLE)
@pytest.mark.parametrize("stall_s", by_effort([9], [*range(1, 10), 30]))
async def test_no_callback_is_sent_twice_though_the_store_stands_still(
    table: str, stall_s: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, receiver = quiet_server(), Receiver(answering_s=0.4)
    nodes = [Node(name, at_once(server, name), receiver) for name in ("one", "other")]
    numbers = iter(range(100_000))

    async def pay_for(seconds: float) -> None:
        for _ in range(round(seconds * PAYMENTS_PER_S)):
            number = next(numbers)
            pending.start_soon(pay, number)
            await trio.sleep(1 / PAYMENTS_PER_S)

    async def pay(number: int) -> None:
        for attempt in range(10):
            try:
                await nodes[number % 2].pay(10 * number + attempt, of=MERCHANTS[number % 3])
            except (StoreUnavailable, OutcomeUnknown):
                continue
            paid.append(10 * number + attempt)
            return

    paid: list[int] = []
    async with trio.open_nursery() as nursery, running_nodes(*nodes):
        stores = []
        for nth, node in enumerate(nodes):
            stores.append(StallingStore(node.store, nursery, Random(stall_s + nth)))
            stores[-1].install(monkeypatch)
        async with trio.open_nursery() as pending:
            await pay_for(OWNED_FOR_S)
            for each in stores:
                each.calls, each.ends_at = CALLS_BY_TABLE[table], trio.current_time() + stall_s
            await pay_for(stall_s)
            for each in stores:
                each.calls = ()
            await pay_for(3)
        outcomes = await recorded_outcomes(nodes[0].store, *paid)
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert len(paid) >= OWNED_FOR_S * PAYMENTS_PER_S
    assert set(outcomes.values()) == {DeliveryOutcome.DELIVERED}
    assert sorted(sent for _, sent, _ in receiver.sent) == sorted(map(reference, paid))

"""A machine whose wall clock is wrong joins the others by the server's clock (S3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from attrs import evolve

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.messages.replies import Rejected
from mmo_sansio.values.clock import DAY, MINUTE, SECOND, Instant, Span, later
from mmo_trio.engine.engine import Engine, Outbox, continue_clock
from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.postgres import PostgresStore, open_postgres
from mmo_trio.system.clock import GatewayClock
from mmo_trio.workers.clock_monitor import compare_with_store, require_right_clock
from tests.conformance.inputs import creation, reference, succeeded


class WrongClock(GatewayClock):
    """Shows a time far ahead, by default four days, as the clock of a machine that has just been
    started."""

    def __init__(self, ahead: Span = Span(4 * DAY)) -> None:
        super().__init__()
        self._ahead = ahead

    def raw_wall_time(self) -> Instant:
        return later(GatewayClock.raw_wall_time(self), self._ahead)


@pytest.mark.spec("S3")
async def test_a_new_machine_with_a_wrong_clock_has_the_time_of_the_others(database: str) -> None:
    async with open_postgres(database, serving=True) as store:
        first, joining = GatewayClock(), WrongClock()
        await store.save_clock_record(evolve(first.record(), boot_id="another machine"))
        await continue_clock(joining, store)
        assert abs(joining.own_time() - first.own_time()) < 10 * SECOND
        assert joining.wall_time() - first.wall_time() > 3 * DAY


@asynccontextmanager
async def engines(*pairs: tuple[PostgresStore, GatewayClock]) -> AsyncIterator[list[Engine]]:
    """Run an engine on each of these stores, by its machine's clock."""
    async with trio.open_nursery() as nursery:
        found = [Engine(store, clock, Outbox()) for store, clock in pairs]
        for each in found:
            each.outbox.subscribe(lambda _: None)
            await nursery.start(each.run)
        yield found
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S3", "C12", "T2")
@pytest.mark.parametrize("ahead", [Span(4 * DAY), Span(20 * MINUTE)], ids=["4 d", "20 min"])
async def test_a_wrong_clock_beside_a_right_one_ends_nothing_and_leaves_nothing_behind(
    database: str, ahead: Span
) -> None:
    async with (
        open_postgres(database, serving=True) as one,
        open_postgres(database, serving=True) as other,
    ):
        right, wrong = GatewayClock(), WrongClock(ahead)
        await one.save_clock_record(evolve(right.record(), boot_id="another machine"))
        async with engines((one, right), (other, wrong)) as (here, there):
            await here.submit(creation(1))
            assert isinstance(
                await there.submit(creation(2, merchant_reference="order/1 ü")), Rejected
            )
            assert not await other.due(wrong.own_time(), limit=10), "nothing ends early"
            await there.submit(creation(3))
            await here.submit(BeginSubmission(reference(3)))
            await here.submit(succeeded(3))
        ended = await one.transaction(reference(3))
        assert ended is not None
        assert ended.progress.completed_at is not None
        assert ended.progress.completed_at >= ended.order.created_at
        async with engines((one, GatewayClock())) as (again,):
            await again.submit(creation(4))
        dated = await one.transaction(reference(4))
        assert dated is not None
        assert abs(dated.order.created_at - GatewayClock().wall_time()) < 10 * SECOND


@pytest.mark.spec("S3")
async def test_a_machine_whose_clock_differs_from_the_servers_does_not_begin_to_serve(
    database: str,
) -> None:
    async with open_postgres(database, serving=True) as store:
        await require_right_clock(GatewayClock(), store)
        for ahead, side in (
            (Span(4 * DAY), "345600 s ahead of"),
            (Span(-20 * MINUTE), "1200 s behind"),
        ):
            with pytest.raises(
                StoreUnusable, match=f"this machine's clock is {side} the clock of the database"
            ):
                await require_right_clock(WrongClock(ahead), store)
        await store.save_clock_record(evolve(WrongClock().record(), boot_id="machine 1"))
        await require_right_clock(
            WrongClock(), store
        )  # Its neighbour says the same: the server's may be wrong.
        await store.save_clock_record(evolve(GatewayClock().record(), boot_id="machine 2"))
        found = await compare_with_store(WrongClock(), store)
        assert found is not None
        assert (found.agreeing, found.differing) == (1, 1)
        with pytest.raises(StoreUnusable):
            await require_right_clock(WrongClock(), store)

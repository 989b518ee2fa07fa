"""A machine whose wall clock is wrong joins the others by the server's clock (S3)."""

from __future__ import annotations

import pytest
from attrs import evolve

from mmo_sansio.values.clock import DAY, SECOND, Instant, Span, later
from mmo_trio.engine.clock_continuity import continue_clock
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.system.clock import GatewayClock


class WrongClock(GatewayClock):
    """Shows a time four days ahead, as the clock of a machine that has just been started."""

    def wall(self) -> Instant:
        return later(GatewayClock.wall(self), Span(4 * DAY))


@pytest.mark.spec("S3")
@pytest.mark.finding("hostile-F1")
async def test_a_new_machine_with_a_wrong_clock_has_the_time_of_the_others(database: str) -> None:
    async with open_postgres(database, serving=True) as store:
        first, joining = GatewayClock(), WrongClock()
        await store.save_clock_record(evolve(first.record(), boot_id="another machine"))
        await continue_clock(joining, store)
        assert abs(joining.time() - first.time()) < 10 * SECOND
        assert joining.now() - first.now() > 3 * DAY

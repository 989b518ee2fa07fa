"""Work that is claimed ends: by a conclusion, by another attempt after a pause, or as a durable intent.

A program finds the places where the workers wait for the store, the engine, an operator or a merchant, and plants each
kind of fault at each of them. A day later nothing is claimed, due or undone, and nothing was sent twice.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from mmo_trio.workers.providers.worker import TRIES_IN_PLACE
from tests.support.planted_faults import UNANSWERED, Fault, Planter, World

PLACES_MIN = 35
"""The program finds these at least; fewer mean that it does not look everywhere."""


async def what_is_wrong(directory: Path, clock: MockClock, planter: Planter) -> list[str]:
    """Let a world pass in which this is planted, and return what is left of it after a day, or was done twice."""
    world = World(directory / f"{trio.current_time()}.db", planter, clock)
    await world.play()
    if planter.is_ending.is_set():
        planter.is_ending = trio.Event()
        await world.rest()
    wrong = [f"{name} of the last process: {left}" for name, left in world.life.claimed().items()]
    with sqlite3.connect(world.path) as file:
        for what, statement in LEFT.items():
            wrong += [f"{what}: {row}" for row in file.execute(statement)]
    wrong += [f"paid {times} times: {reference}" for reference, times in world.arrived.items() if times > 1]
    dies_between = planter.fault in (Fault.CANCELLED, Fault.CANCELLED_DONE)
    wrong += [f"called back {times} times" for times in world.sent.values() if times > 1 + dies_between]
    return wrong


LEFT = {
    "an intent": "SELECT kind, gateway_reference FROM intents",
    "a payment": "SELECT gateway_reference, wake_at FROM transactions WHERE wake_at IS NOT NULL",
    "a claim": "SELECT receipt, wake_at FROM deposit_claims WHERE wake_at IS NOT NULL",
    "a payment that was not called back": "SELECT gateway_reference FROM transactions"
    " WHERE gateway_reference NOT IN (SELECT gateway_reference FROM callbacks)",
    "a payment that failed": "SELECT gateway_reference FROM transactions"
    f" WHERE status = 'failed' AND gateway_reference <> '{UNANSWERED}'",
}
"""Finds what is due or undone in a store, and what nobody did in time."""


@pytest.mark.spec("S3", "S6", "K3")
@pytest.mark.finding("rules-3", "rules-5", "rules-6", "rules-8", "rules-9", "rules-12")
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
async def test_wherever_a_fault_is_planted_nothing_is_claimed_due_or_undone_a_day_later(
    fault: Fault, tmp_path: Path, mock_clock: MockClock
) -> None:
    with capture_logs():
        faultless = Planter()
        assert await what_is_wrong(tmp_path, mock_clock, faultless) == []
        places = sorted(faultless.places)
        assert len(places) >= PLACES_MIN, places
        wrong: dict[str, list[str]] = {}
        for place in places:
            times = TRIES_IN_PLACE + 2 if fault is Fault.UNDECIDED else 1
            planter = Planter(place, fault, left=times)
            if found := await what_is_wrong(tmp_path, mock_clock, planter):
                wrong[place] = found
            assert planter.left < times, f"nothing was planted: {place}"
    print(f"{fault.value}: planted at {len(places)} places: {', '.join(places)}")
    assert wrong == {}

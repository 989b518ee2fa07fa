"""Worlds in which a backup is restored: no judge finds a violation, and each finds the bug that it
is for."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from attrs import define

from mmo_sansio.resilience.store_mark import Recognition
from mmo_trio.console.context import ConsoleContext
from mmo_trio.service import store_recognition
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.worker import ProviderWorker
from tests.simulation.clocks.machine_clock import MachineGatewayClock
from tests.simulation.restored_worlds import (
    MarkFate,
    RestoredStore,
    draw_restoration,
    play_restored,
    restored_plan,
)
from tests.support.effort import by_effort

pytestmark = pytest.mark.long

SEEDS = by_effort(3, 50)
"""How many worlds are played."""
SEARCHED = 12


@define(eq=False)
class _Unprepared(RestoredStore):
    """A restored store that is served as it is."""

    async def prepare(self, store: Store, clock: MachineGatewayClock) -> None:
        """Do nothing."""

    async def close_gap(self, console: ConsoleContext) -> None:
        """Do nothing."""


@define(eq=False)
class _KeyLeft(RestoredStore):
    """One whose keys nobody looks at."""

    async def end_key(self, store: Store, clock: MachineGatewayClock) -> None:
        """Do nothing."""


@define(eq=False)
class _GapLeft(RestoredStore):
    """One that is released with its gap."""

    async def close_gap(self, console: ConsoleContext) -> None:
        """Do nothing."""


def _found(violations: list[str]) -> set[str]:
    return {each.partition(":")[0] for each in violations}


@pytest.mark.spec("C6", "C12", "S1", "S5", "S6", "A4")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_restored_backup_does_no_harm_in_any_world(seed: int) -> None:
    assert play_restored(seed)[2] == []


@pytest.mark.parametrize(
    ("judge", "seed"), [("money_is_asked_for_once", 17), ("a_reference_is_one_payment", 17)]
)
def test_a_restored_store_that_is_served_as_it_is_pays_again(judge: str, seed: int) -> None:
    """Submissions have commits of their own here, as where others wait: one that creates and
    submits hides most."""
    with (
        patch.object(store_recognition, "recognise", lambda *_, **__: Recognition.CURRENT),
        patch.object(ProviderWorker, "try_reserve", lambda *_: False),
    ):
        assert judge in _found(play_restored(seed, _Unprepared)[2])


def test_a_store_that_is_served_without_recognition_is_noticed() -> None:
    forgetful = (
        seed
        for seed in range(SEARCHED)
        if (plan := draw_restoration(restored_plan(seed))).forgets_to_prepare
        and plan.mark is MarkFate.KEPT
    )
    with patch.object(store_recognition, "recognise", lambda *_, **__: Recognition.CURRENT):
        assert any(
            "a_restored_store_is_recognised" in _found(play_restored(seed)[2]) for seed in forgetful
        )


def test_a_key_of_the_backup_that_nobody_ends_is_noticed() -> None:
    leaky = (seed for seed in range(SEARCHED) if draw_restoration(restored_plan(seed)).leaks_key)
    assert any("no_retired_key_works" in _found(play_restored(seed, _KeyLeft)[2]) for seed in leaky)


def test_a_gap_that_nobody_closes_is_noticed() -> None:
    assert "a_reference_is_one_payment" in _found(play_restored(1, _GapLeft)[2])

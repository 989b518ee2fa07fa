"""Worlds in which a backup is restored: no judge finds a violation, and each finds the bug that it
is for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import pytest
from attrs import define, evolve

from mmo_sansio.resilience.store_mark import Recognition
from mmo_trio.console.context import ConsoleContext
from mmo_trio.service import store_recognition
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.worker import ProviderWorker
from tests.simulation.clocks.machine_clock import MachineGatewayClock
from tests.simulation.restored_worlds import (
    MarkFate,
    Restoration,
    RestoredStore,
    draw_restoration,
    play_restored,
    restored_plan,
)
from tests.simulation.world.world import run_world
from tests.support.effort import by_effort

pytestmark = pytest.mark.long

SEEDS = by_effort(3, 50)
"""How many worlds are played."""
SEARCHED = 12
WAITING_PAYMENTS = 14
"""Payments of a world while one of which it is backed up."""


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


def test_a_restored_store_that_is_served_as_it_is_makes_payments_again() -> None:
    with _unrecognised():
        assert "a_reference_is_one_payment" in _found(play_restored(17, _Unprepared)[2])


def test_a_restored_store_that_is_served_as_it_is_pays_again() -> None:
    """The backup is made while a payment waits for its submission, and it is submitted from the
    backup, too; the operator refuses some of them as its payer is busy."""
    with _unrecognised():
        assert any(
            "money_is_asked_for_once" in _found(play_restored(0, partial(_backed_up_at, at_s))[2])
            for at_s in _waiting_at(0)
        )


@contextmanager
def _unrecognised() -> Iterator[None]:
    """Take each restored store for the present one. Submissions have commits of their own, as where
    others wait: one that creates and submits hides most."""
    with (
        patch.object(store_recognition, "recognise", lambda *_, **__: Recognition.CURRENT),
        patch.object(ProviderWorker, "try_reserve", lambda *_: False),
    ):
        yield


def _waiting_at(seed: int) -> Iterator[float]:
    """Yield the moments at which the first payments of a world wait for their submissions."""
    world = run_world(restored_plan(seed))
    for stages in islice(world.commits.stages.values(), WAITING_PAYMENTS):
        at_s = {each.input_name: each.at_s for each in stages}
        if at_s.keys() >= {"CreatePayment", "BeginSubmission"}:
            yield (at_s["CreatePayment"] + at_s["BeginSubmission"]) / 2


def _backed_up_at(at_s: float, restoration: Restoration, file: Path) -> RestoredStore:
    """Return a store that is lost and restored soon enough for its payments not to have expired."""
    soon = evolve(restoration, backed_up_at_s=at_s, lost_at_s=at_s + 5, released_after_s=60.0)
    return _Unprepared(soon, file)


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

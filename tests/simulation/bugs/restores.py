"""Bugs of what is done once a backup is restored."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest.mock import patch

import trio
from attrs import evolve

from mmo_sansio.resilience.store_mark import Recognition
from mmo_trio.service import store_recognition
from tests.simulation import restored_worlds
from tests.simulation.restored_worlds import Restoration, RestoredStore
from tests.simulation.world.plan import WorldPlan


async def _do_nothing(*_: object, **__: object) -> int:
    await trio.lowlevel.checkpoint()
    return 0


def restore_not_recognised() -> AbstractContextManager[object]:
    """Each restored store counts as the present one."""
    return patch.object(store_recognition, "recognise", lambda *_, **__: Recognition.CURRENT)


def gap_left() -> AbstractContextManager[object]:
    """Nobody says which references of lost payments are used."""
    return patch.object(RestoredStore, "close_gap", _do_nothing)


def leaked_key_left() -> AbstractContextManager[object]:
    """The keys of the backup are left as they are."""
    return patch.object(RestoredStore, "end_key", _do_nothing)


def brands_never_released() -> AbstractContextManager[object]:
    """Staff never come to release the brands."""
    draw = restored_worlds.draw_restoration

    def draw_endless(plan: WorldPlan) -> Restoration:
        return evolve(draw(plan), released_after_s=2 * plan.lasts_s)

    return patch.object(restored_worlds, "draw_restoration", draw_endless)

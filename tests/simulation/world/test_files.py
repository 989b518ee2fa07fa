"""Worlds of one interpreter follow one another, and share no file that a gateway writes."""

from __future__ import annotations

from mmo_sansio.messages.inputs import ProviderHinted
from mmo_trio.workers.providers.kept_hints import format_hint
from tests.simulation.play import Variant, play
from tests.simulation.world.files import hint_file
from tests.simulation.world.operator_kinds import MPESA


def test_a_world_begins_without_what_one_that_broke_off_has_left() -> None:
    variant = Variant(1, payments=1)
    alone = play(variant)
    hint = ProviderHinted("01KDW28VXFCDF5C7V8FTXZ914F", MPESA, "paid", version=None)
    hint_file().write_bytes(format_hint(hint))

    after_another = play(variant)

    assert after_another.digest == alone.digest
    assert after_another.violations == alone.violations == ()

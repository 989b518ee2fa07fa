"""Worlds in which a backup is restored: no judge finds a violation."""

from __future__ import annotations

import pytest

from tests.simulation.restored_worlds import play_restored
from tests.support.effort import by_effort

pytestmark = pytest.mark.long


@pytest.mark.spec("C6", "C12", "S1", "S5", "S6", "A4")
@pytest.mark.parametrize("seed", range(by_effort(3, 50)))
def test_a_restored_backup_does_no_harm_in_any_world(seed: int) -> None:
    assert play_restored(seed)[2] == []

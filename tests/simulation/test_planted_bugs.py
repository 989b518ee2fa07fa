"""Judges find bugs that are planted: here those that a few small worlds show."""

from __future__ import annotations

import pytest

from tests.simulation.planted_bugs import PLANTED, find

SEEDS = 12


@pytest.mark.parametrize("name", ["retry_doubles_a_submission", "unreachable_taken_for_failure"])
def test_a_planted_bug_is_found(name: str) -> None:
    found = find(PLANTED[name], range(SEEDS))
    assert found is not None
    assert found.violations

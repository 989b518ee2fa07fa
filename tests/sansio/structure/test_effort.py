"""The variable that says how much the tests play has two values."""

from __future__ import annotations

import pytest

from tests.support.effort import QUICK, by_effort, is_quick


def test_either_effort_is_chosen() -> None:
    assert is_quick("quick")
    assert not is_quick("full")
    assert by_effort(1, 2) == (1 if QUICK else 2)


@pytest.mark.parametrize("unknown", ["", "Full", "1"])
def test_an_unknown_effort_is_an_error_that_says_what_there_is(unknown: str) -> None:
    with pytest.raises(ValueError, match=r"MMO_EFFORT is .*Set it to quick or full"):
        is_quick(unknown)

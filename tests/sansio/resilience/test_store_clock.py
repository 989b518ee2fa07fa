"""A machine's wall time is compared with the clock of the store that several machines share
(S3)."""

from __future__ import annotations

import pytest

from mmo_sansio.resilience.clock_guard import (
    DIFFERENCE_MAX,
    NOTABLE_DIFFERENCE,
    StoreClock,
    compare_clocks,
)
from mmo_sansio.values.clock import SECOND, Instant, Span, earlier, later

NOW = Instant(1_700_000_000 * SECOND)


@pytest.mark.spec("S3")
def test_what_it_takes_to_ask_is_no_difference() -> None:
    store = StoreClock(NOW)
    assert compare_clocks(store, before=earlier(NOW, SECOND), after=later(NOW, SECOND)).ahead == 0
    assert compare_clocks(store, before=later(NOW, Span(3)), after=later(NOW, SECOND)).ahead == 3
    assert (
        compare_clocks(store, before=earlier(NOW, SECOND), after=earlier(NOW, Span(3))).ahead == -3
    )


@pytest.mark.spec("S3")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("ahead", "agreeing", "differing", "told", "no_start", "no_service"),
    [
        (NOTABLE_DIFFERENCE, 0, 0, False, False, False),
        (NOTABLE_DIFFERENCE + 1, 1, 0, True, False, False),
        (DIFFERENCE_MAX, 1, 0, True, False, False),
        (DIFFERENCE_MAX + 1, 1, 0, True, True, True),
        (DIFFERENCE_MAX + 1, 1, 3, True, True, True),
        (DIFFERENCE_MAX + 1, 0, 0, True, True, False),
        (DIFFERENCE_MAX + 1, 0, 1, True, False, False),
    ],
)
def test_the_machine_that_differs_from_the_others_is_the_wrong_one(
    ahead: int,
    agreeing: int,
    differing: int,
    told: bool,
    no_start: bool,
    no_service: bool,
    sign: int,
) -> None:
    local = Instant(NOW + sign * ahead)
    found = compare_clocks(StoreClock(NOW, agreeing, differing), before=local, after=local)
    assert (found.is_notable, found.forbids_start, found.forbids_service) == (
        told,
        no_start,
        no_service,
    )

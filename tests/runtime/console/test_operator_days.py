"""The day of an operator: an outage is a block of cells, and is told in words."""

from __future__ import annotations

from mmo_sansio.values.clock import DAY, HOUR, Instant, Span, later
from mmo_trio.console.operator_days import cell_level, operator_day, stop_times
from mmo_trio.storage.interface.admin_types import (
    QUARTER_HOUR,
    AuditEvent,
    AuditRow,
    ProviderCount,
)

BEGIN = Instant(20_000 * DAY)
END = later(BEGIN, DAY)


def at(quarter: int) -> Instant:
    return later(BEGIN, Span(quarter * QUARTER_HOUR))


def test_an_outage_is_a_block_and_is_told() -> None:
    counts = [ProviderCount("momo", at(n), 9, 1) for n in range(10)]
    counts += [ProviderCount("momo", at(n), 0, 5) for n in range(10, 14)]
    counts += [ProviderCount("other", at(50), 1, 0)]
    day = operator_day("momo", "MoMo", counts, BEGIN, END)
    assert dict(day.paths) == {"good": "M0 0h10", "bad": "M10 0h4", "none": "M14 0h82"}
    assert (day.succeeded, day.failed) == (90, 30)
    assert day.text == "most failed 02:30 to 03:30"


def test_levels_are_those_of_health() -> None:
    levels = [cell_level(*each) for each in ((0, 0), (8, 2), (7, 3), (4, 6))]
    assert levels == ["none", "good", "warn", "bad"]


def test_where_staff_stopped_it_is_marked() -> None:
    def row(number: int, at: Instant, action: str) -> AuditRow:
        return AuditRow(number, AuditEvent(at, "user:ada", action), "", "", "", "")

    events = [row(2, at(8), "provider_opened"), row(1, at(4), "provider_closed")]
    stops = stop_times(events, BEGIN, END, closed_at=at(80))
    assert list(stops) == [(at(4), at(8)), (at(80), END)]
    now = later(at(84), Span(HOUR // 2))
    day = operator_day("momo", "MoMo", [], BEGIN, END, stop_times(events, BEGIN, now, at(80)))
    assert day.stops == "M4 0h4M80 0h6"
    assert day.text == "stopped 01:00 to 02:00, 20:00 to 21:30"

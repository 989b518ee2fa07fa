"""What repeats itself in the log is limited, and counted."""

from __future__ import annotations

import structlog

from mmo_trio.system.logs import LogRateLimit, RepetitionLimit


def test_a_budget_fills_up_again_and_no_further() -> None:
    budget = LogRateLimit(per_second=2, burst=2)
    assert [budget.acquire(0), budget.acquire(0), budget.acquire(0)] == [0, 0, None]
    assert [budget.acquire(0.5), budget.acquire(0.5)] == [1, None]
    assert [budget.acquire(100), budget.acquire(100), budget.acquire(100)] == [1, 0, None]


def test_a_marked_event_passes_once_a_second() -> None:
    now = 100.0
    limit = RepetitionLimit(lambda: now)

    def passed(event: str, *, marked: bool = True) -> dict[str, object] | None:
        fields: dict[str, object] = {"event": event, **({"once_a_second": True} if marked else {})}
        try:
            return dict(limit(None, "warning", fields))
        except structlog.DropEvent:
            return None

    assert passed("batch_commit_failed") == {"event": "batch_commit_failed"}
    assert [passed("batch_commit_failed") for _ in range(50)] == [None] * 50
    assert passed("schedule_scan_failed") == {"event": "schedule_scan_failed"}, (
        "each event has its own second"
    )
    assert [passed("drain_started", marked=False) for _ in range(2)] == [
        {"event": "drain_started"}
    ] * 2
    now += 1.0
    assert passed("batch_commit_failed") == {"event": "batch_commit_failed", "suppressed": 50}

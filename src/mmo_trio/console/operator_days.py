"""Draws how each operator did over a day: a row of cells, one for each quarter of an hour, in which
an outage is a block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from mmo_sansio.values.clock import Instant, Span, later
from mmo_trio.console.views import format_utc_seconds
from mmo_trio.storage.interface.admin_types import QUARTER_HOUR, AuditRow, ProviderCount

# Below this success rate something is broken.
FAILING_RATE = 0.5

# Below this success rate somebody should look.
WEAK_RATE = 0.8

# Fewer payments than this say nothing about a rate.
ENDED_MIN = 10

# Spans of failures that a row's text tells.
SPANS_TOLD_MAX = 2


@frozen
class OperatorDay:
    """Describes the day of one operator."""

    name: str
    title: str
    succeeded: int
    failed: int
    paths: Sequence[tuple[str, str]]
    """A class of the stylesheet, and the path of the cells that have it, a cell being one wide."""
    stops: str
    """The path of the time in which it was stopped; empty where it was not."""
    text: str
    """The same in words."""

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed


@frozen
class _Run:
    """Describes cells of a day that follow each other and are equal."""

    of: str
    """Their class, or `stopped`."""
    first: int
    end: int
    """The number of the cell after the last."""


def cell_level(succeeded: int, failed: int) -> str:
    """Return the class of a cell: `none`, `good`, `warn` or `bad`."""
    if not succeeded + failed:
        return "none"
    rate = succeeded / (succeeded + failed)
    if rate < FAILING_RATE:
        return "bad"
    if rate < WEAK_RATE:
        return "warn"
    return "good"


def operator_day(
    name: str,
    title: str,
    counts: Iterable[ProviderCount],
    begin: Instant,
    end: Instant,
    stopped: Sequence[tuple[Instant, Instant]] = (),
    reason: str = "",
) -> OperatorDay:
    """Return the day of an operator in [begin, end), with the times in which it was stopped.
    `reason` says why most of its payments failed."""
    # 1. A cell for each quarter of an hour; equal ones that follow each other are one line.
    count_at = {count.began_at: count for count in counts if count.provider == name}
    starts = [Instant(at) for at in range(begin, end, QUARTER_HOUR)]
    levels = []
    for at in starts:
        count = count_at.get(at)
        levels.append("none" if count is None else cell_level(count.succeeded, count.failed))

    runs = list(_runs(levels))
    paths = [
        (level, "".join(f"M{run.first} 0h{run.end - run.first}" for run in runs if run.of == level))
        for level in ("none", "good", "warn", "bad")
        if level in levels
    ]

    # 2. The cells in which it was stopped, those of which that was true of a part only, too.
    stops = [
        _Run(
            "stopped",
            first=max(0, (since - begin) // QUARTER_HOUR),
            end=min(len(starts), -((begin - until) // QUARTER_HOUR)),
        )
        for since, until in stopped
        if since < end and until > begin
    ]

    # 3. The same in words.
    failing_texts = [_span_text(starts, run) for run in runs if run.of == "bad"]
    stop_texts = [_span_text(starts, stop) for stop in stops]
    return OperatorDay(
        name=name,
        title=title,
        succeeded=sum(count.succeeded for count in count_at.values()),
        failed=sum(count.failed for count in count_at.values()),
        paths=paths,
        # A stop is seen, however short it was.
        stops="".join(f"M{stop.first} 0h{max(1, stop.end - stop.first)}" for stop in stops),
        text=_day_text(failing_texts, reason, stop_texts),
    )


def stop_times(
    events: Iterable[AuditRow], begin: Instant, now: Instant, closed_at: Instant | None
) -> Sequence[tuple[Instant, Instant]]:
    """Return when staff had stopped a provider, by its audit events in any order."""
    stopped, since = [], None
    for row in sorted(events, key=lambda row: row.number):
        if row.event.action == "provider_closed":
            since = row.event.at
        elif row.event.action == "provider_opened" and since is not None:
            stopped.append((since, row.event.at))
            since = None

    if closed_at is not None:
        stopped.append((closed_at, now))

    return [(since, until) for since, until in stopped if until > begin]


def _runs(levels: Sequence[str]) -> Iterable[_Run]:
    """Yield each run of equal levels."""
    first = 0
    for index in range(1, len(levels) + 1):
        if index == len(levels) or levels[index] != levels[first]:
            yield _Run(levels[first], first, end=index)
            first = index


def _span_text(starts: Sequence[Instant], run: _Run) -> str:
    """Return the time of a run, `08:15 to 09:00`."""
    until = later(starts[max(run.first, run.end - 1)], Span(QUARTER_HOUR))
    return f"{format_utc_seconds(starts[run.first])[11:16]} to {format_utc_seconds(until)[11:16]}"


def _day_text(failing: Sequence[str], reason: str, stopped: Sequence[str]) -> str:
    texts: Mapping[str, Sequence[str]] = {"most failed": failing, "stopped": stopped}
    parts = []
    for word, spans in texts.items():
        if spans:
            more = len(spans) - SPANS_TOLD_MAX
            told = ", ".join(spans[-SPANS_TOLD_MAX:])
            parts.append(f"{word} {told}" + (f" and {more} times before" if more > 0 else ""))

    if failing and reason:
        parts.insert(1, reason)
    return "; ".join(parts)

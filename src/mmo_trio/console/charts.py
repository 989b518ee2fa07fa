"""Volume, success rate and latency, drawn on the server: pure, from counts to shapes that a template writes as SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from attrs import Factory, define, frozen

from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.model import Status
from mmo_trio.storage.interface.admin_types import LATENCIES_S, Count

WIDTH, HEIGHT = 720, 150
LEFT, BOTTOM, TOP = 48, 20, 8
"""Room for the labels, in the units of the drawing."""

CLASSES: Sequence[int] = (*LATENCIES_S, 0)


@define
class Figure:
    """The payments of one span of time, or of one brand, method or provider."""

    key: str
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    latencies: Counter[int] = Factory(Counter)

    @property
    def ended(self) -> int:
        """With either result."""
        return self.succeeded + self.failed

    @property
    def success_rate(self) -> float | None:
        """The share of those that ended; None when none did."""
        return self.succeeded / self.ended if self.ended else None

    def quantile(self, share: float) -> int | None:
        """The upper bound in seconds below which this share of the results came; 0: beyond the last, None: none."""
        wanted, seen = share * sum(self.latencies.values()), 0
        for each in CLASSES:
            seen += self.latencies[each]
            if seen and seen >= wanted:
                return each
        return None


def figures_from(counts: Iterable[Count]) -> dict[str, Figure]:
    """By key."""
    figures: dict[str, Figure] = {}
    for each in counts:
        figure = figures.setdefault(each.key, Figure(each.key))
        match each.status:
            case Status.PENDING:
                figure.started += each.count
            case Status.SUCCESS:
                figure.succeeded += each.count
            case Status.FAILED:
                figure.failed += each.count
        if each.status is not Status.PENDING:
            figure.latencies[each.latency_s] += each.count
    return figures


def along(counts: Iterable[Count], begin: Instant, end: Instant, span: Span) -> list[Figure]:
    """One figure for each span of the time, also where nothing happened."""
    found = figures_from(counts)
    return [found.get(str(at), Figure(str(at))) for at in range(begin, end, span)]


@frozen
class Box:
    """A bar."""

    x: float
    y: float
    width: float
    height: float
    kind: str


@frozen
class Mark:
    """A label beside an axis, with its line."""

    at: float
    text: str


@frozen
class Stroke:
    """A line through points, broken where there is nothing."""

    kind: str
    points: str
    """As `<polyline>` takes them."""


@frozen
class Chart:
    """One drawing."""

    id: str
    title: str
    boxes: Sequence[Box]
    strokes: Sequence[Stroke]
    dots: Sequence[tuple[float, float, str]]
    levels: Sequence[Mark]
    moments: Sequence[Mark]


def charts(
    figures: Sequence[Figure], name_moment: Callable[[Instant], str]
) -> tuple[Chart, Chart, Chart]:
    """Volume, success rate, latency."""
    step = (WIDTH - LEFT) / max(1, len(figures))
    every = max(1, len(figures) // 8)
    moments = [
        Mark(LEFT + (place + 0.5) * step, name_moment(int(each.key)))
        for place, each in enumerate(figures)
        if place % every == 0
    ]
    return (
        _volume(figures, step, moments),
        _rate(figures, step, moments),
        _latency(figures, step, moments),
    )


def _volume(figures: Sequence[Figure], step: float, moments: Sequence[Mark]) -> Chart:
    most = _round_up(max((max(each.ended, each.started) for each in figures), default=1))
    boxes = []
    for place, each in enumerate(figures):
        x = LEFT + place * step
        good, bad = _height(each.succeeded / most), _height(each.failed / most)
        floor = float(HEIGHT - BOTTOM)
        boxes.append(_box(x + step * 0.1, floor - good, step * 0.55, good, "success"))
        boxes.append(_box(x + step * 0.1, floor - good - bad, step * 0.55, bad, "failed"))
        begun = _height(each.started / most)
        boxes.append(_box(x + step * 0.68, floor - begun, step * 0.2, begun, "started"))
    levels = [Mark(_y(share), f"{most * share:,.0f}") for share in (0.0, 0.5, 1.0)]
    return Chart("volume", "Payments", boxes, (), (), levels, moments)


def _rate(figures: Sequence[Figure], step: float, moments: Sequence[Mark]) -> Chart:
    heights = [each.success_rate for each in figures]
    levels = [Mark(_y(share), f"{share:.0%}") for share in (0.0, 0.5, 1.0)]
    strokes, dots = _line(heights, step, "success")
    return Chart("rate", "Success rate", (), strokes, dots, levels, moments)


def _latency(figures: Sequence[Figure], step: float, moments: Sequence[Mark]) -> Chart:
    last = len(CLASSES) - 1

    def heights(share: float) -> list[float | None]:
        found = (each.quantile(share) for each in figures)
        return [None if each is None else CLASSES.index(each) / last for each in found]

    levels = [Mark(_y(CLASSES.index(s) / last), latency_text(s)) for s in (1, 10, 60, 900, 0)]
    half, half_dots = _line(heights(0.5), step, "half")
    most, most_dots = _line(heights(0.95), step, "most")
    title = "Time to a result: half of them, and 95 %"
    return Chart("latency", title, (), (*half, *most), (*half_dots, *most_dots), levels, moments)


def _line(
    heights: Sequence[float | None], step: float, kind: str
) -> tuple[list[Stroke], list[tuple[float, float, str]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for place, height in enumerate(heights):
        if height is None:
            runs.append([])
        else:
            runs[-1].append((round(LEFT + (place + 0.5) * step, 1), _y(height)))
    strokes = [
        Stroke(kind, " ".join(f"{x:g},{y:g}" for x, y in run)) for run in runs if len(run) > 1
    ]
    return strokes, [(x, y, kind) for run in runs for x, y in run]


def _box(x: float, y: float, width: float, height: float, kind: str) -> Box:
    return Box(round(x, 1), round(y, 1), round(width, 1), round(height, 1), kind)


def _height(share: float) -> float:
    return share * (HEIGHT - BOTTOM - TOP)


def _y(share: float) -> float:
    return round(HEIGHT - BOTTOM - _height(share), 1)


def _round_up(number: int) -> int:
    """To one or two digits and zeros, so that the scale reads well."""
    scale = 1
    while number > 10 * scale:
        scale *= 10
    return max(2, -(-number // scale) * scale)


def latency_text(upper_s: int | None) -> str:
    """`≤ 5 s`, `≤ 15 min`, `> 1 h`; a dash for None."""
    if upper_s is None:
        return "–"
    if upper_s == 0:
        return "> 1 h"
    return f"≤ {upper_s} s" if upper_s < 60 else f"≤ {upper_s // 60} min"


def rate_text(rate: float | None) -> str:
    """`98.4 %`; a dash for None."""
    return "–" if rate is None else f"{rate * 100:.1f} %"

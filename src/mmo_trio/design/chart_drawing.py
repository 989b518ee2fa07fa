"""Computes charts of one family: bars or lines over steps, each step with its values at hand for
mouse and keyboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

WIDTH, HEIGHT = 720.0, 180.0
LEFT, BOTTOM, TOP = 56.0, 24.0, 12.0
"""Space for the labels, in units of the drawing."""

COLOURS = ("c1", "c2", "c3", "c4")
"""Classes of the stylesheet in the order of the series; lines differ by their dashes as well."""

X_LABELS_MAX = 8


@frozen
class Series:
    """Holds the values of one series, one for each step; None where nothing is known."""

    name: str
    values: Sequence[float | None]
    css_class: str = ""
    """Chooses a colour other than the one of its place."""


@frozen
class Mark:
    """Describes a rectangle, or a point where `height` is zero."""

    x: float
    y: float
    width: float
    height: float
    css_class: str


@frozen
class Step:
    """Describes one step of the horizontal axis."""

    summary: str
    """All values in words: the title of the step, at hover and for screen readers."""
    x: float
    width: float
    marks: Sequence[Mark]


@frozen
class Level:
    """Describes a labelled line of the vertical axis."""

    y: float
    text: str


@frozen
class DrawnChart:
    """Holds what the macro `chart` draws."""

    id: str
    title: str
    legend: Sequence[tuple[str, str]]
    """Class and name of each series."""
    levels: Sequence[Level]
    x_labels: Sequence[tuple[float, str]]
    lines: Sequence[tuple[str, str]]
    """Class and points of each line."""
    steps: Sequence[Step]
    rows: Sequence[tuple[str, Sequence[str]]]
    """The same values as a table."""


def draw_bars(
    id: str,
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    format_value: Callable[[float], str],
) -> DrawnChart:
    """Return a chart of bars that stand on each other, from zero upwards."""
    totals = [sum(each.values[n] or 0 for each in series) for n in range(len(labels))]
    top = round_up_scale(max(totals, default=0))
    return _draw(id, title, labels, series, format_value, top=top, is_line=False)


def draw_lines(
    id: str,
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    format_value: Callable[[float], str],
    *,
    top: float | None = None,
) -> DrawnChart:
    """Return a chart of lines from zero to `top`, or to the greatest value; an unknown value
    interrupts its line."""
    greatest = max(
        (value for each in series for value in each.values if value is not None), default=0
    )
    return _draw(
        id, title, labels, series, format_value, top=top or round_up_scale(greatest), is_line=True
    )


def round_up_scale(number: float) -> float:
    """Round up to 1, 2, 4, 5 or 10 times a power of ten, for a readable scale; at least 2."""
    power = 1.0
    while number > 10 * power:
        power *= 10
    return max(2.0, next(step * power for step in (1, 2, 4, 5, 10) if step * power >= number))


def _draw(
    id: str,
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    format_value: Callable[[float], str],
    *,
    top: float,
    is_line: bool,
) -> DrawnChart:
    width = (WIDTH - LEFT) / max(1, len(labels))
    classes = [each.css_class or COLOURS[n % len(COLOURS)] for n, each in enumerate(series)]
    steps = []
    for n, label in enumerate(labels):
        texts = [_text(each.values[n], format_value) for each in series]
        lines = [label, *(f"{each.name}: {text}" for each, text in zip(series, texts, strict=True))]
        marks = (
            _points(series, classes, n, width, top)
            if is_line
            else _bars(series, classes, n, width, top)
        )
        steps.append(Step(", ".join(lines), _round(LEFT + n * width), _round(width), marks))
    every = max(1, -(-len(labels) // X_LABELS_MAX))
    return DrawnChart(
        id=id,
        title=title,
        legend=[(css_class, each.name) for css_class, each in zip(classes, series, strict=True)],
        levels=[Level(_y(share), format_value(top * share)) for share in (0.0, 0.5, 1.0)],
        x_labels=[
            (_round(LEFT + (n + 0.5) * width), label)
            for n, label in enumerate(labels)
            if n % every == 0
        ],
        lines=[
            (css_class, points)
            for css_class, each in zip(classes, series, strict=True)
            for points in (_lines(each, width, top) if is_line else ())
        ],
        steps=steps,
        rows=[
            (label, [_text(each.values[n], format_value) for each in series])
            for n, label in enumerate(labels)
        ],
    )


def _text(value: float | None, format_value: Callable[[float], str]) -> str:
    return "–" if value is None else format_value(value)


def _bars(
    series: Sequence[Series], classes: Sequence[str], n: int, width: float, top: float
) -> list[Mark]:
    floor, marks = HEIGHT - BOTTOM, []
    for each, css_class in zip(series, classes, strict=True):
        height = _height((each.values[n] or 0) / top)
        floor -= height
        if height:
            x = LEFT + (n + 0.2) * width
            marks.append(
                Mark(_round(x), _round(floor), _round(width * 0.6), _round(height), css_class)
            )
    return marks


def _points(
    series: Sequence[Series], classes: Sequence[str], n: int, width: float, top: float
) -> list[Mark]:
    x = _round(LEFT + (n + 0.5) * width)
    found = ((each.values[n], css_class) for each, css_class in zip(series, classes, strict=True))
    return [
        Mark(x, _y(value / top), 0, 0, css_class) for value, css_class in found if value is not None
    ]


def _lines(series: Series, width: float, top: float) -> list[str]:
    runs: list[list[str]] = [[]]
    for n, value in enumerate(series.values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{_round(LEFT + (n + 0.5) * width):g},{_y(value / top):g}")
    return [" ".join(run) for run in runs if len(run) > 1]


def _height(share: float) -> float:
    return min(1.0, share) * (HEIGHT - BOTTOM - TOP)


def _y(share: float) -> float:
    return _round(HEIGHT - BOTTOM - _height(share))


def _round(value: float) -> float:
    return round(value, 1)

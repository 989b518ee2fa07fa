"""Computes charts of one family: bars or lines over steps, each step with its values at hand for
mouse and keyboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

# A unit is a pixel on a phone of 360 pixels, and larger elsewhere.
WIDTH, HEIGHT = 288.0, 144.0

# Space for the labels, in units of the drawing; at the left the longest takes what it needs.
BOTTOM, TOP = 24.0, 12.0

# Of a label, at 12 pixels.
CHARACTER_WIDTH = 7.0

# Classes of the stylesheet in the order of the series; lines differ by their dashes as well.
COLOURS = ("c1", "c2", "c3", "c4")

X_LABELS_MAX = 4


@frozen
class Scale:
    """Holds the least and the greatest value of the vertical axis."""

    low: float
    high: float

    def y(self, value: float) -> float:
        """Return where a value stands; one beyond the axis stands at its end."""
        share = (value - self.low) / (self.high - self.low)
        return _round(HEIGHT - BOTTOM - min(1.0, max(0.0, share)) * (HEIGHT - BOTTOM - TOP))

    @property
    def levels(self) -> Sequence[float]:
        """Return the values of the labelled lines."""
        if self.low < 0 < self.high:
            middle = 0.0
        else:
            middle = (self.low + self.high) / 2
        return self.low, middle, self.high


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
    marks: Sequence[Mark]


@frozen
class Level:
    """Describes a labelled line of the vertical axis."""

    y: float
    text: str


@frozen
class MarkPath:
    """Holds all marks of one class as one path, which is a quarter of the size of an element for
    each."""

    css_class: str
    width: float
    """Of its strokes: of a bar, or 0 for points, whose size the stylesheet knows."""
    path: str


@frozen
class DrawnChart:
    """Holds what the macro `chart` draws."""

    id: str
    title: str
    left: float
    """Where the vertical axis is."""
    legend: Sequence[tuple[str, str]]
    """Class and name of each series."""
    levels: Sequence[Level]
    x_labels: Sequence[tuple[float, str]]
    lines: Sequence[tuple[str, str]]
    """Class and points of each line."""
    steps: Sequence[Step]
    rows: Sequence[tuple[str, Sequence[str]]]
    """The same values as a table."""

    @property
    def step_width(self) -> float:
        return (WIDTH - self.left) / max(1, len(self.steps))

    @property
    def paths(self) -> Sequence[MarkPath]:
        """Return the marks of all steps, by class."""
        moves: dict[tuple[str, float], list[str]] = {}
        for step in self.steps:
            for mark in step.marks:
                # A stroke without a length is drawn as a point, as the ends of points are round.
                x = _round(mark.x + mark.width / 2)
                moves.setdefault((mark.css_class, mark.width), []).append(
                    f"M{x:g} {mark.y:g}v{mark.height:g}"
                )
        return [MarkPath(*drawn_as, "".join(path)) for drawn_as, path in moves.items()]


def draw_bars(
    id: str,
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    format_value: Callable[[float], str],
) -> DrawnChart:
    """Return a chart of bars that stand on each other, from zero upwards; negative values hang
    below zero."""
    ups, downs = [], []
    for n in range(len(labels)):
        values = [line.values[n] or 0 for line in series]
        ups.append(sum(value for value in values if value > 0))
        downs.append(sum(-value for value in values if value < 0))

    lowest = max(downs, default=0)
    scale = Scale(
        -round_up_scale(lowest) if lowest else 0.0,
        round_up_scale(max(ups, default=0)),
    )
    return _draw(id, title, labels, series, format_value, scale=scale, is_line=False)


def draw_lines(
    id: str,
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    format_value: Callable[[float], str],
    *,
    top: float | None = None,
    bottom: float = 0.0,
) -> DrawnChart:
    """Return a chart of lines from `bottom` to `top`, or to the greatest value; an unknown value
    interrupts its line."""
    greatest = max(
        (value for line in series for value in line.values if value is not None), default=0
    )
    scale = Scale(bottom, top or round_up_scale(greatest))
    return _draw(id, title, labels, series, format_value, scale=scale, is_line=True)


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
    scale: Scale,
    is_line: bool,
) -> DrawnChart:
    # 1. The levels, whose texts stand at the left: what they leave is for the steps.
    levels = [Level(scale.y(value), format_value(value)) for value in scale.levels]
    left = CHARACTER_WIDTH * max(len(level.text) for level in levels) + 8
    width = (WIDTH - left) / max(1, len(labels))
    classes = [line.css_class or COLOURS[n % len(COLOURS)] for n, line in enumerate(series)]

    # 2. A step for each label, with the marks of all series.
    steps = []
    for n, label in enumerate(labels):
        texts = [_text(line.values[n], format_value) for line in series]
        lines = [label, *(f"{line.name}: {text}" for line, text in zip(series, texts, strict=True))]
        if is_line:
            marks = _points(series, classes, n, left + (n + 0.5) * width, scale)
        else:
            marks = _bars(series, classes, n, left + n * width, width, scale)

        steps.append(Step(", ".join(lines), marks))

    # 3. Not every label has room to be written: one in so many is.
    every = max(1, -(-len(labels) // X_LABELS_MAX))
    return DrawnChart(
        id=id,
        title=title,
        left=left,
        legend=[(css_class, line.name) for css_class, line in zip(classes, series, strict=True)],
        levels=levels,
        x_labels=[
            (_round(left + (n + 0.5) * width), label)
            for n, label in enumerate(labels)
            if n % every == 0
        ],
        lines=[
            (css_class, points)
            for css_class, line in zip(classes, series, strict=True)
            for points in (_lines(line, left, width, scale) if is_line else ())
        ],
        steps=steps,
        rows=[
            (label, [_text(line.values[n], format_value) for line in series])
            for n, label in enumerate(labels)
        ],
    )


def _text(value: float | None, format_value: Callable[[float], str]) -> str:
    if value is None:
        return "–"
    return format_value(value)


def _bars(
    series: Sequence[Series], classes: Sequence[str], n: int, x: float, width: float, scale: Scale
) -> list[Mark]:
    marks, up, down = [], 0.0, 0.0
    for line, css_class in zip(series, classes, strict=True):
        value = line.values[n] or 0
        if value < 0:
            begin, end = down, down + value
            down = end
        else:
            begin, end = up + value, up
            up = begin

        y = scale.y(begin)
        height = _round(scale.y(end) - y)
        if height:
            marks.append(Mark(_round(x + width * 0.2), y, _round(width * 0.6), height, css_class))

    return marks


def _points(
    series: Sequence[Series], classes: Sequence[str], n: int, x: float, scale: Scale
) -> list[Mark]:
    found = ((line.values[n], css_class) for line, css_class in zip(series, classes, strict=True))
    return [
        Mark(_round(x), scale.y(value), 0, 0, css_class)
        for value, css_class in found
        if value is not None
    ]


def _lines(series: Series, left: float, width: float, scale: Scale) -> list[str]:
    runs: list[list[str]] = [[]]
    for n, value in enumerate(series.values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{_round(left + (n + 0.5) * width):g},{scale.y(value):g}")
    return [" ".join(run) for run in runs if len(run) > 1]


SPARK_WIDTH, SPARK_HEIGHT = 120.0, 24.0


@frozen
class Sparkline:
    """Holds what the macro `sparkline` draws: a line without axes, from its least to its greatest
    value, or to zero where it runs out within the drawing."""

    points: str
    lowest: tuple[float, float] | None
    """Where the least value stands; None for fewer than two values."""
    forecast: str
    """The line from the last value to where it runs out; empty where it does not."""


def draw_sparkline(values: Sequence[float | None], steps_left: float | None = None) -> Sparkline:
    """Return a line of values at equal distances. `steps_left` says after how many steps it reaches
    zero, which is drawn where that is at most half of what is shown."""
    known = [(n, value) for n, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return Sparkline("", None, "")

    runs_out = steps_left is not None and steps_left <= len(values) / 2
    steps = len(values) - 1 + (steps_left if runs_out and steps_left is not None else 0)
    if runs_out:
        low = 0.0
    else:
        low = min(value for _, value in known)

    high = max(value for _, value in known)
    room_x, room_y = SPARK_WIDTH - 6, SPARK_HEIGHT - 6

    def place(n: float, value: float) -> tuple[float, float]:
        if high > low:
            share = (value - low) / (high - low)
        else:
            share = 0.5
        return _round(3 + room_x * n / steps), _round(3 + room_y * (1 - share))

    last_n, last = known[-1]
    forecast = ""
    if runs_out:
        (x, y), (end_x, end_y) = place(last_n, last), place(steps, 0.0)
        forecast = f"{x:g},{y:g} {end_x:g},{end_y:g}"

    return Sparkline(
        " ".join(f"{x:g},{y:g}" for x, y in (place(n, value) for n, value in known)),
        place(*min(known, key=lambda found: (found[1], -found[0]))),
        forecast,
    )


def _round(value: float) -> float:
    return round(value, 1)

"""Plots throughput and latency against load as an SVG for light and dark backgrounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 460, 320
LEFT, TOP, RIGHT, BOTTOM = 64, 44, 16, 48
LEGEND = 26
COLOURS = ("#0b7285", "#e8590c", "#6741d9", "#2b8a3e", "#a61e4d", "#495057")

Series = Mapping[str, Mapping[str, Sequence[float]]]
Scale = Callable[[float], float]


def plot(series: Series) -> str:
    """Return two panels. Each series has `connections`, `per_s`, `p50_ms` and `p99_ms` of equal
    length."""
    height = HEIGHT + LEGEND * len(series)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{height}"'
        f' viewBox="0 0 {2 * WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{2 * WIDTH}" height="{height}" fill="#ffffff"/>',
        *_panel(series, 0, "Creates a second", ("per_s",), is_logarithmic=False),
        *_panel(series, WIDTH, "Latency in ms: p50, p99 dashed", ("p50_ms", "p99_ms")),
    ]
    for place, name in enumerate(series):
        y, colour = HEIGHT + LEGEND * place + 14, COLOURS[place % len(COLOURS)]
        parts.append(f'<rect x="{LEFT}" y="{y - 8}" width="18" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + 26}" y="{y}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    series: Series, x: int, title: str, figures: Sequence[str], *, is_logarithmic: bool = True
) -> list[str]:
    loads = sorted({load for each in series.values() for load in each["connections"]})
    values = [value for each in series.values() for figure in figures for value in each[figure]]
    across = _logarithmic(loads[0], loads[-1], x + LEFT, x + WIDTH - RIGHT)
    ticks = _decades(values) if is_logarithmic else _steps(max(values))
    make = _logarithmic if is_logarithmic else _linear
    up = make(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    parts = [f'<text x="{x + LEFT}" y="24" font-size="14" font-weight="bold">{title}</text>']
    for tick in ticks:
        y = up(tick)
        line = f'x1="{x + LEFT}" x2="{x + WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
        parts.append(f'<line {line} stroke="#dee2e6"/>')
        parts.append(f'<text x="{x + LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:,g}</text>')
    for load in loads:
        where = f'x="{across(load):.1f}" y="{HEIGHT - BOTTOM + 18}"'
        parts.append(f'<text {where} text-anchor="middle">{load:g}</text>')
    middle = x + (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle:g}" y="{HEIGHT - 10}" text-anchor="middle">connections</text>')
    for place, each in enumerate(series.values()):
        for number, figure in enumerate(figures):
            points = zip(each["connections"], each[figure], strict=True)
            path = " ".join(f"{across(load):.1f},{up(value):.1f}" for load, value in points)
            dashes = ' stroke-dasharray="5 4"' if number else ""
            colour = COLOURS[place % len(COLOURS)]
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="{colour}" '
                f'stroke-width="2"{dashes}/>'
            )
    return parts


def _linear(least: float, most: float, begin: float, end: float) -> Scale:
    return lambda value: begin + (value - least) / (most - least) * (end - begin)


def _logarithmic(least: float, most: float, begin: float, end: float) -> Scale:
    scale = _linear(math.log(least), math.log(most), begin, end)
    return lambda value: scale(math.log(max(value, least)))


def _decades(values: Sequence[float]) -> list[float]:
    """Return the powers of ten from below the smallest to above the largest value."""
    least = math.floor(math.log10(max(min(values), 0.01)))
    return [10.0**power for power in range(least, math.ceil(math.log10(max(values)) + 1e-9) + 1)]


def _steps(most: float) -> list[float]:
    """Return 0 and about five round steps to above the largest value."""
    magnitude = 10 ** math.floor(math.log10(most / 5))
    step = next(size * magnitude for size in (1, 2, 5, 10) if size * magnitude * 5 >= most)
    return [step * number for number in range(math.ceil(most / step) + 1)]

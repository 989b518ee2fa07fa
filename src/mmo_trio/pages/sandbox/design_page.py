"""Shows every part of the design system in every state, at `/sandbox/design`."""

from __future__ import annotations

import functools

from quart import Blueprint, Response, render_template

from mmo_trio.design.chart_drawing import DrawnChart, Series, draw_bars, draw_lines

pages = Blueprint("design_page", __name__)

COLOURS = (
    ("--text", "--bg", "Text"),
    ("--dim", "--bg", "Secondary text"),
    ("--accent", "--bg", "Links"),
    ("--on", "--accent", "Buttons"),
    ("--good", "--good-bg", "Succeeded"),
    ("--bad", "--bad-bg", "Failed"),
    ("--warn", "--warn-bg", "Waiting"),
    ("--accent", "--info", "Information"),
)
"""Pairs of foreground and background with what they are for; tests measure each of them."""


@pages.get("/sandbox/design")
async def show_design() -> Response:
    """Show the parts."""
    return Response(await render_template("design_page.html", colours=COLOURS, charts=example_charts()))


@functools.cache
def example_charts() -> tuple[DrawnChart, DrawnChart]:
    """Return a chart of bars and one of lines, with values that show zero, much and unknown."""
    labels = [f"{hour:02}:00" for hour in range(24)]
    succeeded = [(hour * 37) % 90 + (40 if 8 <= hour <= 20 else 0) for hour in range(24)]
    failed = [(hour * 11) % 14 for hour in range(24)]
    share = [100 * good / (good + bad or 1) for good, bad in zip(succeeded, failed, strict=True)]
    rate = [None if hour in (3, 4) else each for hour, each in enumerate(share)]
    volume = (Series("succeeded", succeeded, "c2"), Series("failed", failed, "c3"))
    return (
        draw_bars("volume", "Payments", labels, volume, "{:,.0f}".format),
        draw_lines("rate", "Success rate", labels, [Series("success rate", rate)], "{:.0f} %".format, top=100),
    )

"""Charts: what is drawn stands where its value is, and every value can be read."""

from __future__ import annotations

import pytest

from mmo_trio.design.chart_drawing import (
    BOTTOM,
    HEIGHT,
    TOP,
    DrawnChart,
    Series,
    draw_bars,
    draw_lines,
    round_up_scale,
)


def _bars() -> DrawnChart:
    series = (Series("succeeded", [3, 0, 7], "c2"), Series("failed", [1, 0, None], "c3"))
    return draw_bars("volume", "Payments", ["09:00", "10:00", "11:00"], series, "{:.0f}".format)


def test_bars_stand_on_each_other() -> None:
    drawn = _bars()
    good, bad = drawn.steps[0].marks
    assert good.y + good.height == pytest.approx(HEIGHT - BOTTOM)
    assert bad.y + bad.height == pytest.approx(good.y, abs=0.11)
    assert good.height == pytest.approx(3 * bad.height, abs=0.3)
    assert drawn.steps[1].marks == []


def test_every_value_is_told_in_words_and_in_the_table() -> None:
    drawn = _bars()
    assert drawn.steps[0].summary == "09:00, succeeded: 3, failed: 1"
    assert drawn.steps[2].summary == "11:00, succeeded: 7, failed: –"
    assert drawn.rows[2] == ("11:00", ["7", "–"])


def test_an_unknown_value_interrupts_its_line() -> None:
    series = [Series("rate", [50, 100, None, 0, 25])]
    drawn = draw_lines("rate", "Rate", list("abcde"), series, "{:.0f}".format, top=100)
    assert [len(points.split()) for _, points in drawn.lines] == [2, 2]
    assert drawn.steps[1].marks[0].y == TOP
    assert drawn.steps[3].marks[0].y == HEIGHT - BOTTOM


def test_a_chart_of_nothing_is_drawn() -> None:
    assert draw_bars("none", "None", [], [Series("a", [])], str).steps == []
    assert draw_lines("none", "None", ["a"], [Series("a", [None])], str).lines == []


@pytest.mark.parametrize(
    ("number", "scale"), [(0, 2), (2, 2), (3, 4), (41, 50), (99, 100), (101, 200), (1000, 1000)]
)
def test_scales_are_round(number: float, scale: float) -> None:
    assert round_up_scale(number) == scale

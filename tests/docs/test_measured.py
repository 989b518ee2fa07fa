"""The benchmarks read load correctly, and the page of results shows the stored results."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest
from attrs import evolve
from bench import report, summary
from bench.generator import LoadCounts, creates, drive, look_ups, percentile
from bench.load import LoadResult, median, ratio, read_result
from bench.plot import plot
from bench.report import Comparison, Goal, Outcome, Table
from bench.suite import SUITE

GOOD = b"HTTP/1.1 204 No Content\r\n\r\n"
BUSY = b"HTTP/1.1 503 Unavailable\r\ncontent-length: 4\r\n\r\nbusy"
REQUEST = b"GET / HTTP/1.1\r\n\r\n"
SHOWN = LoadResult(per_s=100.0, p50_ms=1.0, p99_ms=2.0, bad=0, requests=500)
OUTCOME = Outcome(
    "creates",
    "Creates",
    "As described.",
    [Table("medians", ("server", "per s"), [["ours", "1,000"]], "the core.")],
    [Goal("ratio", 1.5, 2.0, " x"), Goal("p99", 50, 75.5, " ms", at_most=True)],
    notes=["One is absent."],
)


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[str, int]]:
    """Serve these responses in turn on one connection; `|` separates pieces."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                for number in itertools.count():
                    if not accepted.recv(65_536):
                        return
                    for piece in answers[number % len(answers)].split(b"|"):
                        accepted.sendall(piece)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()
        thread.join(10)


def test_either_generators_result_is_read() -> None:
    wrk = "Running 2s test\n  2 requests\nRESULT 1000.500000 1.250000 9.000000 0 2001\n"
    assert read_result(wrk) == LoadResult(1000.5, 1.25, 9.0, 0, 2001)
    ours = read_result(LoadCounts(2.0, [1.0, 2.0, 3.0], bad=1).line())
    assert ours == LoadResult(per_s=2.0, p50_ms=2.0, p99_ms=3.0, bad=1, requests=4)
    with pytest.raises(ValueError, match="no RESULT"):
        read_result("unable to connect")


def test_the_generator_separates_good_responses_from_bad_ones_in_any_pieces() -> None:
    over = iter([False] * 60)
    with answering(GOOD, BUSY.replace(b"\r\n\r\nbu", b"\r\n|\r\nbu|"), GOOD) as address:
        tally = drive(address, itertools.repeat(REQUEST), connections=1, seconds=10, is_over=lambda: next(over, True))
    assert tally.bad > 0
    assert len(tally.times_ms) in (2 * tally.bad, 2 * tally.bad + 1, 2 * tally.bad - 1)


def test_the_generator_keeps_within_a_window() -> None:
    over = iter([False] * 20)
    with answering(GOOD) as address:
        tally = drive(
            address,
            itertools.repeat(REQUEST),
            connections=1,
            seconds=10,
            may_send=lambda sent: sent < 3,
            is_over=lambda: next(over, True),
        )
    assert len(tally.times_ms) == 3


def test_requests_are_those_of_each_merchant_in_turn() -> None:
    merchants = [("key-a", "https://a/", "w"), ("key-b", "https://b/", "h")]
    made = creates("host", "/path", "REFERENCE RESULT_URL", "7", merchants)
    first, second, third = itertools.islice(made, 3)
    assert b"X-Api-Key: key-a" in first
    assert b"X-Api-Key: key-b" in second
    bodies = [each.partition(b"\r\n\r\n")[2] for each in (first, second, third)]
    assert bodies == [b"w7-0 https://a/", b"h7-1 https://b/", b"w7-2 https://a/"]
    asked = next(look_ups("host", "/status/", "key", ["one", "two"]))
    assert asked.startswith(b"GET /status/one HTTP/1.1\r\n")


def test_figures_of_rounds_are_medians_and_ratios_are_taken_side_by_side() -> None:
    ours = [evolve(SHOWN, per_s=per_s) for per_s in (100.0, 300.0, 200.0)]
    theirs = [evolve(SHOWN, per_s=per_s) for per_s in (50.0, 100.0, 400.0)]
    assert median(ours).per_s == 200.0
    assert median(ours).requests == 1500
    assert ratio(ours, theirs) == 2.0
    assert percentile([float(each) for each in range(1, 101)], 99) == 100.0
    assert percentile([], 99) == 0.0


def test_the_page_shows_the_stored_results(tmp_path: Path) -> None:
    report.save(OUTCOME, tmp_path, machine="a machine", on="2026-11-21")
    page = report.page(report.load(tmp_path, SUITE))
    for expected in (
        "Measured on 2026-11-21: a machine.",
        "| ratio | at least 1.5 x | 2 x | yes |",
        "| p99 | at most 50 ms | 75.5 ms | **no** |",
        "## Creates",
        "| ours | 1,000 |",
        "Limited by: the core.",
        "One is absent.",
    ):
        assert expected in page


def test_the_page_of_results_is_current(root: Path) -> None:
    stored = report.load(root / "bench" / "results", SUITE)
    assert (root / "bench" / "RESULTS.md").read_text(encoding="utf-8") == report.page(stored)


def test_outcomes_of_several_settings_are_kept_beside_each_other(tmp_path: Path) -> None:
    for setting in (
        "Python 3.13, PostgreSQL debian15",
        "Python 3.11, PostgreSQL wheel18",
        "Python 3.11, PostgreSQL wheel18",
    ):
        report.save(evolve(OUTCOME, setting=setting), tmp_path, machine="a machine", on="2026-11-21")
    saved = report.load(tmp_path, SUITE)
    assert [each["setting"] for each in saved] == [
        "Python 3.11, PostgreSQL wheel18",
        "Python 3.13, PostgreSQL debian15",
    ]
    assert report.is_of(saved[1], evolve(OUTCOME, setting="Python 3.13, PostgreSQL debian15"))
    page = report.page(saved)
    assert "## Creates (Python 3.11, PostgreSQL wheel18)" in page
    assert "| ratio (Python 3.13, PostgreSQL debian15) | at least 1.5 x | 2 x | yes |" in page


def test_the_readme_names_the_worst_ratio_of_all_settings(tmp_path: Path) -> None:
    for python, ratios in (("3.11", (2.5, 1.25, 1.75)), ("3.13", (2.25, 1.5, 1.9))):
        report.save(risen(f"Python {python}, PostgreSQL debian15", *ratios), tmp_path, machine="", on="")
    for name, goal in (
        ("look_ups", Goal("look-ups : FastAPI", 3.0, 3.25)),
        ("life", Goal("whole lives", 1000, 1234.0)),
    ):
        report.save(evolve(OUTCOME, name=name, goals=[goal]), tmp_path, machine="", on="")
    saved = report.load(tmp_path, summary.NAMES)
    text = " ".join(summary.performance(saved).split())
    for expected in (
        "accepts 1,200 to 4,100 payments a second",
        "at least 2.25 times the rate of a FastAPI service",
        "with fewer at least 1.25 times",
        "at least 1.75 times the rate of the least that an ASGI",
        "Python 3.11 with PostgreSQL debian15, Python 3.13 with PostgreSQL debian15",
        "3.2 times as many look-ups",
        "at a rate of 1,200 a second",
    ):
        assert expected in text
    worst = summary.worst(saved)
    assert worst is not None
    assert worst["setting"] == "Python 3.11, PostgreSQL debian15"
    page = summary.replace("# A\n\n## Performance\n\nOld.\n\n## Status\n\nNew.\n", saved)
    assert page == f"# A\n\n## Performance\n\n{summary.performance(saved)}## Status\n\nNew.\n"


def risen(setting: str, many: float, few: float, floor: float) -> Outcome:
    """Return the outcome of two servers with these ratios."""
    servers = {"slow": 1_200.0, "fast": 4_100.0}
    series = {
        name: {"connections": [4.0, 64.0], "per_s": [300.0, per_s], "p50_ms": [1.0, 9.0], "p99_ms": [2.0, 90.0]}
        for name, per_s in servers.items()
    }
    comparisons = [
        Comparison("free", name, connections, ratio, floor)
        for name in servers
        for connections, ratio in ((4, few), (64, many))
    ]
    theirs = {"FastAPI": series["fast"] | {"per_s": [9_000.0, 9_000.0]}}
    return Outcome("rising", "Rising", "So.", [], series=series | theirs, comparisons=comparisons, setting=setting)


def test_the_section_of_the_readme_is_current(root: Path) -> None:
    stored = report.load(root / "bench" / "results", summary.NAMES)
    assert f"## Performance\n\n{summary.performance(stored)}" in (root / "README.md").read_text(encoding="utf-8")


def test_the_plot_has_a_line_for_each_server_and_figure() -> None:
    figures = {name: [1.0, 2.0, 30.0] for name in ("connections", "per_s", "p50_ms", "p99_ms")}
    drawn = ElementTree.fromstring(plot({"ours & theirs": figures, "another": figures}))
    lines = [each for each in drawn if each.tag.endswith("polyline")]
    assert len(lines) == 2 * 3

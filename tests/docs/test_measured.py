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
from bench import report
from bench.generator import LoadCounts, creates, drive, look_ups, percentile
from bench.load import LoadResult, median, ratio, read_result
from bench.plot import plot
from bench.report import Goal, Outcome, Table
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


def test_the_plot_has_a_line_for_each_server_and_figure() -> None:
    figures = {name: [1.0, 2.0, 30.0] for name in ("connections", "per_s", "p50_ms", "p99_ms")}
    drawn = ElementTree.fromstring(plot({"ours & theirs": figures, "another": figures}))
    lines = [each for each in drawn if each.tag.endswith("polyline")]
    assert len(lines) == 2 * 3

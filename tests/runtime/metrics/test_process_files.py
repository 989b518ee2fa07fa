"""Figures of several processes on one board."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mmo_trio.metrics.process_files import STALE_AFTER_S, ProcessMetricsFiles


def test_each_process_sees_the_others_and_not_itself(tmp_path: Path) -> None:
    boards = [ProcessMetricsFiles(tmp_path, f"worker-{number}") for number in (1, 2, 3)]
    for board in boards:
        board.write(board.process_name.encode())
    assert list(boards[1].read_others()) == ["worker-1", "worker-3"]
    boards[0].write(b"anew")
    assert list(boards[1].read_others()) == ["anew", "worker-3"]


def test_who_has_ended_is_not_told_of(tmp_path: Path) -> None:
    ProcessMetricsFiles(tmp_path, "worker-1").write(b"old")
    long_ago = time.time() - STALE_AFTER_S - 1
    os.utime(tmp_path / "worker-1.prom", (long_ago, long_ago))
    assert not list(ProcessMetricsFiles(tmp_path, "worker-2").read_others())


def test_a_board_that_is_gone_tells_nothing(tmp_path: Path) -> None:
    assert not list(ProcessMetricsFiles(tmp_path / "gone", "worker-1").read_others())

"""Figures of several processes on one board."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mmo_trio.metrics.process_files import FRESH_S, Board


def test_each_process_sees_the_others_and_not_itself(tmp_path: Path) -> None:
    boards = [Board(tmp_path, f"worker-{number}") for number in (1, 2, 3)]
    for board in boards:
        board.write(board.name.encode())
    assert list(boards[1].others()) == ["worker-1", "worker-3"]
    boards[0].write(b"anew")
    assert list(boards[1].others()) == ["anew", "worker-3"]


def test_who_has_ended_is_not_told_of(tmp_path: Path) -> None:
    Board(tmp_path, "worker-1").write(b"old")
    long_ago = time.time() - FRESH_S - 1
    os.utime(tmp_path / "worker-1.prom", (long_ago, long_ago))
    assert not list(Board(tmp_path, "worker-2").others())


def test_a_board_that_is_gone_tells_nothing(tmp_path: Path) -> None:
    assert not list(Board(tmp_path / "gone", "worker-1").others())

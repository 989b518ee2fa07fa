"""`examples/drive_without_io.py` runs, and prints the timeline that the payment rules define."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.time_limits import HANGS_AFTER_S


@pytest.mark.spec("S6", "S2", "K3")
def test_a_payout_whose_response_is_lost_is_polled_and_never_sent_again(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(root / "examples/drive_without_io.py")],
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    timeline = [line[10:] for line in done.stdout.splitlines() if line[2:3] == ":"]
    assert timeline == [
        "accepted as 01KDVN4D00DR1VEW1TH0VT10AA",
        "the payout is sent to the operator",
        "the operator is polled",
        "the operator is polled",
        "the operator is polled",
        "the merchant gets the callback",
    ]
    assert "success: 2500.00 KES, paid 1 time\n" in done.stdout

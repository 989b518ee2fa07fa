"""The demo is the whole gateway at once: a payment over real sockets, called back over real TLS."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.time_limits import HANGS_AFTER_S

STEPS = (
    "READY api=http://127.0.0.1:",
    "1. A payment is taken",
    "pending → success, KES 10.00",
    "its X-API-KEY is right: accepted",
    "refused with 401",
)


@pytest.mark.spec("C6", "K1", "S1")
def test_the_demo_shows_a_whole_payment() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mmo_trio.cli", "demo", "--once"],
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    places = [done.stdout.find(step) for step in STEPS]
    assert -1 not in places, done.stdout
    assert places == sorted(places)
    assert "info" not in done.stderr, "no line of the log stands between the steps"

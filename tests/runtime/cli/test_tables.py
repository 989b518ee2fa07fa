"""What commands print as tables: references can be copied in a narrow terminal, and nothing is padded in a pipe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

REFERENCE = "01M8823X3PT60HV4NEG53YCFK6"
PROGRAM = f"""
from mmo_sansio.values.model import Status
from mmo_trio.cli.support.output import print_table
columns = ("created", "gatewayReference", "brand", "merchantReference", "amount", "status", "why")
time, brand, ours = "2026-11-25T00:36:30Z", "a-brand-with-a-name", "an order with a long reference"
print_table(columns, [[time, "{REFERENCE}", brand, ours, "150.00 KES", Status.FAILED, "provider_unavailable"]])
"""


def printed_to_terminal(columns: int) -> str:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=theirs, env=environment):
        os.close(theirs)
        printed = b""
        try:
            while data := os.read(ours, 65_536):
                printed += data
        except OSError:  # Linux reports the end of the other side as EIO.
            pass
    os.close(ours)
    return printed.decode()


@pytest.mark.finding("new-users-M6")
def test_references_and_times_stay_on_one_line_in_80_columns() -> None:
    printed = printed_to_terminal(80)
    assert REFERENCE in printed
    assert "2026-11-25T00:36:30Z" in printed
    assert max(len(line) for line in printed.splitlines() if "\x1b" not in line) <= 80


def test_the_status_has_a_colour_in_a_terminal() -> None:
    assert "\x1b[31mfailed" in printed_to_terminal(200)


@pytest.mark.finding("new-users-M6")
def test_nothing_is_padded_and_nothing_is_coloured_in_a_pipe() -> None:
    printed = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert REFERENCE in printed
    assert "\x1b" not in printed
    assert all(line == line.rstrip() for line in printed.splitlines())

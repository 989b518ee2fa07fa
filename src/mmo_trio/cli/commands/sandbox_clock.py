"""`mmo sandbox-clock` sets the clock of a sandbox forward, running or not."""

from __future__ import annotations

from pathlib import Path

import click

from mmo_sansio.values.clock import Span, format_with_microseconds
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.http_client import send_request
from mmo_trio.cli.support.options import data_option, json_option
from mmo_trio.cli.support.output import print_json, print_status
from mmo_trio.cli.support.target import default_data_directory, running_address
from mmo_trio.settings import SettingsError, format_span
from mmo_trio.settings.service import CLOCK_OFFSET_FILE
from mmo_trio.settings.values import SPAN
from mmo_trio.system.clock import GatewayClock, read_offset, write_offset

# The sandbox answers once everything that falls due on the way is decided.
ADVANCE_TIMEOUT_S = 300.0


@click.group("sandbox-clock")
def sandbox_clock() -> None:
    """Set the sandbox's clock forward."""


@sandbox_clock.command()
@click.argument("span")
@data_option
@json_option
def advance(span: str, data: Path | None, as_json: bool) -> None:
    """Move the clock forward by SPAN, such as 3d, 15m or 30s.

    A running sandbox decides everything that falls due on the way before this command ends; in one
    that doesn't run, it falls due at the next start."""
    try:
        step = SPAN.read(span)
    except SettingsError as error:
        raise UsageProblem(f"SPAN {error}") from None

    directory = data or default_data_directory()
    if not directory.is_dir():
        raise NegativeAnswer(f"There is no sandbox in {directory}. Start one with `mmo sandbox`.")

    # A sandbox that runs has its clock in memory, and has to be asked; else its file is moved.
    pages = running_address(directory, "pages")
    now = None
    if pages is not None:
        now = _advance_running(pages, format_span(step))

    if now is None:
        offset = Span(read_offset(directory / CLOCK_OFFSET_FILE) + step)
        write_offset(directory / CLOCK_OFFSET_FILE, offset)
        now = format_with_microseconds(GatewayClock(offset=offset).wall_time())
        print_status("No sandbox is running here; its clock is moved for the next start.")
    else:
        print_status("The running sandbox has moved its clock.")

    if as_json:
        print_json({"now": now})
    else:
        click.echo(now)


def _advance_running(pages: str, by: str) -> str | None:
    """Return the new time of the sandbox that serves there; None when none does."""
    try:
        answer = send_request(
            f"{pages}/sandbox/clock", body={"advance": by}, timeout_s=ADVANCE_TIMEOUT_S
        )
        if answer.status == 200:
            return str(answer.json_object()["now"])
    except ConnectionRefusedError:
        # The file of a sandbox that was killed names an address where nothing listens.
        return None
    except (OSError, ValueError, KeyError) as error:
        raise NegativeAnswer(f"The sandbox at {pages} didn't move its clock: {error}.") from None

    text = answer.body.decode(errors="replace")[:500]
    raise NegativeAnswer(f"The sandbox at {pages} answered {answer.status}: {text}")

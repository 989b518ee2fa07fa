"""`mmo sandbox-clock`: let time pass in a sandbox, running or not."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mmo_sansio.values.clock import with_microseconds
from mmo_trio.cli.support.errors import Negative, Unusable
from mmo_trio.cli.support.http_client import call
from mmo_trio.cli.support.output import print_json, say
from mmo_trio.cli.support.target import default_data_directory, json_option
from mmo_trio.settings import read_span, write_span
from mmo_trio.settings.service import CLOCK_FILE, RUNNING_FILE
from mmo_trio.system.clock import WallClock, read_offset, write_offset

ANSWER_TIMEOUT_S = 300.0
"""Everything that falls due on the way is decided before the sandbox answers."""


@click.group("sandbox-clock")
def sandbox_clock() -> None:
    """The sandbox's clock."""


@sandbox_clock.command()
@click.argument("span")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="The sandbox's data directory; by default the user's own.",
)
@json_option
def advance(span: str, data: Path | None, as_json: bool) -> None:
    """Move the clock forward by SPAN, such as 3d, 15m or 30s.

    A running sandbox decides everything that falls due on the way before this command ends; in one that doesn't
    run, it falls due at the next start.
    """
    try:
        by = read_span(span)
    except ValueError as fault:
        raise Unusable(f"SPAN {fault}.") from None
    directory = data or default_data_directory()
    if not directory.is_dir():
        raise Negative(f"There is no sandbox in {directory}. Start one with `mmo sandbox`.")
    pages = _pages_address(directory)
    now = None if pages is None else _advance_running(pages, write_span(by))
    if now is None:
        offset = read_offset(directory / CLOCK_FILE) + by
        write_offset(directory / CLOCK_FILE, offset)
        now = with_microseconds(WallClock(offset=offset).now())
        say("No sandbox is running here; its clock is moved for the next start.")
    else:
        say("The running sandbox has moved its clock.")
    if as_json:
        print_json({"now": now})
    else:
        click.echo(now)


def _pages_address(directory: Path) -> str | None:
    try:
        running = json.loads((directory / RUNNING_FILE).read_bytes())
        return str(running["pages"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _advance_running(pages: str, by: str) -> str | None:
    """The new time of the sandbox that serves there; None when none does."""
    try:
        answer = call(f"{pages}/sandbox/clock", body={"advance": by}, timeout_s=ANSWER_TIMEOUT_S)
        if answer.status == 200:
            return str(answer.members()["now"])
    except ConnectionRefusedError:
        return None
    except (OSError, ValueError, KeyError) as error:
        raise Negative(f"The sandbox at {pages} didn't move its clock: {error}.") from None
    told = answer.body.decode(errors="replace")[:500]
    raise Negative(f"The sandbox at {pages} answered {answer.status}: {told}")

"""`mmo requests` shows what merchants asked of the sandbox that runs, and why a request was
refused."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from mmo_trio.cli.support.errors import NegativeAnswer
from mmo_trio.cli.support.http_client import send_request
from mmo_trio.cli.support.options import data_option
from mmo_trio.cli.support.output import print_json_line, terminal
from mmo_trio.cli.support.target import default_data_directory, running_address
from mmo_trio.system.display_text import visible_text

# Seconds between two questions to the sandbox: short enough to be read as they happen.
POLL_INTERVAL_S = 0.3


@click.command(short_help="Show the requests that a sandbox got, and why it refused some.")
@click.option(
    "-f", "--follow", is_flag=True, help="Go on with each request that comes, until Ctrl-C."
)
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def requests(follow: bool, data: Path | None, as_json: bool) -> None:
    """Print a line about each of the latest 500 requests to the running sandbox, and why it was
    refused.

    What is no HTTP, or has too large a body, is refused before that: see the answer itself.
    """
    directory = data or default_data_directory()
    last = 0
    show = _print_lines
    if as_json:
        show = _print_json

    # Ctrl-C is the way to end it.
    with suppress(KeyboardInterrupt):
        while True:
            for record in _fetch(directory, last):
                show(record)
                last = record["number"]
            if not follow:
                break

            time.sleep(POLL_INTERVAL_S)


def _fetch(directory: Path, last: int) -> Sequence[dict[str, Any]]:
    """Return the requests after this number. Raises NegativeAnswer where no sandbox runs."""
    with suppress(OSError, ValueError):
        answer = send_request(
            f"{running_address(directory, 'pages')}/sandbox/requests?after={last}"
        )
        if answer.status == 200:
            records: list[dict[str, Any]] = json.loads(answer.body)
            return records

    raise NegativeAnswer(
        f"No sandbox runs in {directory}. Start one with `mmo sandbox`, or name its --data."
    )


def _print_json(entry: dict[str, Any]) -> None:
    print_json_line(json.dumps(entry))


def _print_lines(entry: dict[str, Any]) -> None:
    """Print a line about a request; of a refused one also what was wrong."""
    out = terminal()
    status = entry["status"]
    style = "red"
    if status < 400:
        style = "green"

    line = Text.assemble(
        (f"{datetime.fromisoformat(entry['at']).astimezone():%H:%M:%S}  ", "dim"),
        visible_text(f"{entry['method']} {entry['path']}"),
        (f"  -> {status} {entry.get('problem', '')}".rstrip(), style),
        (f"  {entry['durationMs']} ms", "dim"),
    )
    out.print(line, soft_wrap=True)

    # The faults of fields say it all; their common sentence repeats the first of them.
    details = []
    if "detail" in entry:
        details = [error["detail"] for error in entry.get("errors", ())] or [entry["detail"]]
    for detail in details:
        out.print(Text(f"          {visible_text(detail)}"), soft_wrap=True)

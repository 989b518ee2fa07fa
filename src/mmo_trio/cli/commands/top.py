"""`mmo top` shows the figures of a running gateway, and what needs a person, in the terminal."""

from __future__ import annotations

import math
import time
from http import HTTPStatus
from pathlib import Path

import click
from attrs import asdict
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mmo_trio.cli.support.errors import StoreProblem, UsageProblem
from mmo_trio.cli.support.http_client import send_request
from mmo_trio.cli.support.live_figures import LiveFigures, MetricsReading, live_figures, read_metrics
from mmo_trio.cli.support.output import print_json, terminal
from mmo_trio.cli.support.target import CommandTarget, json_option, running_address, target_options

CONTENTS_WIDTH = 78
"""Columns of the screen, so that it fits a terminal of 80."""


@click.command()
@click.option("--every", "interval_s", type=click.FloatRange(min=0.2), default=2.0, help="Seconds between readings.")
@click.option("--once", is_flag=True, help="Print the figures of two readings, and end.")
@click.option("--url", help="Address of the console's listener; by default that of the settings, or of the sandbox.")
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Trust this authority (PEM) for an https address.",
)
@json_option
@target_options
def top(
    interval_s: float, once: bool, url: str | None, ca_file: Path | None, as_json: bool, target: CommandTarget
) -> None:
    """Show the live figures of a running gateway: requests, payments, callbacks and providers. Ctrl-C ends it.

    It reads the metrics on the console's listener, from which all processes of the gateway report.
    """
    address = f"{(url or _console_address(target)).rstrip('/')}/metrics"
    before = _read(address, ca_file)
    screen = terminal()
    if once or as_json or not screen.is_terminal:
        time.sleep(interval_s)
        figures = live_figures(_read(address, ca_file), before)
        if as_json:
            print_json(_json_value(asdict(figures)))
        else:
            screen.print(render(figures, address), width=CONTENTS_WIDTH)
        return
    with Live(render(live_figures(before, None), address), console=screen, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(interval_s)
            now = _read(address, ca_file)
            live.update(render(live_figures(now, before), address), refresh=True)
            before = now


def _console_address(target: CommandTarget) -> str:
    """Return the address of the console's listener. Raises StoreProblem for a sandbox that does not run."""
    if target.data_directory is None:
        return f"http://{target.settings.listen.console}"
    address = running_address(target.data_directory, "console")
    if address is None:
        raise StoreProblem(
            f"No sandbox runs in {target.data_directory}. Start `mmo sandbox`, or name a gateway by --config or --url."
        )
    return address


def _read(address: str, ca_file: Path | None) -> MetricsReading:
    """Read the metrics. Raises StoreProblem without an answer, and UsageProblem for one that holds none."""
    try:
        answer = send_request(address, ca_file=ca_file)
        if answer.status != HTTPStatus.OK:
            raise UsageProblem(f"{address} answered {answer.status}. Is it the listener of the console?")
        return read_metrics(answer.body.decode(), time.monotonic())
    except OSError as error:
        raise StoreProblem(f"{address} cannot be reached: {error}. Does the gateway run? See --url.") from None
    except ValueError as error:
        raise UsageProblem(f"{address} holds no metrics: {error}. Is it the listener of the console?") from None


def render(figures: LiveFigures, address: str) -> RenderableType:
    """Return the screen with these figures."""
    count = "1 process" if figures.processes == 1 else f"{figures.processes} processes"
    title = Text.assemble(("mmo top", "bold"), f"  {address}, {count}")
    return Group(title, Text(), _traffic_table(figures), Text(), _work_table(figures), Text(), _provider_table(figures))


def _traffic_table(figures: LiveFigures) -> Table:
    table = _table("a second", "requests", "created", "4xx", "5xx", "commits", "delivered", "undelivered")
    traffic = figures.traffic
    if traffic is None:
        table.add_row("", *["…"] * 7)
        return table
    table.add_row(
        "",
        _number(traffic.requests),
        _number(traffic.creations),
        _number(traffic.rejected),
        _alarming(traffic.failed, _number(traffic.failed)),
        _number(traffic.commits),
        _number(traffic.delivered),
        _alarming(traffic.undelivered, _number(traffic.undelivered)),
    )
    table.add_row(
        "99 % within", _milliseconds(traffic.slowest_ms), "", "", "", _milliseconds(traffic.commit_ms), "", ""
    )
    return table


def _work_table(figures: LiveFigures) -> Table:
    table = _table("now", "pending", "stuck", "overdue", "callbacks", "breakers", "suspense", "store")
    table.add_row(
        "",
        f"{figures.pending:,}",
        _alarming(figures.stuck, f"{figures.stuck:,}"),
        _alarming(figures.overdue, f"{figures.overdue:,}"),
        f"{figures.callbacks_open:,}",
        _alarming(figures.callback_breakers, f"{figures.callback_breakers:,}"),
        _alarming(figures.suspense, f"{figures.suspense:,}"),
        Text("up", "green") if figures.is_store_up else Text("DOWN", "bold red"),
    )
    return table


def _provider_table(figures: LiveFigures) -> Table:
    table = _table("provider", "submissions/s", "failures/s", "99 % within", "breaker", "new payments")
    for each in figures.providers:
        table.add_row(
            each.name,
            _number(each.submissions),
            _alarming(each.failures, _number(each.failures)),
            _milliseconds(each.exchange_ms),
            _alarming(each.breaker != "closed", each.breaker.replace("_", " ")),
            _alarming(each.is_closed, "closed" if each.is_closed else "taken"),
        )
    return table


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, width=CONTENTS_WIDTH)
    table.add_column(first, overflow="ellipsis", no_wrap=True, min_width=11)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _alarming(is_alarming: object, text: str) -> Text:
    return Text(text, "bold red" if is_alarming else "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def _milliseconds(value: float | None) -> str:
    if value is None:
        return "–"
    return "longer" if math.isinf(value) else f"{value:g} ms"


def _json_value(value: object) -> object:
    """Return the value with members in JSON's spelling, and null for infinity, which JSON cannot say."""
    if isinstance(value, dict):
        return {_member(key): _json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(each) for each in value]
    return None if value == math.inf else value


def _member(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))

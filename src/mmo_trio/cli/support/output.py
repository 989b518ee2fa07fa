"""Prints what commands say, JSON for programs and lines for people, and writes values as tables
have them; remarks go to standard error."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.providers.common.interface import AccountState
from mmo_sansio.values.clock import Instant, format_with_microseconds
from mmo_sansio.values.model import Status, Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.number_format import format_amount
from mmo_sansio.values.reversals import ReversalState
from mmo_trio.system.display_text import ascii_json, indent_json, visible_text

# The colour of each state that has one, on a terminal only.
STYLES: Mapping[StrEnum, str] = MappingProxyType(
    {
        Status.SUCCESS: "green",
        Status.FAILED: "red",
        Status.PENDING: "yellow",
        AccountState.WORKS: "green",
        AccountState.REFUSED: "red",
        AccountState.WARNED: "yellow",
        AccountState.UNKNOWN: "yellow",
        ReversalState.SUCCEEDED: "green",
        ReversalState.MOVED_AFTER_ALL: "green",
    }
)

# The colour of what a person has to look at.
WARNING = "red"

# Width of a table that is not printed to a terminal, so that nothing is folded or cut.
NON_TERMINAL_WIDTH = 1_000

# Items between two movements of a progress bar.
PROGRESS_STEP = 500


def print_status(text: str) -> None:
    """Print a remark to standard error."""
    click.echo(text, err=True)


def print_json(value: object) -> None:
    print_json_line(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_text(text: str) -> None:
    """Print JSON text, on a terminal with a member on each line."""
    if sys.stdout.isatty():
        text = indent_json(text)
    print_json_line(text)


def print_json_line(text: str) -> None:
    """Print JSON text as it is; what would not be visible, or what the output cannot show, is
    escaped."""
    encoding = sys.stdout.encoding or "ascii"
    if encoding.lower().startswith("utf"):
        click.echo(visible_text(text))
    else:
        click.echo(ascii_json(text))


def print_line(text: str, style: str = "") -> None:
    """Print a line or paragraph for people; its text is printed as it is, never interpreted as
    markup."""
    terminal().print(Text(visible_text(text), style=style))


def terminal(*, err: bool = False) -> Console:
    """Return the console for standard output, or for standard error."""
    stream = sys.stdout
    if err:
        stream = sys.stderr

    # None: as wide as the terminal is.
    is_terminal = stream.isatty()
    width = None
    if not is_terminal:
        width = NON_TERMINAL_WIDTH

    return Console(
        file=stream,
        width=width,
        highlight=False,
        force_terminal=is_terminal,  # FORCE_COLOR colours no pipe.
    )


def progress_bar() -> Progress:
    """Return a progress bar on standard error that vanishes when done; only for a terminal."""
    # Rich before 14.3 ends a disabled bar with a line feed.
    screen = terminal(err=True)
    screen.quiet = not screen.is_terminal
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=screen,
        transient=True,
        disable=screen.quiet,
    )


def progress_counter(bar: Progress, description: str) -> Callable[[], None]:
    """Add a task of unknown size to the bar; return what counts one item of it, which costs next to
    nothing."""
    task = bar.add_task(description, total=None)
    numbers = itertools.count(1)

    def count_one() -> None:
        number = next(numbers)
        if number % PROGRESS_STEP == 0:
            bar.update(task, completed=number)

    return count_one


def to_cell(value: object) -> Text:
    """Return a value as a table has it, in the colour of its state."""
    if isinstance(value, Text):
        return value

    # By type: a text of somebody else that says the same has no colour.
    style = ""
    if isinstance(value, Status | AccountState | ReversalState):
        style = STYLES.get(value, "")
    return Text(visible_text(_cell_text(value)), style=style)


def marked(text: str, style: str) -> Text:
    """Return a cell of a colour; its text is printed as it is."""
    return Text(visible_text(text), style=style)


def state_cell(state: ReversalState) -> Text:
    """Return the state of a reversal in words, in its colour."""
    return Text(state.words, style=STYLES.get(state, ""))


def status_cell(status: Status, why: str | None) -> Text:
    """Return a status in its colour, and behind it why a payment has failed."""
    if not why:
        return to_cell(status)
    return Text.assemble(to_cell(status), f" {why}")


def _cell_text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            if value:
                return "yes"
            return "no"
        case Money():
            return format_amount(value)
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def format_instant(instant: Instant | None) -> str | None:
    """Format an instant as transaction objects do (G5)."""
    if instant is None:
        return None
    return format_with_microseconds(instant)


def format_second(instant: Instant) -> str:
    """Format an instant for a table, in which microseconds would take the room of the
    references."""
    return f"{format_with_microseconds(instant)[:19]}Z"


def format_millisecond(instant: Instant) -> str:
    """Format an instant for a timeline, in which several events have the same second."""
    return f"{format_with_microseconds(instant)[:23]}Z"


def admin_transaction_json(transaction: Transaction) -> str:
    """Return JSON of a transaction: its brand and stage, whether it is simulated, and the
    merchant's object (T4)."""
    brand = json.dumps(transaction.order.brand, ensure_ascii=False)
    stage = json.dumps(transaction.progress.stage)
    # The merchant's own object, byte for byte (T4): it is put into the text and not read again.
    merchant_json = transaction_object(transaction).decode()
    simulated = json.dumps(transaction.order.is_simulated)
    return (
        f'{{"brand":{brand},"stage":{stage},"simulated":{simulated},"transaction":{merchant_json}}}'
    )


def format_sums(sums: Mapping[str, int]) -> dict[str, str]:
    """Return sums of minor units, by names that end in their currency, as exact amounts."""
    return {name: Money(minor, name.rpartition(" ")[2]).text for name, minor in sums.items()}

"""`mmo pay-outs` pays a file of pay-outs, each line once."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import anyio
import click
from rich.console import Console
from rich.progress import Progress

from mmo_merchant.payroll.journal import Journal, JournalError, LineState, write_results
from mmo_merchant.payroll.pay_roll import CONSTANTS, REMEDIES, Layout, PayLine, PayRoll, read_pay_roll, totals
from mmo_merchant.payroll.payment_run import Pace, PaymentRun, PayrollClient
from mmo_sansio.http.egress_rules import EgressRules, delivery_url_error
from mmo_sansio.values.model import Status
from mmo_sansio.values.money import Money, to_money

FAILED, UNUSABLE, OPEN = 1, 2, 3
"""The exit codes when lines have failed, when the file or an option is wrong, and when lines have not ended."""
_BARS: Final = {True: "accepted", False: "ended"}
_SETTINGS: Final = "TOML with options that are not given here, and the table `columns`: heading by field."


def _failure(message: str, exit_code: int = UNUSABLE) -> click.ClickException:
    """Return what ends the command with a sentence and an exit code."""
    error = click.ClickException(message.rstrip())
    error.exit_code = exit_code  # type: ignore[misc]
    return error


def _read_settings(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Take the options that are not given from a file."""
    if path is None:
        return
    try:
        settings = tomllib.loads(path.read_text("utf-8"))
        settings["columns"] = [f"{name}={heading}" for name, heading in settings.pop("columns", {}).items()]
    except (ValueError, AttributeError) as error:
        raise _failure(f"{path}: {error}.") from None
    allowed = sorted({str(each.name) for each in context.command.params} - {"file", "settings", "key"})
    if unknown := settings.keys() - set(allowed):
        raise _failure(f"{path} has {', '.join(sorted(unknown))}. It may have {', '.join(allowed)}.")
    context.default_map = settings


file_type = click.Path(path_type=Path, dir_okay=False, exists=True)
positive = click.FloatRange(0.05)


@click.command(short_help="Pay a file of pay-outs, each line once.")
@click.argument("file", type=file_type)
@click.option("--gateway", metavar="URL", default="", help="Scheme and host, such as https://gateway.example.")
@click.option("--key", envvar="API_KEY", default="", help="The API key; by default $API_KEY.")
@click.option("--map", "columns", multiple=True, metavar="FIELD=HEADING", help=f"FIELD is {', '.join(REMEDIES)}.")
@click.option("--delimiter", type=click.Choice([",", ";", "|"]), default=",", show_default=True)
@click.option("--currency", help="The currency of all lines.")
@click.option("--country", help="The country of all lines.")
@click.option("--method", help="The method key of all lines.")
@click.option("--result-url", required=True, help="HTTPS URL that the gateway sends the results to.")
@click.option("--name", default="", help="Tells it from another pay-roll with the same payments, such as 2026-11.")
@click.option("--per-second", type=positive, default=10.0, show_default=True, help="The most requests in a second.")
@click.option("--poll-s", type=positive, default=120.0, show_default=True, help="Seconds before asking for the ends.")
@click.option("--patience-s", type=positive, default=1_800.0, show_default=True, help="Seconds without a change.")
@click.option("--dry-run", is_flag=True, help="Check the file, and print what would be paid.")
@click.option("--status", is_flag=True, help="Write the result file by the journal, and ask the gateway nothing.")
@click.option("--settings", type=file_type, is_eager=True, expose_value=False, callback=_read_settings, help=_SETTINGS)
def pay_outs(file: Path, gateway: str, key: str, dry_run: bool, status: bool, **options: Any) -> None:
    """Pay each line of the CSV file FILE, and write what became of it to FILE.results.csv.

    Run the same command again whenever it has ended early: it goes on by its journal, FILE.journal, and pays no line
    twice. Exit code 0: every line is paid; 1: some have failed; 2: the file or the options can't be used; 3: some have
    not ended.
    """
    layout = _layout(options)
    with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
        roll = read_pay_roll(text, layout)
    _report_file(roll)
    if dry_run:
        return
    if not gateway or not key:
        raise _failure("Give --gateway, and the API key in the variable API_KEY.")
    try:
        with closing(Journal(file.with_name(f"{file.name}.journal"), gateway, roll.lines)) as journal:
            client = PayrollClient(gateway, key, journal=journal, pace=Pace(1 / options["per_second"]))
            fault = "" if status else _pay(client, roll.lines, journal, options)
            results = file.with_name(f"{file.name}.results.csv")
            write_results(results, roll.lines, journal)
            _report_end(roll.lines, journal, fault, results)
    except JournalError as error:
        raise _failure(str(error)) from None


def _layout(options: dict[str, Any]) -> Layout:
    """Return what the options say about the file. Raises ClickException."""
    headings = {name: heading.strip() for name, _, heading in (each.partition("=") for each in options["columns"])}
    if not (headings.keys() <= REMEDIES.keys() and all(headings.values())):
        raise _failure(f"--map: write FIELD=HEADING, with one of the fields {', '.join(REMEDIES)}.")
    if (error := delivery_url_error(options["result_url"], rules=EgressRules(allow_private=True))) is not None:
        raise _failure(f"--result-url: {error}")
    return Layout(
        headings=headings,
        constants={name: options[name] for name in CONSTANTS if options[name] is not None},
        result_url=options["result_url"],
        name=options["name"],
        delimiter=options["delimiter"],
    )


def _report_file(roll: PayRoll) -> None:
    """Print what the file says. Raises ClickException if it has faults."""
    for each in roll.faults:
        click.echo(each)
    if roll.faults:
        raise _failure(f"The file has {len(roll.faults)} faults. Nothing was sent.")
    for line, earlier in roll.repeats():
        click.echo(f"line {line} pays the same to the same number as line {earlier}: is that meant?")
    _report_amounts("in the file", [each.payment.amount for each in roll.lines])


def _report_amounts(title: str, amounts: Sequence[Money]) -> None:
    click.echo(f"{title}: {len(amounts)} pay-outs; {', '.join(map(str, totals(amounts))) or 'no money'}")


def _pay(client: PayrollClient, lines: Sequence[PayLine], journal: Journal, options: dict[str, Any]) -> str:
    """Pay, with bars on a terminal. Return why it has ended early, or an empty text."""
    screen, faults = Console(stderr=True), list[str]()
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar:
        bars = {is_pending: bar.add_task(title, total=len(lines)) for is_pending, title in _BARS.items()}

        def show(state: LineState) -> None:
            bar.advance(bars[state.status is Status.PENDING])

        for each in journal.states.values():
            show(each)
        limits = {name: options[name] for name in ("poll_s", "patience_s")}
        run = PaymentRun(client, lines, journal, on_record=show, **limits)
        try:
            anyio.run(run.run)
        except* KeyboardInterrupt:
            faults = ["It was interrupted."]
        except* OSError as errors:
            faults = [f"The journal can't be written: {errors.exceptions[0]}."]
    return faults[0] if faults else str(run.fault or "")


def _report_end(lines: Sequence[PayLine], journal: Journal, fault: str, results: Path) -> None:
    """Print what became of the lines. Raises ClickException unless all are paid."""
    amounts: dict[Status | None, list[Money]] = {Status.SUCCESS: [], Status.FAILED: [], Status.PENDING: [], None: []}
    for each in lines:
        state, amount = journal.state(each), each.payment.amount
        if state is not None and state.final_amount:
            amount = to_money(Decimal(state.final_amount), amount.currency)
        amounts[state and state.status].append(amount)
    for status, some in amounts.items():
        _report_amounts("not sent" if status is None else status.value, some)
    if earlier := sum(each.is_earlier for each in journal.states.values()):
        click.echo(f"{earlier} of them were there before this journal began. Another pay-roll needs another --name.")
    click.echo(f"See {results}.")
    if amounts[None] or amounts[Status.PENDING]:
        raise _failure(f"Not every line has ended: run the same command again. {fault}", OPEN)
    if amounts[Status.FAILED]:
        raise _failure("Some lines have failed. Pay them by a file of their own.", FAILED)

"""`mmo pay-outs` pays a file of pay-outs, each line once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import anyio
import click
from rich.console import Console
from rich.progress import Progress

from mmo_merchant.api.api_errors import ApiRejection, GatewayUnavailable, KeyRejected
from mmo_merchant.api.gateway_requests import ApiAccess
from mmo_merchant.payroll.earlier_journals import (
    EarlierLine,
    find_news,
    find_repeats,
    find_unknown,
    read_journal,
    read_journals,
    tell_paid,
)
from mmo_merchant.payroll.gateway_questions import (
    MethodAnswers,
    ask_methods,
    judge_lines,
    read_recorded,
)
from mmo_merchant.payroll.journal import (
    SUFFIX,
    Journal,
    JournalError,
    LineState,
    Phase,
    is_failed_file_of,
    open_journal,
    write_failed,
    write_results,
)
from mmo_merchant.payroll.pay_roll import (
    CONSTANTS,
    REMEDIES,
    Layout,
    PayLine,
    PayRoll,
    read_lines,
    totals,
)
from mmo_merchant.payroll.payee_names import compare_names
from mmo_merchant.payroll.payment_run import Pace, PacedClient, PaymentRun, PayrollClient
from mmo_merchant.tables.csv_rows import DELIMITER_NAMES
from mmo_merchant.tables.faults import describe_faults, name_lines
from mmo_merchant.tables.numbers import Notation, declared_format
from mmo_merchant.tables.table_file import Table, TableForm, open_table
from mmo_sansio.http.egress_rules import EgressRules, delivery_url_error
from mmo_sansio.values.model import Status
from mmo_sansio.values.money import Money, to_money
from mmo_sansio.values.number_format import format_amount

_NO_NAME: Final = (
    "To pay, give the pay-roll a --name, such as 2026-11, and best each line a key by --map "
    "key=HEADING, such as its staff number (without one the phone number is the key); or give each "
    "line a merchantReference."
)
_NO_GATEWAY: Final = "Give --gateway, and the API key in the variable API_KEY."
_SETTINGS: Final = (
    "TOML with options that are not given here, and the table `columns`: heading by field."
)


# Exit codes: a scheduled job tells a file to be mended from a run to be repeated by them.
class NothingSent(click.ClickException):
    """The file can't be paid as it is."""

    exit_code = 2


class LinesNotEnded(click.ClickException):
    """Some lines have not ended."""

    exit_code = 3


def _read_settings(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Take the options that are not given from a file."""
    if path is None:
        return

    try:
        settings = tomllib.loads(path.read_text("utf-8"))
        settings["columns"] = [
            f"{name}={heading}" for name, heading in settings.pop("columns", {}).items()
        ]
    except (ValueError, AttributeError) as error:
        raise click.UsageError(f"{path}: {error}.") from None

    # Which file is paid, by whose key and whether at all, is said in the command each time.
    allowed = sorted(
        {str(param.name) for param in context.command.params}
        - {"file", "settings", "key", "dry_run", "names", "status"}
    )
    if unknown := settings.keys() - set(allowed):
        raise click.UsageError(
            f"{path} has {', '.join(sorted(unknown))}. It may have {', '.join(allowed)}."
        )

    # What is given in the command counts more than what the file says.
    context.default_map = settings


file_type = click.Path(path_type=Path, dir_okay=False, exists=True)
positive = click.FloatRange(0.05)


@click.command(short_help="Pay a file of pay-outs, each line once.")
@click.argument("file", type=file_type)
@click.option(
    "--gateway", metavar="URL", default="", help="Scheme and host, such as https://gateway.example."
)
@click.option("--key", envvar="API_KEY", default="", help="The API key; by default $API_KEY.")
@click.option(
    "--map",
    "columns",
    multiple=True,
    metavar="FIELD=HEADING",
    help=f"FIELD is {', '.join(REMEDIES)}.",
)
@click.option(
    "--delimiter",
    type=click.Choice(list(DELIMITER_NAMES)),
    help="What stands between cells, where it is not found.",
)
@click.option("--encoding", help="The encoding of a CSV file, such as cp1252.")
@click.option("--sheet", help="The sheet of an .xlsx file that has several.")
@click.option(
    "--decimal",
    type=click.Choice([notation.value for notation in Notation]),
    help="What stands before decimals; allows separators of thousands, too.",
)
@click.option("--currency", help="The currency of all lines.")
@click.option("--country", help="The country of all lines.")
@click.option("--method", help="The method key of all lines.")
@click.option(
    "--result-url", required=True, help="HTTPS URL that the gateway sends the results to."
)
@click.option(
    "--name",
    default="",
    help="Names the pay-roll, such as 2026-11. A reference is made of it and of the line's key.",
)
@click.option(
    "--allow-repeats",
    is_flag=True,
    help="Pay what looks as if it were paid twice, or before by another file.",
)
@click.option(
    "--per-second",
    type=positive,
    default=10.0,
    show_default=True,
    help="The most requests in a second.",
)
@click.option(
    "--poll-s",
    type=positive,
    default=120.0,
    show_default=True,
    help="Seconds before asking for the ends.",
)
@click.option(
    "--patience-s",
    type=positive,
    default=1_800.0,
    show_default=True,
    help="Seconds without a change.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check the file, by the gateway's limits as well, and print what would be paid.",
)
@click.option(
    "--names",
    is_flag=True,
    help="With --dry-run: ask whose account is behind each number, and print it beside the file's "
    "name.",
)
@click.option(
    "--status",
    is_flag=True,
    help="Write the result file by the journal, and ask the gateway nothing.",
)
@click.option(
    "--settings",
    type=file_type,
    is_eager=True,
    expose_value=False,
    callback=_read_settings,
    help=_SETTINGS,
)
def pay_outs(
    file: Path, gateway: str, key: str, dry_run: bool, status: bool, **options: Any
) -> None:
    """Pay each line of the table FILE, CSV or .xlsx, and write what became of it to
    FILE.results.csv, and what has failed to FILE.failed.csv, ready to be mended and paid.

    Run the same command again whenever it has ended early: it goes on by its journal, FILE.journal,
    and pays no line twice. Exit code 0: every line is paid; 1: some have failed; 2: the file or the
    options can't be used; 3: some have not ended."""
    if options["names"]:
        _check_names_option(gateway, key, is_dry=dry_run)

    layout = _layout(options)
    table, roll = _read_file(file, layout, options)
    lines = roll.lines

    path = file.with_name(f"{file.name}{SUFFIX}")
    earlier = _tell_earlier(path, gateway, lines)
    _check_access(gateway, key, is_dry=dry_run, needs_name=roll.needs_name)

    # Nothing is paid again that a journal has paid, which costs no request to find out, or that the
    # gateway's records have.
    if earlier is not None:
        _refuse_repeats(lines, earlier, layout)

    if earlier is not None and not status:
        recorded = _ask_gateway(lines, gateway, key, layout, options, is_dry=dry_run)
        if recorded is not None:
            news = find_news(earlier, recorded)
            unknown = find_unknown(lines, earlier, recorded)
            _tell(tell_paid(lines, news))
            _refuse_repeats(lines, [*earlier, *news], layout, unknown)

    if dry_run:
        _end_dry_run(lines, gateway, key, options, needs_name=roll.needs_name)
        return

    try:
        with open_journal(path, gateway, lines, layout.name) as journal:
            remark = ""
            if not status:
                click.echo(
                    f"Sending. After {options['poll_s']:g} s the ends are asked for; {path} has "
                    f"each state."
                )
                remark = _pay(journal, lines, gateway, key, options)

            _write(file, table, options["encoding"], lines, journal)
            _report_end(file, lines, journal, remark)
    except JournalError as fault:
        raise NothingSent(f"{path}: {fault}") from None


def _check_names_option(gateway: str, key: str, *, is_dry: bool) -> None:
    """Raise UsageError unless names may be asked for, and somebody can be asked."""
    if not is_dry:
        raise click.UsageError("--names: give it with --dry-run, which sends nothing.")
    if not (gateway and key):
        raise click.UsageError(f"--names: the gateway is asked. {_NO_GATEWAY}")


def _check_access(gateway: str, key: str, *, is_dry: bool, needs_name: bool) -> None:
    """Raise UsageError where something is missing that paying needs, and for an unsafe gateway."""
    # References are made of the name: without it two months would have the same ones.
    if needs_name and not is_dry:
        raise click.UsageError(_NO_NAME)
    if not is_dry and not (gateway and key):
        raise click.UsageError(_NO_GATEWAY)

    if gateway and key:
        try:
            ApiAccess(gateway, key)
        except ValueError as fault:
            raise click.UsageError(f"--gateway: {fault}") from None


def _read_file(file: Path, layout: Layout, options: dict[str, Any]) -> tuple[Table, PayRoll]:
    """Return what is in the file, and say how much. Raises NothingSent if any line has a fault: a
    file is paid as a whole, so that nobody has to find out which lines of it were."""
    delimiter = None
    if options["delimiter"] is not None:
        delimiter = DELIMITER_NAMES[options["delimiter"]]

    form = TableForm(delimiter, options["encoding"], options["sheet"])
    table = open_table(file, form, layout.columns)
    roll = read_lines(table, layout)
    _tell(describe_faults(roll.faults))
    if roll.faults or not isinstance(table, Table):
        raise NothingSent(f"Faults in the file: {len(roll.faults)}. Nothing was sent.")

    if roll.totals:
        click.echo(f"{name_lines(roll.totals).capitalize()} with a total: left out.")

    _report("in the file", [line.payment.amount for line in roll.lines])
    return table, roll


def _end_dry_run(
    lines: Sequence[PayLine], gateway: str, key: str, options: dict[str, Any], *, needs_name: bool
) -> None:
    """Say what is still missing, and whose names differ."""
    if needs_name:
        click.echo(_NO_NAME)

    if options["names"]:
        _compare_names(lines, gateway, key, options)
    else:
        click.echo("No fault was found in the file. Nothing was sent.")


def _layout(options: dict[str, Any]) -> Layout:
    """Return what the options say of the file. Raises UsageError."""
    headings = {
        name: heading.strip()
        for name, _, heading in (option.partition("=") for option in options["columns"])
    }
    if not (headings.keys() <= REMEDIES.keys() and all(headings.values())):
        raise click.UsageError(
            f"--map: write FIELD=HEADING, with one of the fields {', '.join(REMEDIES)}."
        )

    # An address that is wrong would show only at the first pay-out, by a rejection of each line.
    result_url = options["result_url"]
    error = delivery_url_error(result_url, rules=EgressRules(allow_private=True))
    if error is not None:
        raise click.UsageError(f"--result-url: {error}")

    constants = {name: options[name] for name in CONSTANTS if options[name] is not None}
    return Layout(
        headings,
        constants,
        result_url,
        options["name"],
        declared_format(options["decimal"]),
        options["allow_repeats"],
    )


def _tell(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        click.echo(sentence)


def _tell_earlier(
    path: Path, gateway: str, lines: Sequence[PayLine]
) -> Sequence[EarlierLine] | None:
    """Say what journals have paid of the lines. Return what other pay-rolls have; None where the
    file has a journal of its own: it has taken these lines, and goes on with them."""
    own = list[EarlierLine]()
    if path.exists():
        own = list(read_journal(path))

    # What this file has paid itself is no repeat: the run goes on where it ended.
    _tell(tell_paid(lines, own))
    if own:
        return None

    earlier = read_journals(path.parent, gateway=gateway)
    _tell(tell_paid(lines, earlier))
    return earlier


def _refuse_repeats(
    lines: Sequence[PayLine],
    earlier: Sequence[EarlierLine],
    layout: Layout,
    unknown: Sequence[str] = (),
) -> None:
    """Raise NothingSent for what would be paid again, or may be; `unknown` are sentences about
    what the gateway does not know."""
    forbidden, doubtful = find_repeats(layout.name, lines, earlier)
    doubtful += unknown

    # A first try that may still be paid is waited for, whatever was meant.
    _tell([*forbidden, *doubtful])
    if forbidden:
        raise NothingSent("Wait for the first try to end. Nothing was sent.")

    # Anything else may be meant, and only a person knows.
    if doubtful and not layout.allows_repeats:
        raise NothingSent(
            "Somebody could be paid twice. Nothing was sent. The pay-roll of another month needs "
            "another --name; if all of it is meant, give --allow-repeats."
        )


def _ask_gateway(
    lines: Sequence[PayLine],
    gateway: str,
    key: str,
    layout: Layout,
    options: dict[str, Any],
    *,
    is_dry: bool,
) -> list[EarlierLine] | None:
    """Return what the gateway's records have of the last weeks; None where a dry run can't ask for
    it. A dry run looks at the limits of
    the methods as well. Raises NothingSent for lines that would fail and, of a dry run, for a key
    that the gateway refuses; LinesNotEnded where nothing may be sent as the gateway did not
    answer."""
    if not gateway or not key:
        click.echo(f"The gateway was not asked. {_NO_GATEWAY}")
        return None

    answers = MethodAnswers((), ())
    recorded: list[EarlierLine] | None = None

    async def ask() -> None:
        nonlocal answers, recorded
        client = PacedClient(gateway, key, pace=Pace(1 / options["per_second"]))
        async with client:
            # The limits are for people who can mend the file; a run learns them line by line.
            if is_dry and (brand := await ask_methods(client)) is not None:
                answers = judge_lines(lines, brand)

            patience_s = 0.0
            if not is_dry:
                patience_s = options["patience_s"]

            recorded = await read_recorded(
                client, layout.name, now=datetime.now(UTC), patience_s=patience_s
            )

    remark = ""
    try:
        anyio.run(ask)
    except (ApiRejection, GatewayUnavailable) as error:
        # A refusal is the gateway's word: it would refuse the payments as well.
        if is_dry and isinstance(error, ApiRejection):
            raise NothingSent(_refusal(error)) from None

        remark = str(error)
    except KeyboardInterrupt:
        remark = "It was interrupted."

    # Without the records it is unknown who was paid: nothing leaves. A dry run sends nothing
    # anyway.
    if remark and not is_dry:
        _report("not sent", [line.payment.amount for line in lines])
        raise LinesNotEnded(
            "Nothing was sent, as the gateway was not asked for earlier payments: run the same "
            f"command again. {remark}"
        )

    if remark:
        click.echo(f"The gateway could not be asked. {remark}")

    _tell([*describe_faults(answers.faults), *answers.remarks])
    if answers.faults:
        raise NothingSent(f"{len(answers.faults)} lines would fail. Nothing was sent.")

    return recorded


def _refusal(error: ApiRejection) -> str:
    return (
        f"The gateway refuses to answer: {error}. Check --gateway and the API key. Nothing was "
        "sent."
    )


def _compare_names(
    lines: Sequence[PayLine], gateway: str, key: str, options: dict[str, Any]
) -> None:
    """Print each name beside that of the file as soon as it is told. Raises NothingSent for a key
    that the gateway refuses."""

    async def ask() -> None:
        client = PacedClient(gateway, key, pace=Pace(1 / options["per_second"]))
        async with client:
            async for sentence in compare_names(client, lines):
                click.echo(sentence)

    try:
        anyio.run(ask)
    except KeyRejected as error:
        raise NothingSent(_refusal(error)) from None
    except (ApiRejection, GatewayUnavailable) as error:
        click.echo(f"The names could not be asked for. {error}")
    except KeyboardInterrupt:
        click.echo("It was interrupted. Nothing was sent.")


def _write(
    file: Path, table: Table, encoding: str | None, lines: Sequence[PayLine], journal: Journal
) -> None:
    """Write the result file and, once all lines have ended, the file of those that have failed.
    Raises LinesNotEnded where the result file can't be written."""
    try:
        write_results(file.with_name(f"{file.name}.results.csv"), table.names, lines, journal)

        # A line that is pending may fail yet: the file of the failed ones is for all of them.
        states = [journal.state(line) for line in lines]
        if any(state is None or state.phase in (Phase.SENT, Phase.ACCEPTED) for state in states):
            return

        write_failed(
            _failed_file(file),
            table.names,
            lines,
            journal,
            reference_at=table.positions.get("merchantReference"),
            delimiter=table.source.delimiter,
            encoding=encoding or "utf-8-sig",  # With a mark, by which spreadsheets know UTF-8.
        )
    except OSError as error:
        raise LinesNotEnded(
            f"The result file can't be written: {error}. Run the same command again."
        ) from None


def _failed_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.failed.csv")


def _advise_failed(failed: Path, lines: Sequence[PayLine], journal: Journal) -> str:
    """Return what to do with the file of the lines that have failed, which may be done."""
    # Where each month has a file of the same name, last month's may stand there still.
    if not is_failed_file_of(failed, lines, journal):
        return (
            f"{failed} is about other lines, of another pay-roll: put it elsewhere, with its "
            "journal if it has one, and run the same command again to have that of these lines."
        )

    # It has a journal of its own once somebody has begun to pay it.
    if failed.with_name(f"{failed.name}{SUFFIX}").exists():
        return f"{failed} was paid since: {failed}.results.csv says what became of them."
    return f"Mend them in {failed}, and pay that file in the same way."


def _report(title: str, amounts: Sequence[Money]) -> None:
    click.echo(
        f"{title}: {len(amounts)} pay-outs; "
        f"{', '.join(map(format_amount, totals(amounts))) or 'no money'}"
    )


def _pay(
    journal: Journal, lines: Sequence[PayLine], gateway: str, key: str, options: dict[str, Any]
) -> str:
    """Pay, with bars on a terminal. Return why it has ended early, or an empty text."""
    # What remains if Ctrl-C ends the run.
    remark = "It was interrupted."

    # Rich before 14.3 ends a disabled bar with a line feed.
    screen = Console(stderr=True)
    screen.quiet = not screen.is_terminal
    with (
        suppress(KeyboardInterrupt),
        Progress(console=screen, transient=True, disable=screen.quiet) as bar,
    ):
        client = PayrollClient(gateway, key, journal=journal, pace=Pace(1 / options["per_second"]))
        run = PaymentRun(
            client,
            lines,
            journal,
            poll_s=options["poll_s"],
            patience_s=options["patience_s"],
            is_known=options["allow_repeats"],
        )
        bars = {phase: bar.add_task(phase, total=len(lines)) for phase in ("accepted", "ended")}

        def advance(state: LineState) -> None:
            if state.status is Status.PENDING:
                bar.advance(bars["accepted"])
            else:
                bar.advance(bars["ended"])

        # The bars begin with what an earlier run has done.
        run.on_record = advance
        for line_state in journal.states.values():
            advance(line_state)

        try:
            anyio.run(run.run)
            remark = str(run.fault or "")
        except* OSError as errors:
            # A task group raises groups, and the journal is written within one.
            remark = f"The journal can't be written: {errors.exceptions[0]}."

    return remark


def _report_end(file: Path, lines: Sequence[PayLine], journal: Journal, remark: str) -> None:
    """Print what became of the lines. Raises ClickException unless all are paid."""
    amounts = _amounts_by_status(lines, journal)
    for status, status_amounts in amounts.items():
        title = "not sent"
        if status is not None:
            title = status.value
        _report(title, status_amounts)

    if earlier := sum(state.is_earlier for state in journal.states.values()):
        click.echo(
            f"{earlier} of them were there before this journal began. Another pay-roll needs "
            "another --name."
        )

    # 1. Lines that another run of the same command will end.
    taken = [state for state in journal.states.values() if state.phase is Phase.TAKEN]
    if amounts[None] or len(amounts[Status.PENDING]) > len(taken):
        raise LinesNotEnded(
            f"Not every line has ended: run the same command again. {remark}".rstrip()
        )

    # 2. Lines under whose reference somebody else may have been paid: only a person can tell.
    if taken:
        raise LinesNotEnded(
            f"The references of {len(taken)} lines belong to other payments, which may have paid "
            "the same people. See the result file, and look at each before you pay anybody again."
        )

    # 3. Lines that have failed without proof, which nobody must pay again yet.
    unproved = [
        line.number
        for line in lines
        if (state := journal.state(line)) is not None and state.phase is Phase.UNPROVED
    ]

    mend = ""
    if len(amounts[Status.FAILED]) > len(unproved):
        mend = _advise_failed(_failed_file(file), lines, journal)

    if unproved:
        others = ""
        if mend:
            others = f" Other lines have failed. {mend}"

        raise LinesNotEnded(
            f"{name_lines(unproved).capitalize()} failed by a code that does not prove that nobody "
            "was paid; see the result file. Ask the gateway's staff about each before you pay "
            f"anybody again.{others}"
        )

    # 4. Lines that have failed and may be paid again.
    if mend:
        raise click.ClickException(f"Some lines have failed. {mend}")


def _amounts_by_status(
    lines: Sequence[PayLine], journal: Journal
) -> dict[Status | None, list[Money]]:
    """Return what was paid, or asked for, by what became of it; None: it was not sent."""
    amounts: dict[Status | None, list[Money]] = {
        Status.SUCCESS: [],
        Status.FAILED: [],
        Status.PENDING: [],
        None: [],
    }
    for line in lines:
        state = journal.state(line)
        amount = line.payment.amount
        if state is None:
            amounts[None].append(amount)
            continue

        # An operator may have paid another amount than was asked for (S2).
        if state.final_amount:
            amount = to_money(Decimal(state.final_amount), amount.currency)
        amounts[state.status].append(amount)

    return amounts

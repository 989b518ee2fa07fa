"""`mmo conform` plays callbacks and situations at a merchant's endpoint, and reports what it should
have done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import click
from rich.text import Text

from mmo_merchant.endpoint_check.check import check_endpoint, find_probe, new_run, numbered
from mmo_merchant.endpoint_check.player import played_endpoint
from mmo_merchant.endpoint_check.report import situation_members, verdict_members, write_junit
from mmo_merchant.endpoint_check.situations import SITUATIONS
from mmo_merchant.endpoint_check.situations.situation import Situation
from mmo_merchant.endpoint_check.situations.verdict import Verdict, VerdictKind
from mmo_sansio.http.egress_rules import UrlError, UrlTarget, parse_url
from mmo_sansio.values.clock import from_datetime
from mmo_trio.cli.support.errors import UsageProblem
from mmo_trio.cli.support.options import file_type, json_option
from mmo_trio.cli.support.output import print_json, print_line, print_status, terminal
from mmo_trio.cli.support.tables import print_rows
from mmo_trio.system.display_text import visible_text

# The name of the suite in JUnit's report, by which CI systems group it.
SUITE = "mmo conform"

# Situations of which a report says by name that they were not played.
NAMES_LISTED_MAX = 3

# Words of one width, so that the names behind them stand below each other.
_LABELS = {
    VerdictKind.PASSED: ("ok      ", "green"),
    VerdictKind.FAILED: ("FAILED  ", "bold red"),
    VerdictKind.ADVICE: ("advice  ", "yellow"),
    VerdictKind.NOT_PLAYED: ("-       ", "dim"),
}


@click.command(short_help="Test a merchant's endpoint for callbacks.")
@click.argument("url", required=False)
@click.option(
    "--key", envvar="API_KEY", help="The API key that the endpoint expects; by default $API_KEY."
)
@click.option(
    "--ca-file", type=file_type, help="A further authority (PEM) that has signed its certificate."
)
@click.option(
    "--allow-http", is_flag=True, help="Permit http://, for an endpoint on your own machine."
)
@click.option(
    "--probe",
    metavar="URL|COMMAND",
    help="Reports what was handled; {reference} is the gatewayReference.",
)
@click.option(
    "--merchant-reference",
    metavar="REFERENCE",
    help="One that the merchant knows, for all payments.",
)
@click.option(
    "--only",
    "names",
    multiple=True,
    metavar="NAME",
    help="Play this situation; several may be given.",
)
@click.option("--list", "list_only", is_flag=True, help="List the situations.")
@click.option("--junit", type=file_type, help="Write the report as JUnit XML, too.")
@json_option
def conform(
    url: str | None,
    key: str | None,
    ca_file: Path | None,
    allow_http: bool,
    probe: str | None,
    merchant_reference: str | None,
    names: Sequence[str],
    list_only: bool,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Play callbacks and situations at the endpoint URL, and report what it should have done and
    why.

    The callbacks carry your key and tell of payments that nobody has made: use a copy of your shop
    for tests, never the real one. The exit code is 1 if the endpoint fails in a situation."""
    situations = _chosen(names)
    if list_only:
        rows = [situation_members(situation) for situation in situations]
        print_rows(
            {"name": "name", "level": "level", "what happens": "title"}, rows, as_json=as_json
        )
        return

    if url is None or not key:
        raise UsageProblem(
            "Give the URL of the endpoint, and its API key in --key or in the variable API_KEY."
        )

    target = _parse_target(url, allow_http=allow_http)
    if not as_json:
        print_status(f"Playing {len(situations)} situations at {visible_text(url)}")

    verdicts = _check(target, key.encode(), ca_file, situations, probe, merchant_reference)
    if junit is not None:
        write_junit(junit, verdicts, suite=SUITE)

    if as_json:
        print_json([verdict_members(verdict) for verdict in verdicts])
    else:
        _print_report(verdicts)

    # After the report, which says why: CI systems read the code alone.
    if any(verdict.kind is VerdictKind.FAILED for verdict in verdicts):
        raise SystemExit(1)


def _check(
    target: UrlTarget,
    key: bytes,
    ca_file: Path | None,
    situations: Sequence[Situation],
    probe: str | None,
    merchant_reference: str | None,
) -> list[Verdict]:
    endpoint = played_endpoint(target, key, ca_file)
    try:
        ask = None
        if probe is not None:
            ask = find_probe(probe, endpoint)
    except ValueError as fault:
        raise UsageProblem(f"--probe: {fault}") from None

    now = from_datetime(datetime.now(UTC))
    played = numbered(situations, run=new_run(now), now=now, merchant_reference=merchant_reference)
    return anyio.run(partial(check_endpoint, endpoint, played, probe=ask))


def _chosen(names: Sequence[str]) -> Sequence[Situation]:
    known = {situation.name: situation for situation in SITUATIONS}
    if unknown := [name for name in names if name not in known]:
        raise UsageProblem(
            f"--only {unknown[0]}: there is no such situation. `mmo conform --list` lists them."
        )
    return [known[name] for name in names] or SITUATIONS


def _parse_target(url: str, *, allow_http: bool) -> UrlTarget:
    try:
        target = parse_url(url)
    except UrlError as error:
        raise UsageProblem(f"{url}: {error}") from None

    if target.scheme == "http" and not allow_http:
        raise UsageProblem(
            f"{url}: callbacks only travel over HTTPS (C8). For an endpoint on your own machine "
            f"give --allow-http."
        )
    return target


def _print_report(verdicts: Sequence[Verdict]) -> None:
    """Print each situation that was played, those that were not, what the merchant has to ask
    himself, and the counts."""
    for verdict in verdicts:
        if verdict.kind is not VerdictKind.NOT_PLAYED:
            _print_verdict(verdict)

    _print_not_played(verdicts)
    _print_questions(verdicts)

    kinds = [verdict.kind for verdict in verdicts]
    print_line(
        f"\n{kinds.count(VerdictKind.PASSED)} passed, {kinds.count(VerdictKind.FAILED)} failed,"
        f" {kinds.count(VerdictKind.ADVICE)} with advice, {kinds.count(VerdictKind.NOT_PLAYED)} "
        f"not played.",
        "bold",
    )


def _print_verdict(verdict: Verdict) -> None:
    situation = verdict.situation
    word, style = _LABELS[verdict.kind]
    terminal().print(Text.assemble((word, style), (f"{situation.name}  ", "bold"), situation.title))
    if verdict.kind in (VerdictKind.FAILED, VerdictKind.ADVICE):
        for reason in verdict.reasons:
            print_line(f"          {reason}")

        print_line(f"          {situation.duty} ({', '.join(situation.clauses)})", "dim")


def _print_not_played(verdicts: Sequence[Verdict]) -> None:
    # Together by their reason, which is often one for many.
    names_by_reason = defaultdict[str, list[str]](list)
    for verdict in verdicts:
        if verdict.kind is VerdictKind.NOT_PLAYED:
            names_by_reason[" ".join(verdict.reasons)].append(verdict.situation.name)

    for reason, names in names_by_reason.items():
        listed = f"{len(names)} situations"
        if len(names) <= NAMES_LISTED_MAX:
            listed = ", ".join(names)

        terminal().print(Text.assemble(_LABELS[VerdictKind.NOT_PLAYED], f"{listed}: {reason}"))


def _print_questions(verdicts: Sequence[Verdict]) -> None:
    questions = [
        (verdict.situation.name, verdict.question)
        for verdict in verdicts
        if verdict.question is not None
    ]
    if questions:
        print_line("\nAsk yourself, as it does not show from outside (or give --probe):", "bold")
        for name, question in questions:
            print_line(f"  {name}: {question}")

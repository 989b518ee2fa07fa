"""`mmo audit` lists the audit log and verifies its hash chain."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import click

from mmo_trio.admin.auditing import verify_audit_log
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import format_instant, format_second, print_json, print_status
from mmo_trio.cli.support.tables import ListEntry, print_list
from mmo_trio.cli.support.target import CommandTarget, target_options
from mmo_trio.console.permissions import PersonalDataMask
from mmo_trio.console.views import show_event
from mmo_trio.storage.interface.admin_types import AuditHead, AuditRow

# The end of a log as `verify` prints it: the number of its last row, and that row's hash.
_HEAD_PATTERN = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


@click.group()
def audit() -> None:
    """Show the audit log: sign-ins, and all actions of users and of commands."""


@audit.command("list")
@click.option("--about", help="Only about this, e.g. payment:REFERENCE or provider:NAME.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=50,
    show_default=True,
    help="The most that are listed.",
)
@target_options
@json_option
def list_(about: str | None, limit: int, target: CommandTarget, as_json: bool) -> None:
    """List the newest rows, the newest first."""
    audit_rows = target.with_store(lambda store: store.admin.audit(about=about, limit=limit))
    if not as_json:
        _print_events(audit_rows)
        return

    rows = [
        {
            "number": row.number,
            "at": format_instant(row.event.at),
            "actor": row.event.actor,
            "act": row.event.action,
            "about": row.event.about,
            "detail": json.loads(row.event.detail),
            "previous": row.previous_hash,
            "hash": row.hash,
            "keyId": row.key_id,
            "mac": row.mac,
        }
        for row in audit_rows
    ]
    print_json(rows)


def _print_events(audit_rows: Sequence[AuditRow]) -> None:
    rows = []
    entries = []
    for row in audit_rows:
        event = row.event
        details = show_event(row, PersonalDataMask(can_see_personal_data=True)).details
        words = " · ".join(f"{name} {value}" for name, value in details)
        what = (event.actor, event.action, event.about)
        rows.append((row.number, format_second(event.at), *what, words))
        entries.append(ListEntry(event.at, (f"{row.number}", *what), (), words))
    print_list(("row", "at", "actor", "act", "about", "detail"), rows, entries)


@audit.command()
@click.option(
    "--seen",
    metavar="ROW:HASH",
    help="An end that was printed earlier and kept elsewhere: it has to be in the log still.",
)
@click.option(
    "--without-key",
    is_flag=True,
    help="Verify only the chain of hashes, on a machine that must not have the master key.",
)
@target_options
@json_option
def verify(seen: str | None, without_key: bool, target: CommandTarget, as_json: bool) -> None:
    """Check that no row was changed, removed or put elsewhere.

    Prints the end of the log. A person who can write to the database could cut off the end of the
    log: keep that line where such a person can't write, and give it to --seen later. The log of a
    serving gateway has such a line for every hour, as audit_head."""
    known_head = None
    if seen is not None:
        known_head = _parse_head(seen)

    keyring = None
    if not without_key:
        keyring = target.keyring()

    verification = target.with_store(
        lambda store: verify_audit_log(store.admin, keyring, known_head)
    )
    end = f"{verification.end.number}:{verification.end.hash}"
    if as_json:
        print_json({"fault": verification.fault, "end": end})
    elif verification.fault is None:
        click.echo(end)

    # After the output: a program that reads JSON has the fault in it, too.
    if verification.fault is not None:
        raise NegativeAnswer(f"The audit log is not whole: {verification.fault}")

    checked = "All are authentic."
    if keyring is None:
        checked = "Their authentication was not checked."
    print_status(f"The audit log is whole: {verification.end.number} rows. {checked}")


def _parse_head(text: str) -> AuditHead:
    match = _HEAD_PATTERN.fullmatch(text)
    if match is None:
        raise UsageProblem("--seen takes what `mmo audit verify` printed: ROW:HASH.")
    return AuditHead(int(match[1]), match[2])

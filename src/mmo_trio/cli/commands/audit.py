"""`mmo audit` lists the audit log and verifies its hash chain."""

from __future__ import annotations

import json
import re

import click

from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.output import format_instant, print_json, print_status, print_table
from mmo_trio.cli.support.target import CommandTarget, json_option, target_options
from mmo_trio.storage.interface.admin_types import AuditHead
from mmo_trio.storage.interface.audit_chain import AuditChainVerifier
from mmo_trio.storage.interface.store import Store

PAGE_SIZE = 1_000
_HEAD_PATTERN = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


@click.group()
def audit() -> None:
    """Show the audit log: sign-ins, and all actions of users and of commands."""


@audit.command("list")
@click.option("--about", help="Only about this, e.g. payment:REFERENCE or provider:NAME.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True)
@target_options
@json_option
def list_(about: str | None, limit: int, target: CommandTarget, as_json: bool) -> None:
    """List the newest rows, the newest first."""
    rows = target.with_store(lambda store: store.admin.audit(about=about, limit=limit))
    if as_json:
        print_json(
            [
                {
                    "number": row.number,
                    "at": format_instant(row.event.at),
                    "actor": row.event.actor,
                    "act": row.event.action,
                    "about": row.event.about,
                    "detail": json.loads(row.event.detail),
                    "previous": row.previous_hash,
                    "hash": row.hash,
                }
                for row in rows
            ]
        )
        return
    print_table(
        ("row", "at", "actor", "act", "about", "detail"),
        (
            (
                row.number,
                format_instant(row.event.at),
                row.event.actor,
                row.event.action,
                row.event.about,
                row.event.detail,
            )
            for row in rows
        ),
    )


@audit.command()
@click.option(
    "--seen",
    metavar="ROW:HASH",
    help="An end that was printed earlier and kept elsewhere: it has to be in the log still.",
)
@target_options
@json_option
def verify(seen: str | None, target: CommandTarget, as_json: bool) -> None:
    """Check that no row was changed, removed or put elsewhere.

    Prints the end of the log. A person who can write to the database could forge all of it: keep that line where such a
    person can't write, and give it to --seen later.
    """
    known_head = None if seen is None else _parse_head(seen)
    fault, end = target.with_store(lambda store: _verify_chain(store, known_head))
    if as_json:
        print_json({"fault": fault, "end": f"{end.number}:{end.hash}"})
    elif fault is None:
        click.echo(f"{end.number}:{end.hash}")
    if fault is not None:
        raise NegativeAnswer(f"The audit log is not whole: {fault}")
    print_status(f"The audit log is whole: {end.number} rows.")


async def _verify_chain(store: Store, known_head: AuditHead | None) -> tuple[str | None, AuditHead]:
    """Return the first fault (None: there is none), and the last row that was verified."""
    chain, found = AuditChainVerifier(), known_head is None or known_head.number == 0
    fault: str | None = None
    while fault is None:
        rows = await store.admin.audit_after(chain.verified_head.number, limit=PAGE_SIZE)
        if not rows:
            head = await store.admin.audit_head()
            if await store.admin.audit_after(chain.verified_head.number, limit=1):
                continue  # A row was added meanwhile.
            fault = chain.verify_end(head)
            break
        fault = chain.verify(rows)
        found = found or any(known_head == AuditHead(row.number, row.hash) for row in rows)
    if fault is None and not found and known_head is not None:
        fault = f"row {known_head.number} isn't the one that was seen."
    return fault, chain.verified_head


def _parse_head(text: str) -> AuditHead:
    found = _HEAD_PATTERN.fullmatch(text)
    if found is None:
        raise UsageProblem("--seen takes what `mmo audit verify` printed: ROW:HASH.")
    return AuditHead(int(found[1]), found[2])

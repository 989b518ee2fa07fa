"""`mmo audit`: who did what, and whether the log is whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from mmo_trio.cli.support.errors import Negative, Unusable
from mmo_trio.cli.support.output import moment, print_json, print_table, say
from mmo_trio.cli.support.target import find_place, json_option, place_options
from mmo_trio.storage.interface.admin_types import Head
from mmo_trio.storage.interface.audit_chain import Chain
from mmo_trio.storage.interface.store import Store

PAGE = 1_000
_SEEN = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


@click.group()
def audit() -> None:
    """The audit log: sign-ins, and every act of operators and of commands."""


@audit.command("list")
@click.option("--about", help="Only about this, e.g. payment:REFERENCE or provider:NAME.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True)
@place_options
@json_option
def list_(
    about: str | None, limit: int, data: Path | None, config: Path | None, as_json: bool
) -> None:
    """List the newest rows, the newest first."""
    rows = find_place(data, config).with_store(
        lambda store: store.office.audit(about=about, limit=limit)
    )
    if as_json:
        print_json(
            [
                {
                    "number": row.number,
                    "at": moment(row.deed.at),
                    "actor": row.deed.actor,
                    "act": row.deed.act,
                    "about": row.deed.about,
                    "detail": json.loads(row.deed.detail),
                    "previous": row.previous,
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
                moment(row.deed.at),
                row.deed.actor,
                row.deed.act,
                row.deed.about,
                row.deed.detail,
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
@place_options
@json_option
def verify(seen: str | None, data: Path | None, config: Path | None, as_json: bool) -> None:
    """Check that no row was changed, removed or put elsewhere.

    Prints where the log ends. Whoever can write to the database could forge all of it: keep that line where such a
    person can't write, and give it to --seen later.
    """
    known = None if seen is None else _head_of(seen)
    fault, end = find_place(data, config).with_store(lambda store: _followed(store, known))
    if as_json:
        print_json({"fault": fault, "end": f"{end.number}:{end.hash}"})
    elif fault is None:
        click.echo(f"{end.number}:{end.hash}")
    if fault is not None:
        raise Negative(f"The audit log is not whole: {fault}")
    say(f"The audit log is whole: {end.number} rows.")


async def _followed(store: Store, seen: Head | None) -> tuple[str | None, Head]:
    """What is wrong, and how far the log was followed."""
    chain, found = Chain(), seen is None or seen.number == 0
    fault: str | None = None
    while fault is None:
        rows = await store.office.audit_after(chain.at.number, limit=PAGE)
        if not rows:
            head = await store.office.audit_head()
            if await store.office.audit_after(chain.at.number, limit=1):
                continue  # Somebody has added a row just now.
            fault = chain.end(head)
            break
        fault = chain.follow(rows)
        found = found or any(seen == Head(row.number, row.hash) for row in rows)
    if fault is None and not found and seen is not None:
        fault = f"row {seen.number} isn't the one that was seen."
    return fault, chain.at


def _head_of(text: str) -> Head:
    found = _SEEN.fullmatch(text)
    if found is None:
        raise Unusable("--seen takes what `mmo audit verify` printed: ROW:HASH.")
    return Head(int(found[1]), found[2])

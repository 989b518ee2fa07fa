"""`mmo suspense` lists and closes reports of providers that could not be applied (S5)."""

from __future__ import annotations

import json

import click

from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.machine_user import machine_user
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import format_instant, print_json, print_rows, print_status, print_table
from mmo_trio.cli.support.target import CommandTarget, target_options
from mmo_trio.storage.interface.admin_types import SuspenseEntry
from mmo_trio.storage.sql.store import Store

ENTRY_ID_MAX = 2**63 - 1
"""The largest number that a store can be asked for."""


@click.group()
def suspense() -> None:
    """Show and close entries of the suspense book."""


@suspense.command("list")
@click.option("--brand", help="Only this brand's.")
@click.option("--all", "with_closed", is_flag=True, help="Closed entries, too.")
@target_options
@json_option
def list_(brand: str | None, with_closed: bool, target: CommandTarget, as_json: bool) -> None:
    """List the entries, in the order of their first report."""
    entries = target.with_store(lambda store: store.admin.suspense(brand=brand, with_closed=with_closed))
    columns = {"id": "id", "first reported": "firstAt", "times": "times", "reason": "reason"}
    columns |= {name: name for name in ("provider", "brand", "gatewayReference")}
    columns |= {"closed": "closedAt"}
    print_rows(columns, [suspense_entry_to_json(each) for each in entries], as_json=as_json)


@suspense.command()
@click.argument("id", type=int)
@target_options
@json_option
def show(id: int, target: CommandTarget, as_json: bool) -> None:
    """Show one entry with its content."""
    members = suspense_entry_to_json(target.with_store(lambda store: _find_entry(store, id)))
    if as_json:
        print_json(members)
    else:
        print_table(("member", "value"), members.items())


@suspense.command()
@click.argument("id", type=int)
@click.option("--note", required=True, help="Why it is closed, and what was done.")
@click.option("--user", help="The person who asked you to close it, if it was not you; recorded next to your name.")
@target_options
def close(id: int, note: str, user: str | None, target: CommandTarget) -> None:
    """Close an entry; it stays in the book."""
    if not note.strip():
        raise UsageProblem("--note is empty: say why it is closed.")

    async def close_it(store: Store) -> bool:
        subject = f"suspense:{id}"
        await target.record(store, "suspense_closed", subject, user, note=note)
        by = machine_user().acting_for(user)
        return await store.admin.close_suspense(id, by=by, note=note, now=target.clock().now())

    if not target.with_store(close_it):
        raise NegativeAnswer(f"There is no open entry {id}. `mmo suspense list` shows those there are.")
    print_status(f"Entry {id} is closed.")


def suspense_entry_to_json(entry: SuspenseEntry) -> dict[str, object]:
    """Return an entry as a JSON object."""
    return {
        "id": entry.id,
        "reason": entry.reason,
        "provider": entry.provider,
        "brand": entry.brand,
        "gatewayReference": entry.gateway_reference,
        "told": json.loads(entry.content),
        "firstAt": format_instant(entry.first_at),
        "lastAt": format_instant(entry.last_at),
        "times": entry.times,
        "closedAt": format_instant(entry.closed_at),
        "closedBy": entry.closed_by,
        "note": entry.note,
    }


async def _find_entry(store: Store, id: int) -> SuspenseEntry:
    before = min(id + 1, ENTRY_ID_MAX)
    for entry in await store.admin.suspense_entries(with_closed=True, before=before, limit=1):
        if entry.id == id:
            return entry
    raise NegativeAnswer(f"There is no entry {id}. `mmo suspense list --all` shows those there are.")

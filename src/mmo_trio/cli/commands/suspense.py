"""`mmo suspense` lists and closes reports of providers that could not be applied (S5)."""

from __future__ import annotations

import getpass
import json

import click

from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.output import format_instant, print_json, print_status, print_table
from mmo_trio.cli.support.target import CommandTarget, json_option, target_options
from mmo_trio.storage.interface.admin_types import SuspenseEntry
from mmo_trio.storage.interface.store import Store

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
    entries = target.with_store(
        lambda store: store.admin.suspense(brand=brand, with_closed=with_closed)
    )
    if as_json:
        print_json([suspense_entry_to_json(each) for each in entries])
        return
    print_table(
        (
            "id",
            "first reported",
            "times",
            "reason",
            "provider",
            "brand",
            "gatewayReference",
            "closed",
        ),
        (
            (
                each.id,
                format_instant(each.first_at),
                each.times,
                each.reason,
                each.provider,
                each.brand,
                each.gateway_reference,
                format_instant(each.closed_at),
            )
            for each in entries
        ),
    )


@suspense.command()
@click.argument("id", type=int)
@target_options
@json_option
def show(id: int, target: CommandTarget, as_json: bool) -> None:
    """Show one entry with its content."""
    entry = target.with_store(lambda store: _find_entry(store, id))
    if as_json:
        print_json(suspense_entry_to_json(entry))
    else:
        rows = (
            (name, _format_cell(value)) for name, value in suspense_entry_to_json(entry).items()
        )
        print_table(("member", "value"), rows)


@suspense.command()
@click.argument("id", type=int)
@click.option("--note", required=True, help="Why it is closed, and what was done.")
@click.option("--operator", help="Who closes it; by default the user of this machine.")
@target_options
def close(id: int, note: str, operator: str | None, target: CommandTarget) -> None:
    """Close an entry; it stays in the book."""
    if not note.strip():
        raise UsageProblem("--note is empty: say why it is closed.")

    async def close_it(store: Store) -> bool:
        subject = f"suspense:{id}"
        await target.record(store, "suspense_closed", subject, operator, note=note)
        return await store.admin.close_suspense(
            id, by=operator or getpass.getuser(), note=note, now=target.clock().now()
        )

    if not target.with_store(close_it):
        raise NegativeAnswer(
            f"There is no open entry {id}. `mmo suspense list` shows those there are."
        )
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
    raise NegativeAnswer(
        f"There is no entry {id}. `mmo suspense list --all` shows those there are."
    )


def _format_cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value

"""`mmo suspense` shows and closes entries of the suspense book: reports of providers that could not
be applied (S5)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import click

from mmo_sansio.values.model import Transaction
from mmo_sansio.values.number_format import format_amounts_in
from mmo_trio.admin.explanation import suspense_entry_to_json
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import format_second, print_json, print_status
from mmo_trio.cli.support.tables import ListEntry, print_list, print_table
from mmo_trio.cli.support.target import CommandTarget, machine_user, target_options
from mmo_trio.storage.interface.admin_types import SuspenseEntry
from mmo_trio.storage.sql.store import Store

# Payments of suspense entries that are read from the store at once.
PAYMENTS_READ_AT_ONCE = 200

# The largest number that a store can be asked for.
ENTRY_ID_MAX = 2**63 - 1


@click.group()
def suspense() -> None:
    """Show and close entries of the suspense book."""


@suspense.command("list")
@click.option("--brand", help="Only this brand's.")
@click.option("--all", "with_closed", is_flag=True, help="Closed entries, too.")
@target_options
@json_option
def list_entries(
    brand: str | None, with_closed: bool, target: CommandTarget, as_json: bool
) -> None:
    """List the entries, in the order of their first report."""

    async def find(store: Store) -> tuple[Sequence[SuspenseEntry], Mapping[str, Transaction]]:
        entries = await store.admin.suspense(brand=brand, with_closed=with_closed)
        references = [entry.gateway_reference for entry in entries if entry.gateway_reference]
        payments: dict[str, Transaction] = {}
        # A book of a year may name more payments than one statement takes.
        for begin in range(0, len(references), PAYMENTS_READ_AT_ONCE):
            payments |= await store.transactions(references[begin : begin + PAYMENTS_READ_AT_ONCE])
        return entries, payments

    entries, payments = target.with_store(find)
    if as_json:
        print_json([_entry_with_payment(entry, payments) for entry in entries])
    else:
        _print_entries(entries, payments)


def _entry_with_payment(
    entry: SuspenseEntry, payments: Mapping[str, Transaction]
) -> dict[str, object]:
    """Return an entry as a JSON object, with the merchant's reference and the amount of its
    payment."""
    payment = payments.get(entry.gateway_reference or "")
    return {
        **suspense_entry_to_json(entry),
        "merchantReference": payment and payment.order.merchant_reference,
        "requested": payment and str(payment.order.requested),
    }


def _print_entries(entries: Sequence[SuspenseEntry], payments: Mapping[str, Transaction]) -> None:
    """Print entries, each with the amount that was reported, or else that of its payment."""
    columns = (
        "id",
        "first reported",
        "times",
        "reason",
        "amount",
        "merchantReference",
        "provider",
        "brand",
        "gatewayReference",
        "closed",
    )
    rows = []
    listed = []
    for entry in entries:
        payment = payments.get(entry.gateway_reference or "")
        reference = payment and payment.order.merchant_reference

        # What was reported; without that, the amount of the payment.
        amount: object = payment and payment.order.requested
        if reported := json.loads(entry.content).get("amount"):
            amount = format_amounts_in(reported)

        times = None
        if entry.times > 1:
            times = f"{entry.times} times"

        closed = None
        if entry.closed_at is not None:
            closed = format_second(entry.closed_at)

        about = (entry.provider, entry.brand, entry.gateway_reference)
        rows.append(
            (
                entry.id,
                format_second(entry.first_at),
                entry.times,
                entry.reason,
                amount,
                reference,
                *about,
                closed,
            )
        )
        first = (f"{entry.id}", entry.reason, amount, reference)
        second = (*about[::-1], times, closed and f"closed {closed}")
        listed.append(ListEntry(entry.first_at, first, second))

    print_list(columns, rows, listed)


@suspense.command("show")
@click.argument("id", type=int)
@target_options
@json_option
def show_entry(id: int, target: CommandTarget, as_json: bool) -> None:
    """Show one entry with its content."""

    async def find(store: Store) -> dict[str, object]:
        entry = await _find_entry(store, id)
        references = []
        if entry.gateway_reference:
            references = [entry.gateway_reference]
        return _entry_with_payment(entry, await store.transactions(references))

    members = target.with_store(find)
    if as_json:
        print_json(members)
    else:
        print_table(("member", "value"), members.items())


async def _find_entry(store: Store, id: int) -> SuspenseEntry:
    # Entries below a number, the newest first: the first one is it, or there is none.
    before = min(id + 1, ENTRY_ID_MAX)
    for entry in await store.admin.suspense_entries(with_closed=True, before=before, limit=1):
        if entry.id == id:
            return entry
    raise NegativeAnswer(
        f"There is no entry {id}. `mmo suspense list --all` shows those there are."
    )


@suspense.command()
@click.argument("id", type=int)
@click.option("--note", required=True, help="Why it is closed, and what was done.")
@click.option(
    "--user",
    help="The person who asked you to close it, if it was not you; recorded next to your name.",
)
@target_options
def close(id: int, note: str, user: str | None, target: CommandTarget) -> None:
    """Close an entry; it stays in the book."""
    if not note.strip():
        raise UsageProblem("--note is empty: say why it is closed.")

    async def close_it(store: Store) -> bool:
        subject = f"suspense:{id}"
        await target.record(store, "suspense_closed", subject, user, note=note)
        by = machine_user().acting_for(user)
        return await store.admin.close_suspense(
            id, by=by, note=note, now=target.clock().wall_time()
        )

    if not target.with_store(close_it):
        raise NegativeAnswer(
            f"There is no open entry {id}. `mmo suspense list` shows those there are."
        )

    print_status(f"Entry {id} is closed.")

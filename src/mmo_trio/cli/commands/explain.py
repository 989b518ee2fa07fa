"""`mmo explain`: one payment's story, for a person who has to answer for it."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.text import Text

from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_trio.admin.explanation import Case, conclusions, story
from mmo_trio.cli.commands.suspense import ENTRIES_MAX, as_data
from mmo_trio.cli.commands.tx import brand_option, find_one
from mmo_trio.cli.support.output import administered, console, moment, print_table
from mmo_trio.cli.support.target import find_place, json_option, place_options
from mmo_trio.storage.interface.store import Store


@click.command()
@click.argument("reference")
@brand_option
@place_options
@json_option
def explain(
    reference: str, brand: str | None, data: Path | None, config: Path | None, as_json: bool
) -> None:
    """Say what became of a payment, and why.

    REFERENCE is its gatewayReference or merchantReference.
    """
    case = find_place(data, config).with_store(lambda store: _case(store, reference, brand))
    if as_json:
        click.echo(_as_json(case))
    else:
        _tell(case)


async def _case(store: Store, reference: str, brand: str | None) -> Case:
    transaction = await find_one(store, reference, brand)
    found = transaction.reference
    of_brand = transaction.order.brand
    entries = await store.suspense(brand=of_brand, with_closed=True, limit=ENTRIES_MAX)
    records = {each.brand.id: each for each in await store.brands()}
    return Case(
        transaction,
        await store.timeline(found),
        await store.callbacks(gateway_reference=found),
        [each for each in entries if each.gateway_reference == found],
        records.get(of_brand),
    )


def _tell(case: Case) -> None:
    out, order = console(), case.transaction.order
    name = order.merchant_reference or "an offline deposit"
    out.print(Text(f"{order.gateway_reference} ({order.brand}: {name})", style="bold"))
    for sentence in conclusions(case):
        out.print(Text(f"• {sentence}"))
    out.print()
    rows = ((moment(line.at), line.who, line.what) for line in story(case))
    print_table(("when", "who", "what happened"), rows)
    out.print()
    out.print(Text("What the merchant sees:", style="bold"))
    out.print(Text(transaction_object(case.transaction).decode()))


def _as_json(case: Case) -> str:
    rest = {
        "conclusions": conclusions(case),
        "timeline": [
            {
                "at": moment(each.at),
                "what": each.what,
                "actor": each.actor,
                "stageBefore": each.stage_before,
                "stageAfter": each.stage_after,
                "detail": json.loads(each.detail),
            }
            for each in case.timeline
        ],
        "callbacks": [
            {
                "at": moment(each.at),
                "url": each.attempt.url,
                "outcome": each.attempt.outcome,
                "status": each.attempt.status,
                "durationMs": each.attempt.duration_ms,
                "detail": each.attempt.detail,
            }
            for each in case.callbacks
        ],
        "suspense": [as_data(each) for each in case.suspense],
        "keys": [
            {"id": key.id, "addedAt": moment(key.added_at), "retiredAt": moment(key.retired_at)}
            for key in (case.brand.keys if case.brand else ())
        ],
    }
    return administered(case.transaction)[:-1] + "," + json.dumps(rest, ensure_ascii=False)[1:]

"""`mmo explain` shows the timeline of one payment, and the reasons for its outcome."""

from __future__ import annotations

import json

import click

from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_trio.admin.explanation import PaymentHistory, conclusions, load_payment_history
from mmo_trio.admin.timeline import timeline
from mmo_trio.admin.told_wrong import ToldWrong, find_told_wrong, merchant_message
from mmo_trio.cli.commands.brands import brand_keys_to_json
from mmo_trio.cli.commands.suspense import suspense_entry_to_json
from mmo_trio.cli.commands.tx import brand_option, find_transaction, told_wrong_to_json
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import (
    admin_transaction_json,
    format_instant,
    format_millisecond,
    print_json_text,
    print_line,
    print_table,
)
from mmo_trio.cli.support.target import CommandTarget, target_options
from mmo_trio.storage.interface.store import Store


@click.command()
@click.argument("reference")
@brand_option
@target_options
@json_option
def explain(reference: str, brand: str | None, target: CommandTarget, as_json: bool) -> None:
    """Explain the outcome of a payment.

    REFERENCE is its gatewayReference or merchantReference.
    """
    history = target.with_store(lambda store: _load_history(store, reference, brand))
    if as_json:
        print_json_text(_to_json(history))
    else:
        _print_history(history)


async def _load_history(store: Store, reference: str, brand: str | None) -> PaymentHistory:
    return await load_payment_history(store, await find_transaction(store, reference, brand))


def _print_history(history: PaymentHistory) -> None:
    order = history.transaction.order
    name = order.merchant_reference or "an offline deposit"
    print_line(f"{order.gateway_reference} ({order.brand}: {name})", "bold")
    for sentence in conclusions(history):
        print_line(f"• {sentence}")
    if (wrong := _find_wrong(history)) is not None:
        print_line("")
        print_line("A text to send to the merchant:", "bold")
        print_line(merchant_message(wrong))
    print_line("")
    rows = ((format_millisecond(line.at), line.actor, line.text) for line in timeline(history))
    print_table(("when", "who", "what happened"), rows)
    print_line("")
    print_line("What the merchant sees:", "bold")
    print_line(transaction_object(history.transaction).decode())


def _find_wrong(history: PaymentHistory) -> ToldWrong | None:
    return find_told_wrong(history.transaction, history.suspense, history.callbacks)


def _to_json(history: PaymentHistory) -> str:
    wrong = _find_wrong(history)
    members = {
        "conclusions": conclusions(history),
        "toldWrong": wrong and told_wrong_to_json(wrong),
        "timeline": [
            {
                "at": format_instant(each.at),
                "what": each.input_name,
                "actor": each.actor,
                "stageBefore": each.stage_before,
                "stageAfter": each.stage_after,
                "detail": json.loads(each.detail),
            }
            for each in history.journal
        ],
        "callbacks": [
            {
                "at": format_instant(each.at),
                "url": each.attempt.url,
                "outcome": each.attempt.outcome,
                "status": each.attempt.status,
                "durationMs": each.attempt.duration_ms,
                "detail": each.attempt.detail,
            }
            for each in history.callbacks
        ],
        "suspense": [suspense_entry_to_json(each) for each in history.suspense],
        "keys": brand_keys_to_json(history.brand) if history.brand else [],
    }
    further = json.dumps(members, ensure_ascii=False)[1:]
    return f"{admin_transaction_json(history.transaction)[:-1]},{further}"

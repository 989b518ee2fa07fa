"""Payments and moments as operators read them: pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from attrs import frozen

from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.values.clock import Instant, with_microseconds
from mmo_sansio.values.model import Transaction
from mmo_trio.console.masking import HIDDEN, Eyes
from mmo_trio.storage.interface.store import SuspenseEntry

ANSWER_MAX = 4_000
"""Characters of a merchant's answer that are shown."""


def moment(at: Instant | None) -> str:
    """`2026-11-21 15:04:05`, in UTC; empty for None."""
    return "" if at is None else with_microseconds(at)[:19].replace("T", " ")


@frozen
class Line:
    """A payment in a list."""

    reference: str
    created: str
    brand: str
    merchant_reference: str
    method: str
    provider: str
    number: str
    amount: str
    status: str
    stage: str
    why: str


def line_of(each: Transaction, eyes: Eyes) -> Line:
    """One row."""
    order, progress = each.order, each.progress
    return Line(
        each.reference,
        moment(order.created_at),
        order.brand,
        order.merchant_reference or "",
        order.method,
        order.provider_title,
        eyes.number(order.party.msisdn),
        str(order.requested),
        each.status.value,
        progress.stage.value,
        progress.error_code or "",
    )


def members_of(each: Transaction, eyes: Eyes) -> Sequence[tuple[str, str]]:
    """All that is known of a payment, in words for each member; what is absent is left out."""
    order, progress = each.order, each.progress
    data, party = progress.provider_data, order.party
    rows = [
        ("Status", f"{each.status} ({progress.stage})"),
        ("Brand", order.brand),
        ("Type and flow", f"{order.type}, {order.flow}"),
        ("gatewayReference", each.reference),
        ("merchantReference", order.merchant_reference),
        ("reconciliationReference", order.reconciliation_reference),
        ("providerReference", progress.provider_reference),
        ("Number", eyes.number(party.msisdn)),
        ("Customer", eyes.number(party.id)),
        ("First name", eyes.name(party.first_name)),
        ("Last name", eyes.name(party.last_name)),
        ("E-mail", eyes.name(party.email)),
        ("Asked for", str(order.requested)),
        ("Settled", progress.final and str(progress.final)),
        ("Fee", data and data.fee and str(data.fee)),
        ("Labels", order.labels and eyes.text(order.labels)),
        ("Created", moment(order.created_at)),
        ("Sent to the provider", moment(progress.submitted_at)),
        ("Expires", moment(order.expires_at)),
        ("Completed", moment(progress.completed_at)),
        ("Completed by", progress.completion_source),
        ("Error", progress.error_code),
        ("Meaning", progress.error_message),
        ("Provider's error", data and _native(data.error_code, data.error_message, eyes)),
        ("Provider's words on the customer", data and eyes.words(data.party_data)),
        ("resultUrl", order.result_url and eyes.url(order.result_url)),
    ]
    return [(name, str(value)) for name, value in rows if value]


def _native(code: str | None, message: str | None, eyes: Eyes) -> str:
    return " ".join(eyes.text(each) for each in (code, message) if each)


@frozen
class Delivery:
    """A callback as it went."""

    at: str
    outcome: str
    status: str
    duration_ms: int
    url: str
    detail: str
    answer: str


def delivery_of(each: CallbackRecorded, eyes: Eyes) -> Delivery:
    """With the beginning of the merchant's answer, for those who may read it."""
    attempt = each.attempt
    body = attempt.body.decode("utf-8", "replace")
    answer = body[:ANSWER_MAX] + (" …" if len(body) > ANSWER_MAX else "")
    return Delivery(
        moment(each.at),
        attempt.outcome.value,
        "" if attempt.status is None else str(attempt.status),
        attempt.duration_ms,
        eyes.url(attempt.url),
        attempt.detail,
        answer if eyes.see_personal or not answer else HIDDEN,
    )


@frozen
class Entry:
    """An entry of the suspense book."""

    id: int
    reason: str
    provider: str
    brand: str
    reference: str | None
    told: str
    times: int
    first: str
    last: str
    closed: str
    closed_by: str
    note: str


def entry_of(each: SuspenseEntry, eyes: Eyes) -> Entry:
    """What providers say may hold anything about a customer."""
    told = json.dumps(json.loads(each.told), indent=2, ensure_ascii=False)
    return Entry(
        each.id,
        each.reason.value.replace("_", " "),
        each.provider,
        each.brand or "",
        each.gateway_reference,
        eyes.words(told) or "",
        each.times,
        moment(each.first_at),
        moment(each.last_at),
        moment(each.closed_at),
        each.closed_by or "",
        eyes.text(each.note or ""),
    )

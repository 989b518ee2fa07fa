"""Formats payments, callbacks and audit events for the console."""

from __future__ import annotations

import json
from collections.abc import Sequence

from attrs import frozen

from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.values.clock import Instant, format_with_microseconds
from mmo_sansio.values.model import Transaction
from mmo_trio.console.permissions import HIDDEN_TEXT, PersonalDataMask
from mmo_trio.storage.interface.admin_types import AuditRow

RESPONSE_CHARACTERS_MAX = 4_000
"""Limit on the characters of a merchant's response that are shown."""


def format_utc_seconds(at: Instant | None) -> str:
    """Format an instant in UTC, `2026-11-21 15:04:05`; empty for None."""
    return "" if at is None else format_with_microseconds(at)[:19].replace("T", " ")


def list_payment_fields(
    transaction: Transaction, mask: PersonalDataMask
) -> Sequence[tuple[str, str]]:
    """Return the names and values of a payment's members; absent ones are left out."""
    order, progress = transaction.order, transaction.progress
    data, party = progress.provider_data, order.party
    rows = [
        ("Status", f"{transaction.status} ({progress.stage})"),
        ("Brand", order.brand),
        ("Type and flow", f"{order.type}, {order.flow}"),
        ("gatewayReference", transaction.reference),
        ("merchantReference", order.merchant_reference),
        ("reconciliationReference", order.reconciliation_reference),
        ("providerReference", progress.provider_reference),
        ("Number", mask.number(party.msisdn)),
        ("Customer", mask.number(party.id)),
        ("First name", mask.name(party.first_name)),
        ("Last name", mask.name(party.last_name)),
        ("E-mail", mask.name(party.email)),
        ("Asked for", str(order.requested)),
        ("Settled", progress.final and str(progress.final)),
        ("Fee", data and data.fee and str(data.fee)),
        ("Labels", order.labels and mask.text(order.labels)),
        ("Created", format_utc_seconds(order.created_at)),
        ("Sent to the provider", format_utc_seconds(progress.submitted_at)),
        ("Expires", format_utc_seconds(order.expires_at)),
        ("Completed", format_utc_seconds(progress.completed_at)),
        ("Completed by", progress.completion_source),
        ("Error", progress.error_code),
        ("Meaning", progress.error_message),
        (
            "Provider's error",
            data and _provider_error_text(data.error_code, data.error_message, mask),
        ),
        ("Provider's data on the customer", data and mask.third_party_text(data.party_data)),
        ("resultUrl", order.result_url and mask.url(order.result_url)),
    ]
    return [(name, str(value)) for name, value in rows if value]


def _provider_error_text(code: str | None, message: str | None, mask: PersonalDataMask) -> str:
    return " ".join(mask.text(each) for each in (code, message) if each)


@frozen
class CallbackView:
    """Holds the texts about an attempted callback."""

    at: str
    outcome: str
    status: str
    duration_ms: int
    url: str
    detail: str
    response_body: str


def to_callback_view(record: CallbackRecorded, mask: PersonalDataMask) -> CallbackView:
    """Return the view of a callback; the response is hidden without permission."""
    attempt = record.attempt
    body = attempt.body.decode("utf-8", "replace")
    answer = body[:RESPONSE_CHARACTERS_MAX] + (" …" if len(body) > RESPONSE_CHARACTERS_MAX else "")
    return CallbackView(
        format_utc_seconds(record.at),
        attempt.outcome.value,
        "" if attempt.status is None else str(attempt.status),
        attempt.duration_ms,
        mask.url(attempt.url),
        attempt.detail,
        answer if mask.can_see_personal_data or not answer else HIDDEN_TEXT,
    )


def to_audit_cells(row: AuditRow, mask: PersonalDataMask) -> tuple[str, str, str, str, str]:
    """Return the time, actor, action, subject and detail of an audit event."""
    event = row.event
    at = format_utc_seconds(event.at)
    return at, event.actor, event.action, event.about, mask.text(event.detail)


def format_json(text: str) -> str:
    """Format a JSON text with a member on each line."""
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False)

"""Formats payments, audit events and responses for the console."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mmo_sansio.values.clock import Instant, format_with_microseconds
from mmo_sansio.values.model import Transaction
from mmo_trio.console.permissions import PersonalDataMask
from mmo_trio.storage.interface.admin_types import AuditRow

RESPONSE_CHARACTERS_MAX = 4_000
"""Limit on the characters of a merchant's response that are shown."""


def format_utc_seconds(at: Instant | None) -> str:
    """Format an instant in UTC, `2026-11-21 15:04:05`; empty for None."""
    return "" if at is None else format_with_microseconds(at)[:19].replace("T", " ")


def format_utc_milliseconds(at: Instant) -> str:
    """Format an instant in UTC for a timeline, in which several events have the same second."""
    return format_with_microseconds(at)[:23].replace("T", " ")


def list_payment_fields(transaction: Transaction, mask: PersonalDataMask) -> Sequence[tuple[str, str]]:
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
        ("Labels", order.labels and mask.free_text(order.labels)),
        ("Created", format_utc_seconds(order.created_at)),
        ("Sent to the provider", format_utc_seconds(progress.submitted_at and order.to_utc(progress.submitted_at))),
        ("Expires", format_utc_seconds(order.to_utc(order.expires_at))),
        ("Completed", format_utc_seconds(progress.completed_at)),
        ("Completed by", progress.completion_source),
        ("Error", progress.error_code),
        ("Meaning", progress.error_message),
        ("Provider's error", data and _provider_error_text(data.error_code, data.error_message, mask)),
        ("Provider's data on the customer", data and mask.free_text(data.party_data)),
        ("resultUrl", order.result_url and mask.url(order.result_url)),
    ]
    return [(name, str(value)) for name, value in rows if value]


def _provider_error_text(code: str | None, message: str | None, mask: PersonalDataMask) -> str:
    return " ".join(each for each in (code and mask.text(code), mask.free_text(message)) if each)


def format_response_body(body: bytes) -> str:
    """Return the text of a merchant's response, up to RESPONSE_CHARACTERS_MAX."""
    text = body.decode("utf-8", "replace")
    return text[:RESPONSE_CHARACTERS_MAX] + (" …" if len(text) > RESPONSE_CHARACTERS_MAX else "")


def to_audit_cells(row: AuditRow, mask: PersonalDataMask) -> tuple[str, str, str, str, str]:
    """Return the time, actor, action, subject and detail of an audit event."""
    event = row.event
    members = {
        name: value if name in _PLAIN_MEMBERS or not isinstance(value, str) else mask.free_text(value)
        for name, value in json.loads(event.detail).items()
    }
    at, detail = format_utc_seconds(event.at), json.dumps(members, ensure_ascii=False)
    return at, event.actor, event.action, event.about, mask.text(detail)


_PLAIN_MEMBERS = frozenset({"loginUser", "operator", "outcome", "proposedBy", "role", "session", "wanted"})
"""The members of an audit event's detail that are no free text."""


def format_json(text: str) -> str:
    """Format a JSON text with a member on each line."""
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False)

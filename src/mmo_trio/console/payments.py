"""Payments: a list by brand, a search by anything, and one payment's whole story."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quart import Blueprint, render_template, request
from werkzeug.exceptions import BadRequest, NotFound

from mmo_sansio.messages.inputs import ResolveManually
from mmo_sansio.payments.states import target_stages
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Stage, Status, Transaction
from mmo_trio.admin.explanation import PaymentHistory, conclusions, timeline
from mmo_trio.admin.resolution import UNFINISHED_STATES
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.permissions import Permission, PersonalDataMask
from mmo_trio.console.sessions import current_user, form_field
from mmo_trio.console.views import (
    format_utc_seconds,
    list_payment_fields,
    to_callback_view,
    to_payment_row,
    to_suspense_entry_view,
)
from mmo_trio.storage.interface.admin_types import PaymentFilter, Position

PAGE_SIZE = 50
REFERENCE_MAX = 255
_PHONE_NUMBER_PATTERN = re.compile(r"\+?[0-9][0-9 ()./-]{1,30}[0-9]")


def create_payments_blueprint(context: ConsoleContext) -> Blueprint:
    """GET /payments, POST /search, GET /payments/REFERENCE."""
    pages = Blueprint("payments", __name__)

    @pages.get("/payments")
    async def listed() -> str:
        wanted = PaymentFilter(
            brand=_query_argument("brand"),
            method=_query_argument("method"),
            status=_parse_status(_query_argument("status")),
            before=parse_position(_query_argument("before")),
            limit=PAGE_SIZE,
        )
        found = await context.store.admin.list_payments(wanted)
        eyes = current_user().mask
        return await render_template(
            "payments.html",
            lines=[to_payment_row(each, eyes) for each in found.transactions],
            further=_position_parameter(found.next_position),
            wanted=wanted,
            brands=[each.brand.id for each in await context.store.brands()],
            statuses=list(Status),
        )

    @pages.post("/search")
    async def search() -> str:
        """A form's body, not an address: what is looked for may be a customer's number."""
        visitor = current_user()
        text = await form_field("text", length_max=REFERENCE_MAX)
        before = parse_position(await form_field("before", is_required=False))
        digits = parse_phone_number(text)
        may_see = visitor.has_permission(Permission.SEE_PERSONAL_DATA)
        found = await context.store.admin.search_payments(
            text, msisdn=digits if may_see else None, before=before, limit=PAGE_SIZE
        )
        return await render_template(
            "found.html",
            lines=[to_payment_row(each, visitor.mask) for each in found.transactions],
            further=_position_parameter(found.next_position),
            text=text,
            is_number=digits is not None and not may_see,
        )

    @pages.get("/payments/<reference>")
    async def show(reference: str) -> str:
        transaction = None
        if reference.isascii() and reference.isalnum() and len(reference) <= REFERENCE_MAX:
            transaction = await context.store.transaction(reference.upper())
        if transaction is None:
            raise NotFound("There is no payment with this gatewayReference.")
        case = await load_payment_history(context, transaction)
        visitor = current_user()
        eyes = visitor.mask
        proposals = await context.store.admin.proposals(about=transaction.reference)
        return await render_template(
            "payment.html",
            line=to_payment_row(transaction, eyes),
            members=list_payment_fields(transaction, eyes),
            order=transaction.order,
            conclusions=[eyes.text(each) for each in conclusions(case)],
            story=[
                (format_utc_seconds(each.at), each.actor, eyes.text(each.description))
                for each in timeline(case)
            ],
            callbacks=[to_callback_view(each, eyes) for each in case.callbacks],
            suspense=[to_suspense_entry_view(each, eyes) for each in case.suspense],
            proposals=proposals,
            deeds=await _audit_events(context, transaction, eyes),
            outcomes=_possible_outcomes(transaction),
            is_proposed=any(each.state in UNFINISHED_STATES for each in proposals),
        )

    return pages


async def load_payment_history(context: ConsoleContext, transaction: Transaction) -> PaymentHistory:
    """All that the store has about it."""
    store, reference = context.store, transaction.reference
    records = {each.brand.id: each for each in await store.brands()}
    return PaymentHistory(
        transaction,
        await store.timeline(reference),
        await store.callbacks(gateway_reference=reference),
        await store.admin.suspense_of_payment(reference),
        records.get(transaction.order.brand),
    )


async def _audit_events(
    context: ConsoleContext, transaction: Transaction, mask: PersonalDataMask
) -> Sequence[tuple[str, str, str, str]]:
    """What people did about it."""
    rows = await context.store.admin.audit(
        about=f"payment:{transaction.reference}", limit=PAGE_SIZE
    )
    deeds = [row.event for row in reversed(rows)]
    return [
        (format_utc_seconds(each.at), each.actor, each.action, mask.text(each.detail))
        for each in deeds
    ]


def _possible_outcomes(transaction: Transaction) -> Sequence[str]:
    """How a person may end it now: `success`, or why it failed."""
    try_ending = ResolveManually(transaction.reference, "", "")
    reachable = target_stages(transaction.progress.stage, try_ending)
    outcomes = ["success"] if Stage.SUCCEEDED in reachable else []
    return outcomes + ([code.value for code in ErrorCode] if Stage.FAILED in reachable else [])


def parse_phone_number(text: str) -> str | None:
    """The digits of a phone number, however it is written; None when the text can't be one."""
    if not _PHONE_NUMBER_PATTERN.fullmatch(text):
        return None
    digits = re.sub(r"[^0-9]", "", text)
    return digits.removeprefix("00") if not text.startswith("+") else digits


def parse_position(text: str | None) -> Position | None:
    """A place out of an address: `CREATED-REFERENCE`. Raises BadRequest."""
    if not text:
        return None
    at, _, reference = text.partition("-")
    if not (at.isascii() and at.isdigit() and len(at) <= 18 and reference.isalnum()):
        raise BadRequest("This page doesn't exist: begin at the first one.")
    return Position(Instant(int(at)), reference[:64])


def _position_parameter(position: Position | None) -> str:
    return "" if position is None else f"{position.created_at}-{position.gateway_reference}"


def _query_argument(name: str) -> str | None:
    return request.args.get(name, "").strip()[:REFERENCE_MAX] or None


def _parse_status(text: str | None) -> Status | None:
    if text is None:
        return None
    try:
        return Status(text)
    except ValueError:
        raise BadRequest("There is no such status.") from None

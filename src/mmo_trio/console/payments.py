"""Payments: a list by brand, a search by anything, and one payment's whole story."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quart import Blueprint, render_template, request
from werkzeug.exceptions import BadRequest, NotFound

from mmo_sansio.messages.inputs import ResolveManually
from mmo_sansio.payments.states import targets
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Stage, Status, Transaction
from mmo_trio.admin.explanation import Case, conclusions, story
from mmo_trio.console.context import ConsoleDesk
from mmo_trio.console.masking import Eyes
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import current, field
from mmo_trio.console.views import delivery_of, entry_of, line_of, members_of, moment
from mmo_trio.storage.interface.admin_types import Place, ProposalState, Wanted

PAGE = 50
REFERENCE_MAX = 255
_NUMBER = re.compile(r"\+?[0-9][0-9 ()./-]{1,30}[0-9]")


def payment_pages(desk: ConsoleDesk) -> Blueprint:
    """GET /payments, POST /search, GET /payments/REFERENCE."""
    pages = Blueprint("payments", __name__)

    @pages.get("/payments")
    async def listed() -> str:
        wanted = Wanted(
            brand=_given("brand"),
            method=_given("method"),
            status=_status(_given("status")),
            before=place_of(_given("before")),
            limit=PAGE,
        )
        found = await desk.store.office.list_payments(wanted)
        eyes = current().eyes
        return await render_template(
            "payments.html",
            lines=[line_of(each, eyes) for each in found.transactions],
            further=_text_of(found.further),
            wanted=wanted,
            brands=[each.brand.id for each in await desk.store.brands()],
            statuses=list(Status),
        )

    @pages.post("/search")
    async def search() -> str:
        """A form's body, not an address: what is looked for may be a customer's number."""
        visitor = current()
        text = await field("text", longest=REFERENCE_MAX)
        before = place_of(await field("before", is_needed=False))
        digits = number_in(text)
        may_see = visitor.may(Permission.SEE_PERSONAL)
        found = await desk.store.office.search(
            text, msisdn=digits if may_see else None, before=before, limit=PAGE
        )
        return await render_template(
            "found.html",
            lines=[line_of(each, visitor.eyes) for each in found.transactions],
            further=_text_of(found.further),
            text=text,
            is_number=digits is not None and not may_see,
        )

    @pages.get("/payments/<reference>")
    async def show(reference: str) -> str:
        transaction = None
        if reference.isascii() and reference.isalnum() and len(reference) <= REFERENCE_MAX:
            transaction = await desk.store.transaction(reference.upper())
        if transaction is None:
            raise NotFound("There is no payment with this gatewayReference.")
        case = await case_of(desk, transaction)
        visitor = current()
        eyes = visitor.eyes
        proposals = await desk.store.office.proposals(about=transaction.reference)
        return await render_template(
            "payment.html",
            line=line_of(transaction, eyes),
            members=members_of(transaction, eyes),
            order=transaction.order,
            conclusions=[eyes.text(each) for each in conclusions(case)],
            story=[(moment(each.at), each.who, eyes.text(each.what)) for each in story(case)],
            callbacks=[delivery_of(each, eyes) for each in case.callbacks],
            suspense=[entry_of(each, eyes) for each in case.suspense],
            proposals=proposals,
            deeds=await _deeds(desk, transaction, eyes),
            outcomes=_outcomes(transaction),
            is_proposed=any(each.state in UNDECIDED for each in proposals),
        )

    return pages


UNDECIDED = (ProposalState.OPEN, ProposalState.APPROVED)


async def case_of(desk: ConsoleDesk, transaction: Transaction) -> Case:
    """All that the store has about it."""
    store, reference = desk.store, transaction.reference
    records = {each.brand.id: each for each in await store.brands()}
    return Case(
        transaction,
        await store.timeline(reference),
        await store.callbacks(gateway_reference=reference),
        await store.office.suspense_about(reference),
        records.get(transaction.order.brand),
    )


async def _deeds(
    desk: ConsoleDesk, transaction: Transaction, eyes: Eyes
) -> Sequence[tuple[str, str, str, str]]:
    """What people did about it."""
    rows = await desk.store.office.audit(about=f"payment:{transaction.reference}", limit=PAGE)
    deeds = [row.deed for row in reversed(rows)]
    return [(moment(each.at), each.actor, each.act, eyes.text(each.detail)) for each in deeds]


def _outcomes(transaction: Transaction) -> Sequence[str]:
    """How a person may end it now: `success`, or why it failed."""
    try_ending = ResolveManually(transaction.reference, "", "")
    reachable = targets(transaction.progress.stage, try_ending)
    outcomes = ["success"] if Stage.SUCCEEDED in reachable else []
    return outcomes + ([code.value for code in ErrorCode] if Stage.FAILED in reachable else [])


def number_in(text: str) -> str | None:
    """The digits of a phone number, however it is written; None when the text can't be one."""
    if not _NUMBER.fullmatch(text):
        return None
    digits = re.sub(r"[^0-9]", "", text)
    return digits.removeprefix("00") if not text.startswith("+") else digits


def place_of(text: str | None) -> Place | None:
    """A place out of an address: `CREATED-REFERENCE`. Raises BadRequest."""
    if not text:
        return None
    at, _, reference = text.partition("-")
    if not (at.isascii() and at.isdigit() and len(at) <= 18 and reference.isalnum()):
        raise BadRequest("This page doesn't exist: begin at the first one.")
    return Place(int(at), reference[:64])


def _text_of(place: Place | None) -> str:
    return "" if place is None else f"{place.created_at}-{place.gateway_reference}"


def _given(name: str) -> str | None:
    return request.args.get(name, "").strip()[:REFERENCE_MAX] or None


def _status(text: str | None) -> Status | None:
    if text is None:
        return None
    try:
        return Status(text)
    except ValueError:
        raise BadRequest("There is no such status.") from None

"""The pages show money that staff ask back: ask for it, approve it or refuse it, and end it by
hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import groupby
from types import MappingProxyType

from quart import Blueprint, Response, render_template
from werkzeug.exceptions import BadRequest

from mmo_sansio.messages.queries import Position
from mmo_sansio.values.money import AmountError, Money, written_money
from mmo_sansio.values.reversals import Reversal, ReversalState, reversal_id
from mmo_trio.admin.reversals import Reversals
from mmo_trio.console.attention import read_waiting_reversals
from mmo_trio.console.context import console
from mmo_trio.console.money_figures import format_sums
from mmo_trio.console.notices import with_notice
from mmo_trio.console.parameters import (
    ListPage,
    form_field,
    format_position,
    parse_position,
    parse_row_number,
    query_argument,
    redirect_to,
    split_page,
)
from mmo_trio.console.payments import find_payment
from mmo_trio.console.sessions import current_user, record_view
from mmo_trio.console.views import format_words
from mmo_trio.console.work_lists import resolution_user

# Payments of a page: each reversal of theirs may have a form of several fields.
PAYMENTS_PAGE_SIZE = 8

_UNFINISHED = frozenset(state for state in ReversalState if not state.has_ended)

# What the list can show: titles and states.
SELECTIONS: Mapping[str, tuple[str, Set[ReversalState]]] = MappingProxyType(
    {
        "": ("Waiting", _UNFINISHED),
        "requested": ("To approve", {ReversalState.REQUESTED}),
        "sent": ("Without an outcome", _UNFINISHED - {ReversalState.REQUESTED}),
        "succeeded": ("Succeeded", {ReversalState.SUCCEEDED}),
        "failed": ("Failed", {ReversalState.FAILED}),
        "moved_after_all": ("Moved after all", {ReversalState.MOVED_AFTER_ALL}),
        "all": ("All", frozenset(ReversalState)),
    }
)

pages = Blueprint("reversals", __name__)


@pages.get("/reversals")
async def list_reversals() -> str:
    """List the reversals in some states, those that were asked for last first."""
    selected = query_argument("show") or ""
    if selected not in SELECTIONS:
        raise BadRequest("There is no such selection.")

    store, before = console().store, parse_position(query_argument("before"))
    found, next_position = await _find_page(SELECTIONS[selected][1], before)
    payments = await store.transactions([reversal.payment for reversal in found])
    if found:
        await record_view("reversals", [reversal.id for reversal in found])

    return await render_template(
        "reversals.html",
        page=ListPage(
            [(reversal, payments.get(reversal.payment)) for reversal in found],
            None,
            {} if before else None,
            None if next_position is None else {"before": format_position(next_position)},
        ),
        waiting=await _waiting_sums() if selected == "" else "",
        selected=selected,
        selections=[(name, title) for name, (title, _) in SELECTIONS.items()],
    )


async def _waiting_sums() -> str:
    """Return what all waiting reversals would give back, by currency; empty for none."""
    waiting = await read_waiting_reversals()
    sums = format_sums(waiting.amounts)
    # Of more than are read the sum is that of these at least.
    if sums and waiting.has_more:
        return f"{sums} or more"
    return sums


async def _find_page(
    states: Set[ReversalState], before: Position | None
) -> tuple[Sequence[Reversal], Position | None]:
    """Return the reversals in these states of PAYMENTS_PAGE_SIZE payments, or of the first that
    have any, and where the next page begins."""
    while True:
        read = await console().store.list_reversals(
            only_unfinished=states <= _UNFINISHED, before=before, limit=PAYMENTS_PAGE_SIZE + 1
        )
        by_payment = [
            list(reversals) for _, reversals in groupby(read, key=lambda reversal: reversal.payment)
        ]
        shown, last = split_page(by_payment, PAYMENTS_PAGE_SIZE)
        before = None
        if last is not None:
            before = Position(max(reversal.asked_at for reversal in last), last[0].payment)

        found = [
            reversal for group in shown for reversal in reversed(group) if reversal.state in states
        ]
        if found or before is None:
            return found, before


@pages.post("/payments/<reference>/reversals")
async def ask(reference: str) -> Response:
    """Ask for money of a payment back; a form that was sent twice asks once."""
    payment, user = await find_payment(reference), current_user()
    amount = await form_field("amount", length_max=40, is_required=False)
    reversal = await _reversals().request(
        resolution_user(user),
        user.account.role,
        payment,
        _parse_amount(amount, payment.order.requested.currency) if amount else None,
        await form_field("reason"),
        number=parse_row_number(await form_field("number")),
    )
    return _redirect_to_payment(reversal)


@pages.post("/payments/<reference>/reversals/<int:number>/approve")
async def approve(reference: str, number: int) -> Response:
    id = reversal_id((await find_payment(reference)).reference, number)
    user = resolution_user(current_user())
    return _redirect_to_payment(await _reversals().decide(user, id, is_approved=True))


@pages.post("/payments/<reference>/reversals/<int:number>/refuse")
async def refuse(reference: str, number: int) -> Response:
    """Refuse a reversal that was not sent, or take back one's own."""
    id, remark = (
        reversal_id((await find_payment(reference)).reference, number),
        await form_field("remark"),
    )
    user = resolution_user(current_user())
    return _redirect_to_payment(
        await _reversals().decide(user, id, is_approved=False, remark=remark)
    )


@pages.post("/payments/<reference>/reversals/<int:number>/resolve")
async def resolve(reference: str, number: int) -> Response:
    """End a reversal by hand, on evidence."""
    outcome = await form_field("outcome")
    if outcome not in ("succeeded", "failed"):
        raise BadRequest("There is no such outcome.")

    reversal = await _reversals().resolve(
        resolution_user(current_user()),
        reversal_id((await find_payment(reference)).reference, number),
        succeeded=outcome == "succeeded",
        evidence=await form_field("evidence"),
        provider_reference=await form_field("provider_reference", length_max=255, is_required=False)
        or None,
    )
    return _redirect_to_payment(reversal)


def _reversals() -> Reversals:
    context = console()
    settings = context.settings
    return Reversals(
        context.store,
        context.submit,
        context.audit_log,
        settings.four_eyes,
        settings.reversal_limits,
    )


def _parse_amount(text: str, currency: str) -> Money:
    try:
        return written_money(text, currency)
    except AmountError as error:
        raise BadRequest(f"The amount {error}.") from None


def _redirect_to_payment(reversal: Reversal) -> Response:
    response = redirect_to("payments.show_payment", reference=reversal.payment)
    return with_notice(response, f"Reversal {reversal.number}: {format_words(reversal.state)}.")

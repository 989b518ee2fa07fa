"""The pages list what waits for staff: stuck payments, proposals to end one by hand, which another
user approves, the suspense book, failed callbacks; and the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from attrs import evolve, frozen
from quart import Blueprint, Response, render_template
from werkzeug.exceptions import Conflict

from mmo_sansio.payments.stuck import unknown_since
from mmo_sansio.values.clock import Instant, elapsed
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Transaction
from mmo_sansio.values.money import Money, sum_by_currency
from mmo_trio.admin.counted_money import requested_amounts
from mmo_trio.admin.resolution import (
    SUCCESS,
    ResolutionRefusal,
    ResolutionRefused,
    Resolutions,
    ResolutionUser,
)
from mmo_trio.admin.reversals import find_paid_after_all
from mmo_trio.admin.told_wrong import list_told_wrong, merchant_message
from mmo_trio.console.context import console
from mmo_trio.console.notices import with_notice
from mmo_trio.console.parameters import (
    CARDS_PAGE_SIZE,
    PAGE_SIZE,
    ListPage,
    cut_page,
    form_field,
    format_position,
    list_brand_options,
    parse_choice,
    parse_position,
    parse_row_number,
    query_argument,
    read_page,
    redirect_to,
    split_page,
)
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import CurrentUser, current_user, record_action, record_view, require
from mmo_trio.console.views import format_state, parse_actor, show_event
from mmo_trio.storage.interface.admin_types import (
    STUCK_READ_MAX,
    UNFINISHED_STATES,
    Proposal,
    SuspenseEntry,
)
from mmo_trio.storage.sql.payment_search import position_of
from mmo_trio.system.display_text import format_span

# Proposals of a page, each with all that its approver has to know.
PROPOSALS_PAGE_SIZE = 8

pages = Blueprint("work_lists", __name__)


@pages.get("/stuck")
async def stuck() -> str:
    """List the payments whose outcome has been unknown for too long, the oldest first."""
    after = parse_position(query_argument("after"))
    found = await console().store.admin.stuck_transactions(
        console().own_time(), after=after, limit=PAGE_SIZE + 1
    )
    shown, last = split_page(found)
    now = console().own_time()
    following = None
    if last is not None:
        following = {"after": format_position(position_of(last))}

    rows = [(row, _sent_at(row), format_span(elapsed(unknown_since(row), now))) for row in shown]
    page = ListPage(rows, None if after else 1, {} if after else None, following)
    every = await console().store.admin.stuck_transactions(now, limit=STUCK_READ_MAX + 1)
    return await render_template(
        "stuck.html",
        page=page,
        groups=_by_provider(every[:STUCK_READ_MAX]),
        sums=_sums(every[:STUCK_READ_MAX]),
        is_complete=len(every) <= STUCK_READ_MAX,
        read_max=STUCK_READ_MAX,
    )


@frozen
class StuckGroup:
    """Describes the payments that wait for one provider: often they are one outage."""

    provider: str
    title: str
    count: int
    is_simulated: bool
    """Whether no money moves by any of them."""
    sums: Sequence[Money]
    first_at: Instant
    """When the first of them was sent, in UTC."""
    last_at: Instant


def _by_provider(payments: Sequence[Transaction]) -> list[StuckGroup]:
    """Return the groups of these payments, those with the most first."""
    members: dict[str, list[Transaction]] = {}
    for payment in payments:
        members.setdefault(payment.order.provider, []).append(payment)

    groups = []
    for provider, waiting in members.items():
        sent = [_sent_at(payment) for payment in waiting]
        title = waiting[-1].order.provider_title
        groups.append(
            StuckGroup(
                provider=provider,
                title=title,
                count=len(waiting),
                is_simulated=all(payment.order.is_simulated for payment in waiting),
                sums=_sums(waiting),
                first_at=min(sent),
                last_at=max(sent),
            )
        )

    return sorted(groups, key=lambda group: -group.count)


def _sent_at(payment: Transaction) -> Instant:
    """Return when a stuck payment was sent, in UTC."""
    return payment.order.to_utc(unknown_since(payment))


def _sums(payments: Sequence[Transaction]) -> Sequence[Money]:
    """Return what these payments have asked for, by currency."""
    return sum_by_currency(requested_amounts(payments, moves_no_money=console().moves_no_money))


@pages.get("/resolutions")
async def list_proposals() -> str:
    """List the proposals that are not finished."""
    store = console().store
    unfinished = [
        proposal
        for state in UNFINISHED_STATES
        for proposal in await store.admin.proposals(state=state)
    ]
    page = cut_page(unfinished, PROPOSALS_PAGE_SIZE)
    if page.rows:
        await record_view("resolutions", [row.id for row in page.rows])

    payments = await store.transactions([row.gateway_reference for row in page.rows])
    shown = [(row, payments.get(row.gateway_reference)) for row in page.rows]
    return await render_template("resolutions.html", page=page, proposals=shown)


@pages.post("/payments/<reference>/resolutions")
async def propose(reference: str) -> Response:
    """Propose to end a payment by hand, as paid or as failed with an error code."""
    user = await require(Permission.PROPOSE)
    outcome = await form_field("outcome")
    error_code = None
    if outcome != SUCCESS:
        error_code = parse_choice(ErrorCode, outcome, "There is no such outcome.")

    provider_reference = await form_field("provider_reference", length_max=255, is_required=False)
    proposal = await _resolutions().propose(
        resolution_user(user),
        reference,
        error_code,
        reason=await form_field("reason"),
        evidence=await form_field("evidence"),
        provider_reference=provider_reference or None,
    )
    return _redirect_to_payment(proposal)


@pages.post("/resolutions/<int:id>/approve")
async def approve(id: int) -> Response:
    """Approve a proposal and carry it out."""
    user = await require(Permission.APPROVE)
    return _redirect_to_payment(await _resolutions().approve(resolution_user(user), id))


@pages.post("/resolutions/<int:id>/reject")
async def reject(id: int) -> Response:
    """Reject a proposal, or withdraw one's own."""
    user = await require(Permission.PROPOSE)
    remark = await form_field("remark")
    try:
        proposal = await _resolutions().reject(resolution_user(user), id, remark)
    except ResolutionRefused as refused:
        # Another user's: then the answer names the permission that is lacking.
        if refused.refusal is ResolutionRefusal.NOT_PERMITTED:
            await require(Permission.APPROVE)
        raise
    return _redirect_to_payment(proposal)


def _resolutions() -> Resolutions:
    context = console()
    return Resolutions(context.store, context.submit, context.audit_log, context.settings.four_eyes)


def resolution_user(user: CurrentUser) -> ResolutionUser:
    """Return the user as one who takes part in a resolution, or in a reversal."""
    return ResolutionUser(
        user.name,
        user.actor,
        can_propose=user.has_permission(Permission.PROPOSE),
        can_approve=user.has_permission(Permission.APPROVE),
    )


def _redirect_to_payment(proposal: Proposal) -> Response:
    response = redirect_to("payments.show_payment", reference=proposal.gateway_reference)
    return with_notice(response, f"Proposal {proposal.id}: {format_state(proposal.state)}.")


@pages.get("/suspense")
async def suspense() -> str:
    """List the entries of the suspense book, the newest first: the open ones, all, or those that
    contradict what a merchant was told."""
    store = console().store
    selected = query_argument("show")
    messages: Mapping[int, str] = {}
    if selected == "told-wrong":
        page, messages = await _read_told_wrong()
    else:
        read = partial(store.admin.suspense_entries, with_closed=selected == "all")
        page = await read_page(read, lambda entry: entry.id, CARDS_PAGE_SIZE)

    shown = page.rows
    if shown:
        await record_view("suspense", [entry.id for entry in shown])

    payments = await store.transactions(
        [entry.gateway_reference for entry in shown if entry.gateway_reference]
    )
    return await render_template(
        "suspense.html",
        page=page,
        messages=messages,
        payments=payments,
        reversible={
            row.id
            for row in shown
            if _is_reversible(payments.get(row.gateway_reference or ""), row)
        },
        selected=selected,
    )


async def _read_told_wrong() -> tuple[ListPage[SuspenseEntry], Mapping[int, str]]:
    """Return a page of the entries that contradict what a merchant was told, and by their ids what
    to tell him."""
    before = parse_row_number(query_argument("before"))
    wrong = await list_told_wrong(console().store, before=before, limit=CARDS_PAGE_SIZE + 1)
    mask = current_user().mask
    messages = {row.entry.id: mask.text(merchant_message(row)) for row in wrong}
    found, last = split_page([row.entry for row in wrong], CARDS_PAGE_SIZE)
    following = None
    if last is not None:
        following = {"before": last.id}

    # Of a later page only the way back to the first is known.
    if before:
        return ListPage(found, None, {}, following), messages
    return ListPage(found, 1, None, following), messages


def _is_reversible(payment: Transaction | None, entry: SuspenseEntry) -> bool:
    """Return whether money that came after its merchant was told of a failure, by this entry, can
    be asked back."""
    if payment is None or find_paid_after_all(payment, [entry]) is None:
        return False
    return console().reversal_operation(payment) is not None


@pages.post("/suspense/<int:id>/close")
async def close_suspense(id: int) -> Response:
    """Close an entry of the suspense book, with a note."""
    user = await require(Permission.CLOSE_SUSPENSE)
    note, now = await form_field("note"), console().wall_time()
    await record_action("suspense_closed", f"suspense:{id}", note=note)
    # No row has a larger number, and PostgreSQL takes none.
    closed = id < 2**63 and await console().store.admin.close_suspense(
        id, by=user.name, note=note, now=now
    )
    if not closed:
        await record_action("suspense_was_not_open", f"suspense:{id}")
        raise Conflict("There is no open entry with this number.")

    return with_notice(redirect_to("work_lists.suspense"), f"Entry {id} is closed.")


@pages.get("/callbacks")
async def callbacks() -> str:
    """List the callbacks that failed. Nothing here sends a callback again (K3)."""
    store, brand = console().store, query_argument("brand")
    read = partial(store.admin.failed_callbacks, brand=brand)
    page = await read_page(read, lambda row: row[0])
    payments = await store.transactions([callback.gateway_reference for _, callback in page.rows])
    return await render_template(
        "callbacks.html",
        page=page,
        payments=payments,
        brand=brand,
        brand_options=await list_brand_options(),
    )


@pages.get("/audit")
async def audit() -> str:
    """List the audit log, or what somebody did, or what was done to something; the newest row comes
    first. `mmo audit verify` checks it."""
    await require(Permission.READ_AUDIT)
    admin = console().store.admin
    actor, about = query_argument("actor"), query_argument("about")
    # As people write it, `payment 123`, or as the log has it, `payment:123`.
    if about is None or ":" in about:
        subject = about
    else:
        subject = about.replace(" ", ":", 1)

    only_changes = query_argument("show") == "changes"
    read = partial(
        admin.audit,
        actor=actor and parse_actor(actor),
        about=subject,
        only_changes=only_changes,
    )
    page = await read_page(read, lambda row: row.number)
    if actor is None and about is None and not only_changes:
        page = evolve(page, total=(await admin.audit_head()).number)

    rows = [(event, show_event(event, current_user().mask)) for event in page.rows]
    return await render_template(
        "audit.html", page=page, rows=rows, actor=actor, about=about, only_changes=only_changes
    )

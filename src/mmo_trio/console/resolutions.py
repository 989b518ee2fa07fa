"""The pages end payments by hand: one user proposes, on evidence, and another approves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quart import Blueprint, Response, render_template
from werkzeug.exceptions import Conflict, Forbidden, HTTPException, NotFound

from mmo_sansio.values.error_codes import ErrorCode
from mmo_trio.admin.resolution import SUCCESS, ResolutionRefusal, ResolutionRefused, Resolutions, ResolutionUser
from mmo_trio.console.context import console
from mmo_trio.console.parameters import form_field, parse_choice, redirect_to
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import CurrentUser, record_view, require
from mmo_trio.storage.interface.admin_types import UNFINISHED_STATES, Proposal

_HTTP_ERRORS: dict[ResolutionRefusal, type[HTTPException]] = {
    ResolutionRefusal.NOT_PERMITTED: Forbidden,
    ResolutionRefusal.OWN_PROPOSAL: Forbidden,
    ResolutionRefusal.NO_PAYMENT: NotFound,
    ResolutionRefusal.NO_PROPOSAL: NotFound,
}
"""The status of each refusal; all others are a conflict."""


pages = Blueprint("resolutions", __name__)


@pages.get("/resolutions")
async def list_proposals() -> str:
    """List the proposals that are not finished."""
    admin = console().store.admin
    proposals = [each for state in UNFINISHED_STATES for each in await admin.proposals(state=state)]
    if proposals:
        await record_view("resolutions", [each.id for each in proposals])
    store = console().store
    shown = [(each, await store.transaction(each.gateway_reference)) for each in proposals]
    return await render_template("resolutions.html", proposals=shown)


@pages.post("/payments/<reference>/resolutions")
async def propose(reference: str) -> Response:
    """Propose to end a payment by hand."""
    user = await require(Permission.PROPOSE)
    outcome = await form_field("outcome")
    provider_reference = await form_field("provider_reference", length_max=255, is_required=False)
    with _http_errors():
        proposal = await _resolutions().propose(
            _resolution_user(user),
            reference,
            None if outcome == SUCCESS else parse_choice(ErrorCode, outcome, "There is no such outcome."),
            reason=await form_field("reason"),
            evidence=await form_field("evidence"),
            provider_reference=provider_reference or None,
        )
    return _redirect_to_payment(proposal)


@pages.post("/resolutions/<int:id>/approve")
async def approve(id: int) -> Response:
    """Approve a proposal and carry it out."""
    user = await require(Permission.APPROVE)
    with _http_errors():
        return _redirect_to_payment(await _resolutions().approve(_resolution_user(user), id))


@pages.post("/resolutions/<int:id>/reject")
async def reject(id: int) -> Response:
    """Reject a proposal, or withdraw one's own."""
    user = await require(Permission.PROPOSE)
    remark = await form_field("remark")
    try:
        with _http_errors():
            proposal = await _resolutions().reject(_resolution_user(user), id, remark)
    except Forbidden:
        await require(Permission.APPROVE)
        raise
    return _redirect_to_payment(proposal)


def _resolutions() -> Resolutions:
    context = console()
    return Resolutions(context.store, context.submit, context.audit_log, context.settings.four_eyes)


def _resolution_user(user: CurrentUser) -> ResolutionUser:
    return ResolutionUser(
        user.name,
        user.actor,
        can_propose=user.has_permission(Permission.PROPOSE),
        can_approve=user.has_permission(Permission.APPROVE),
    )


@contextmanager
def _http_errors() -> Iterator[None]:
    try:
        yield
    except ResolutionRefused as refused:
        raise _HTTP_ERRORS.get(refused.refusal, Conflict)(str(refused)) from None


def _redirect_to_payment(proposal: Proposal) -> Response:
    return redirect_to("payments.show_payment", reference=proposal.gateway_reference)

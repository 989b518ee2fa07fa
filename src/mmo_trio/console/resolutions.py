"""Ending payments by hand: one operator proposes, on evidence, and another approves (four eyes)."""

from __future__ import annotations

from attrs import evolve
from quart import Blueprint, Response, render_template, url_for
from werkzeug.exceptions import BadRequest, Conflict, Forbidden, NotFound

from mmo_sansio.messages.inputs import ResolveManually
from mmo_sansio.messages.replies import Applied
from mmo_sansio.values.error_codes import ErrorCode
from mmo_trio.admin.audit_event import audit_event
from mmo_trio.admin.resolution import find_contradicting_evidence
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.payments import UNFINISHED_STATES
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import CurrentUser, SessionGuard, current_user, form_field
from mmo_trio.storage.interface.admin_types import Proposal, ProposalState

SUCCESS = "success"


def create_resolutions_blueprint(context: ConsoleContext, guard: SessionGuard) -> Blueprint:
    """GET /resolutions; POST /payments/REFERENCE/resolutions, /resolutions/ID/approve and /reject."""
    pages = Blueprint("resolutions", __name__)
    office = context.store.admin

    @pages.get("/resolutions")
    async def listed() -> str:
        waiting = [
            each for state in UNFINISHED_STATES for each in await office.proposals(state=state)
        ]
        return await render_template(
            "resolutions.html",
            proposals=waiting,
            eyes=current_user().mask,
            name=current_user().name,
        )

    @pages.post("/payments/<reference>/resolutions")
    async def propose(reference: str) -> Response:
        visitor = await guard.require(Permission.PROPOSE)
        transaction = await context.store.transaction(reference)
        if transaction is None:
            raise NotFound("There is no payment with this gatewayReference.")
        code = _parse_outcome(await form_field("outcome"))
        reason, evidence = await form_field("reason"), await form_field("evidence")
        provider_reference = await form_field(
            "provider_reference", length_max=255, is_required=False
        )
        if transaction.progress.stage.is_terminal:
            raise Conflict("The payment has ended already.")
        against = await find_contradicting_evidence(
            context.store, transaction, succeeded=code is None
        )
        if against is not None:
            raise Conflict(f"The evidence on record is against it: {against}")
        if any(each.state in UNFINISHED_STATES for each in await office.proposals(about=reference)):
            raise Conflict("There is a proposal about this payment already.")
        proposal = Proposal(
            0,
            transaction.reference,
            transaction.order.brand,
            code and code.value,
            provider_reference or None,
            reason,
            evidence,
            visitor.name,
            context.now(),
        )
        await _note(visitor, "resolution_proposed", proposal)
        proposal = evolve(proposal, id=await office.add_proposal(proposal))
        if not context.settings.four_eyes and visitor.has_permission(Permission.APPROVE):
            await _approve(visitor, proposal)
        return _redirect_to_payment(proposal)

    @pages.post("/resolutions/<int:id>/approve")
    async def approve(id: int) -> Response:
        visitor = await guard.require(Permission.APPROVE)
        proposal = await _proposal(id)
        if context.settings.four_eyes and proposal.proposed_by == visitor.name:
            await _note(visitor, "refused", proposal)
            raise Forbidden("You proposed it: another operator has to approve it.")
        await _approve(visitor, proposal)
        return _redirect_to_payment(proposal)

    @pages.post("/resolutions/<int:id>/reject")
    async def reject(id: int) -> Response:
        visitor = await guard.require(Permission.PROPOSE)
        proposal = await _proposal(id)
        if proposal.proposed_by != visitor.name:  # One's own may be taken back.
            await guard.require(Permission.APPROVE)
        remark = await form_field("remark")
        await _note(visitor, "resolution_rejected", proposal, remark)
        decided = _decided(proposal, ProposalState.REJECTED, visitor, remark)
        if not await office.update_proposal(ProposalState.OPEN, decided):
            raise Conflict("The proposal was decided meanwhile.")
        return _redirect_to_payment(proposal)

    async def _approve(visitor: CurrentUser, proposal: Proposal) -> None:
        """Decide, do, and say what came of it. Whoever comes after a crash in between carries on."""
        await _note(visitor, "resolution_approved", proposal)
        if proposal.state is ProposalState.OPEN:
            approved = _decided(proposal, ProposalState.APPROVED, visitor)
            if not await office.update_proposal(ProposalState.OPEN, approved):
                raise Conflict("The proposal was decided meanwhile.")
        elif proposal.state is ProposalState.APPROVED:
            approved = proposal
        else:
            raise Conflict("The proposal was decided meanwhile.")
        fault = await _carry_out(approved)
        done = ProposalState.DONE if fault is None else ProposalState.REFUSED
        act = "payment_resolved" if fault is None else "resolution_failed"
        await _note(visitor, act, approved, fault)
        await office.update_proposal(
            ProposalState.APPROVED, evolve(approved, state=done, remark=fault)
        )

    async def _carry_out(approved: Proposal) -> str | None:
        """What kept it from being done; None when it was done."""
        transaction = await context.store.transaction(approved.gateway_reference)
        assert transaction is not None
        who = f"{approved.proposed_by}, approved by {approved.decided_by}"
        if transaction.progress.stage.is_terminal:
            lines = await context.store.timeline(transaction.reference)
            if any(line.actor == f"operator:{who}" for line in lines):
                return None
            return "The payment has ended meanwhile."
        succeeded = approved.error_code is None
        against = await find_contradicting_evidence(context.store, transaction, succeeded=succeeded)
        if against is not None:
            return f"The evidence on record is against it: {against}"
        given = ResolveManually(
            transaction.reference,
            user=who,
            reason=approved.reason,
            evidence=approved.evidence,
            error_code=None if approved.error_code is None else ErrorCode(approved.error_code),
            provider_reference=approved.provider_reference,
        )
        reply = await context.submit(given)
        return None if isinstance(reply, Applied) else getattr(reply, "reason", "It was refused.")

    async def _note(
        visitor: CurrentUser, act: str, about: Proposal, remark: str | None = None
    ) -> None:
        told = audit_event(
            context.now(),
            visitor.actor,
            act,
            f"payment:{about.gateway_reference}",
            proposal=about.id or None,
            outcome=about.error_code or SUCCESS,
            reason=about.reason,
            evidence=about.evidence,
            proposedBy=about.proposed_by,
            remark=remark,
        )
        await office.append_audit(told)

    async def _proposal(id: int) -> Proposal:
        found = await office.proposal(id) if id < 2**63 else None
        if found is None:
            raise NotFound("There is no such proposal.")
        return found

    def _decided(
        proposal: Proposal, state: ProposalState, visitor: CurrentUser, remark: str | None = None
    ) -> Proposal:
        return evolve(
            proposal,
            state=state,
            decided_by=visitor.name,
            decided_at=context.now(),
            remark=remark,
        )

    return pages


def _redirect_to_payment(proposal: Proposal) -> Response:
    location = url_for("payments.show", reference=proposal.gateway_reference)
    return Response("", 303, {"Location": location})


def _parse_outcome(outcome: str) -> ErrorCode | None:
    if outcome == SUCCESS:
        return None
    try:
        return ErrorCode(outcome)
    except ValueError:
        raise BadRequest("There is no such outcome.") from None

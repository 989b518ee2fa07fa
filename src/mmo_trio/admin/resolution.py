"""Resolves payments by hand: people end them on evidence, in the console by proposals (four eyes).

The rules for proposals are one pure function, :func:`next_state`; :func:`resolve_payment` is the
only way in which a person's decision reaches the payment rules."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import evolve, field, frozen

from mmo_sansio.messages.inputs import Input, ResolveManually
from mmo_sansio.messages.replies import Applied, Reply
from mmo_sansio.payments.evidence import find_contradiction
from mmo_sansio.values.clock import MINUTE, Instant, Span, format_with_microseconds, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.storage.interface.admin_types import (
    UNFINISHED_STATES,
    AuditEvent,
    AuditKey,
    Proposal,
    ProposalState,
)
from mmo_trio.storage.sql.store import Store

# The outcome of a resolution that has no error code.
SUCCESS = "success"


# Commands know users of the machine; the prefix keeps them apart from the console's.
_COMMAND_PREFIX: Final = "cli:"


def command_user_name(machine_user: str) -> str:
    """Return the name under which a user of the machine, who runs a command, takes part."""
    return _COMMAND_PREFIX + machine_user


def is_same_person(one: str, other: str) -> bool:
    """Return whether two names may be one person's, in the console and on the machine."""
    # One person may be both: four eyes are two people, not two names.
    return one.removeprefix(_COMMAND_PREFIX) == other.removeprefix(_COMMAND_PREFIX)


class ProposalAction(StrEnum):
    """Names an action of a user on a proposal."""

    PROPOSE = "propose"
    APPROVE = "approve"
    REJECT = "reject"


class ProposalActor(StrEnum):
    """Says how a user is related to a proposal."""

    VIEWER = "viewer"
    """May neither propose nor approve."""
    PROPOSER = "proposer"
    """Made the proposal and must not approve it."""
    COLLEAGUE = "colleague"
    """May propose, but not decide on another user's proposal."""
    APPROVER = "approver"
    """May decide on this proposal."""


class ResolutionRefusal(StrEnum):
    """Says why an action on a proposal, or a resolution, is refused."""

    NOT_PERMITTED = "Your role does not permit it."
    OWN_PROPOSAL = "You proposed it: another user has to approve it."
    NO_PAYMENT = "There is no payment with this gatewayReference."
    NO_PROPOSAL = "There is no such proposal."
    ALREADY_PROPOSED = "There is a proposal about this payment already."
    ALREADY_DECIDED = "The proposal was decided meanwhile."
    PROPOSER_DISABLED = (
        "The user who proposed it is disabled: reject it, and propose it yourself if it is right."
    )
    PAYMENT_ENDED = "The payment has ended already."
    EVIDENCE = "The evidence on record is against it"
    RULES = "It can't be resolved."


class ResolutionRefused(Exception):
    """Nothing was resolved; the message is a sentence for a person."""

    def __init__(self, refusal: ResolutionRefusal, message: str | None = None) -> None:
        super().__init__(message or refusal.value)
        self.refusal = refusal


# Who may do what: four eyes are here, in one table.
PERMITTED_ACTORS: Mapping[ProposalAction, frozenset[ProposalActor]] = MappingProxyType(
    {
        ProposalAction.PROPOSE: frozenset(ProposalActor) - {ProposalActor.VIEWER},
        ProposalAction.APPROVE: frozenset({ProposalActor.APPROVER}),
        ProposalAction.REJECT: frozenset({ProposalActor.APPROVER, ProposalActor.PROPOSER}),
    }
)

# How long an approved proposal is left to the user who approved it: another one carries it out only
# afterwards, as after a crash.
CARRIED_OUT_WITHIN = Span(MINUTE)


def next_state(
    state: ProposalState | None, action: ProposalAction, actor: ProposalActor
) -> ProposalState | ResolutionRefusal:
    """Return the state of the proposal after this action; None stands for no proposal. Approving an
    approved proposal carries it out again after a crash; a second time does no harm."""
    # 1. Who may not do it at all; a proposer learns why.
    if actor not in PERMITTED_ACTORS[action]:
        is_own = actor is ProposalActor.PROPOSER
        if is_own:
            return ResolutionRefusal.OWN_PROPOSAL
        return ResolutionRefusal.NOT_PERMITTED

    # 2. One unfinished proposal for a payment, so that no two are carried out.
    if action is ProposalAction.PROPOSE:
        if state in UNFINISHED_STATES:
            return ResolutionRefusal.ALREADY_PROPOSED
        return ProposalState.OPEN

    # 3. What is approved may be approved again: its first approver may have crashed before the end.
    if action is ProposalAction.APPROVE and state in UNFINISHED_STATES:
        return ProposalState.APPROVED
    if action is ProposalAction.REJECT and state is ProposalState.OPEN:
        return ProposalState.REJECTED
    if state is None:
        return ResolutionRefusal.NO_PROPOSAL

    return ResolutionRefusal.ALREADY_DECIDED


@frozen
class ResolutionUser:
    """A user of the console who takes part in a resolution."""

    name: str
    actor: str
    """The user's name in the audit log."""
    can_propose: bool
    can_approve: bool
    people: Mapping[str, str | None] = field(factory=dict)
    """What the audit log holds of who else acts, where a command is run."""
    is_command: bool = False
    """Whether this is a user of the machine, who runs a command."""

    def actor_for(self, proposal: Proposal | None, *, four_eyes: bool) -> ProposalActor:
        """Return the relation of this user to the proposal."""
        # With four eyes nobody approves his own proposal, whatever his role.
        is_own = proposal is not None and is_same_person(proposal.proposed_by, self.name)
        if self.can_approve and not (is_own and four_eyes):
            return ProposalActor.APPROVER
        if not self.can_propose:
            return ProposalActor.VIEWER
        if is_own:
            return ProposalActor.PROPOSER
        return ProposalActor.COLLEAGUE


Submit: TypeAlias = Callable[[Input], Awaitable[Reply]]


# Appends an audit event about a resolution: its action, and a remark.
RecordResolution: TypeAlias = Callable[[str, str | None], Awaitable[None]]


async def resolve_payment(
    store: Store,
    submit: Submit,
    transaction: Transaction,
    resolution: ResolveManually,
    record: RecordResolution,
) -> Transaction:
    """Check the evidence, record, resolve the payment and record a failure; return the payment.

    Raises ResolutionRefused.
    """
    # Recorded before it takes effect: no resolution without its event, whatever crashes.
    try:
        await check_evidence(
            store, transaction, resolution.error_code, resolution.provider_reference
        )
        await record("payment_resolved", None)
        return await _submit_resolution(submit, resolution)
    except ResolutionRefused as refused:
        await record("resolution_failed", str(refused))
        raise


async def _submit_resolution(submit: Submit, resolution: ResolveManually) -> Transaction:
    reply = await submit(resolution)
    if not isinstance(reply, Applied):
        raise ResolutionRefused(ResolutionRefusal.RULES, getattr(reply, "reason", None))
    return reply.transaction


async def check_evidence(
    store: Store, transaction: Transaction, error_code: ErrorCode | None, receipt: str | None
) -> None:
    """Raise ResolutionRefused if something is known against this end, or another payment has
    succeeded with the receipt of a success: not every operator's results claim their receipts."""
    against = await find_evidence_against(store, transaction, succeeded=error_code is None)
    # One receipt is of one payment: where another one has it, that one has the money.
    if against is None and error_code is None and receipt is not None:
        against = await _find_payment_with(store, receipt, transaction)

    if against is not None:
        raise ResolutionRefused(
            ResolutionRefusal.EVIDENCE, f"{ResolutionRefusal.EVIDENCE}: {against}"
        )


async def find_evidence_against(
    store: Store, transaction: Transaction, *, succeeded: bool
) -> str | None:
    """Return in a sentence which reported receipt, claim or entry of the suspense book, open or
    closed, contradicts this end of a payment; None when none does. Raises StoreUnavailable."""
    claims = await store.open_claims(transaction.reference)
    entries = [
        (entry.reason, entry.content)
        for entry in await store.admin.suspense_of_payment(transaction.reference)
    ]
    return find_contradiction(transaction, succeeded=succeeded, claims=claims, entries=entries)


async def _find_payment_with(store: Store, receipt: str, transaction: Transaction) -> str | None:
    """Return in a sentence which other payment or deposit has this receipt of the provider; None
    when none has."""
    # A person copies it, and may write `sfk7qx` for SFK7QX: to the rules that is another receipt.
    for spelling in dict.fromkeys((receipt, receipt.upper(), receipt.lower())):
        owner = await _find_owner(store, spelling, transaction)
        if owner is not None:
            return f"The receipt {spelling} is the one of {owner}. Name the payment's own."

    return None


async def _find_owner(store: Store, receipt: str, transaction: Transaction) -> str | None:
    provider = transaction.order.provider
    for payment in (await store.admin.search_payments(receipt)).transactions:
        is_of_another = (
            payment.order.provider == provider and payment.reference != transaction.reference
        )
        is_paid = (
            payment.status is Status.SUCCESS and payment.progress.provider_reference == receipt
        )
        if is_of_another and is_paid:
            return payment.reference

    # Money that was reported for a payment which has ended otherwise, or for none yet.
    claim = await store.deposit_claim(provider, receipt)
    if claim is None or claim.payment == transaction.reference:
        return None
    if claim.payment is None:
        return "a deposit that belongs to no payment yet"
    return claim.payment


@frozen
class Resolutions:
    """Proposals to resolve payments by hand, and the decisions on them."""

    store: Store
    submit: Submit
    audit_log: AuditLog
    four_eyes: bool

    async def propose(
        self,
        user: ResolutionUser,
        reference: str,
        error_code: ErrorCode | None,
        *,
        reason: str,
        evidence: str,
        provider_reference: str | None = None,
    ) -> Proposal:
        """Add a proposal about a payment; without four eyes an approver's takes effect at once.

        Raises ResolutionRefused.
        """
        transaction = await self.store.transaction(reference)
        if transaction is None:
            raise ResolutionRefused(ResolutionRefusal.NO_PAYMENT)
        if transaction.progress.stage.is_terminal:
            raise ResolutionRefused(ResolutionRefusal.PAYMENT_ENDED)

        await check_evidence(self.store, transaction, error_code, provider_reference)

        # 1. May this user propose it, and is there no other proposal?
        earlier = await self.store.admin.proposals(about=transaction.reference)
        unfinished = next(
            (reversal for reversal in earlier if reversal.state in UNFINISHED_STATES), None
        )
        after = self._next_state(unfinished, ProposalAction.PROPOSE, user)
        if isinstance(after, ResolutionRefusal):
            raise ResolutionRefused(after)

        # 2. Store it. Of two that propose at the same time, the store takes one.
        proposal = Proposal(
            id=0,
            gateway_reference=transaction.reference,
            brand=transaction.order.brand,
            error_code=error_code and error_code.value,
            provider_reference=provider_reference,
            reason=reason,
            evidence=evidence,
            proposed_by=user.name,
            proposed_at=self.audit_log.wall_time(),
        )
        await self._record(user, proposal, "resolution_proposed")
        id = await self.store.admin.add_proposal(proposal)
        if id is None:
            await self._record(user, proposal, "refused")
            raise ResolutionRefused(ResolutionRefusal.ALREADY_PROPOSED)

        # 3. Without four eyes nobody else has to agree.
        proposal = evolve(proposal, id=id)
        if not self.four_eyes and user.can_approve:
            await self.approve(user, proposal.id)

        return proposal

    async def approve(self, user: ResolutionUser, id: int) -> Proposal:
        """Approve a proposal and carry it out; after a crash in between, carry it out again.

        Of several users who approve at once, one ends the proposal and records that; the others
        learn who decided. The returned proposal is `refused` when the evidence or the payment rules
        are against it. Raises ResolutionRefused when this user has approved nothing."""
        proposal = await self._find(id)
        approved = await self._decide(user, proposal, ProposalAction.APPROVE)
        try:
            await self._carry_out(approved)
            ended = evolve(approved, state=ProposalState.DONE, remark=None)
            action = "payment_resolved"
        except ResolutionRefused as refused:
            ended = evolve(approved, state=ProposalState.REFUSED, remark=str(refused))
            action = "resolution_failed"

        # One event for one resolution: before a crash it may have been recorded already.
        is_recorded = ended.state is ProposalState.DONE and await self._is_recorded_as_resolved(
            approved
        )
        event = None
        if not is_recorded:
            event = self._event(user, ended, action, ended.remark)

        if not await self.store.admin.update_proposal(ProposalState.APPROVED, ended, event=event):
            raise ResolutionRefused(ResolutionRefusal.ALREADY_DECIDED, _who_decided(approved))

        return ended

    async def reject(self, user: ResolutionUser, id: int, remark: str) -> Proposal:
        """Reject another user's proposal, or withdraw one's own. Raises ResolutionRefused."""
        return await self._decide(user, await self._find(id), ProposalAction.REJECT, remark)

    async def _find(self, id: int) -> Proposal | None:
        # Databases have 64 bits for an id; a larger one in an address is nobody's.
        if id < 2**63:
            return await self.store.admin.proposal(id)
        return None

    def _next_state(
        self, proposal: Proposal | None, action: ProposalAction, user: ResolutionUser
    ) -> ProposalState | ResolutionRefusal:
        actor = user.actor_for(proposal, four_eyes=self.four_eyes)
        state = None
        if proposal is not None:
            state = proposal.state
        return next_state(state, action, actor)

    async def _decide(
        self,
        user: ResolutionUser,
        proposal: Proposal | None,
        action: ProposalAction,
        remark: str | None = None,
    ) -> Proposal:
        """Record the decision, then store it unless the state changed meanwhile."""
        # 1. May this user do it, with the proposal as it is?
        after = self._next_state(proposal, action, user)
        if (
            after is ProposalState.APPROVED
            and proposal is not None
            and proposal.state is ProposalState.OPEN
        ):
            proposer = await self.store.admin.user(proposal.proposed_by)
            is_gone = proposer is None or proposer.disabled_at is not None
            # The machine's users are not listed here; who may run commands is its own matter.
            if is_gone and not proposal.proposed_by.startswith(_COMMAND_PREFIX):
                after = ResolutionRefusal.PROPOSER_DISABLED

        # 2. Refusals. What is not a user's to do is not recorded; what others tried is.
        if proposal is None or after is ResolutionRefusal.NOT_PERMITTED:
            assert isinstance(after, ResolutionRefusal)
            raise ResolutionRefused(after)

        if isinstance(after, ResolutionRefusal) or self._is_with_another(user, proposal):
            await self._record(user, proposal, "refused")
            if (
                isinstance(after, ResolutionRefusal)
                and after is not ResolutionRefusal.ALREADY_DECIDED
            ):
                raise ResolutionRefused(after)

            raise ResolutionRefused(ResolutionRefusal.ALREADY_DECIDED, _who_decided(proposal))

        # 3. The event first, then the change: no decision without its event.
        await self._record(user, proposal, _AUDIT_ACTIONS[action], remark)
        if after is proposal.state:
            return proposal

        decided = evolve(
            proposal,
            state=after,
            decided_by=user.name,
            decided_at=self.audit_log.wall_time(),
            remark=remark,
        )
        # The store changes only what is still as it was read: of two who decide, one has decided.
        if not await self.store.admin.update_proposal(proposal.state, decided):
            faster = await self.store.admin.proposal(proposal.id) or proposal
            raise ResolutionRefused(ResolutionRefusal.ALREADY_DECIDED, _who_decided(faster))

        return decided

    def _is_with_another(self, user: ResolutionUser, proposal: Proposal) -> bool:
        """Return whether another user has approved the proposal just now, and is about to carry it
        out."""
        if proposal.state is not ProposalState.APPROVED or proposal.decided_by == user.name:
            return False
        return self.audit_log.wall_time() < later(
            proposal.decided_at or Instant(0), CARRIED_OUT_WITHIN
        )

    async def _carry_out(self, approved: Proposal) -> None:
        """Resolve the payment unless this proposal has resolved it already: before a crash, or at
        the hands of another approver at the same moment. Raises ResolutionRefused."""
        transaction = await self.store.transaction(approved.gateway_reference)
        assert transaction is not None

        error_code = None
        if approved.error_code is not None:
            error_code = ErrorCode(approved.error_code)

        # The user's text has the proposal's number: by it the journal tells who resolved.
        resolution = ResolveManually(
            transaction.reference,
            transaction.order.provider,
            user=f"{approved.proposed_by}, approved by {approved.decided_by} (proposal "
            f"{approved.id})",
            reason=approved.reason,
            evidence=approved.evidence,
            error_code=error_code,
            provider_reference=approved.provider_reference,
        )

        try:
            if transaction.progress.stage.is_terminal:
                raise ResolutionRefused(
                    ResolutionRefusal.PAYMENT_ENDED, "The payment has ended meanwhile."
                )

            await check_evidence(
                self.store, transaction, resolution.error_code, resolution.provider_reference
            )
            await _submit_resolution(self.submit, resolution)
        except ResolutionRefused:
            # Refused because it is done: a crash, or another approver, came between.
            if not await self._has_resolved(resolution):
                raise

    async def _has_resolved(self, resolution: ResolveManually) -> bool:
        """Return whether the journal has this resolution, of this proposal."""
        lines = await self.store.admin.timeline(resolution.gateway_reference)
        return any(line.actor == f"user:{resolution.user}" for line in lines)

    async def _is_recorded_as_resolved(self, approved: Proposal) -> bool:
        rows = await self.store.admin.audit(about=f"payment:{approved.gateway_reference}")
        events = [row.event for row in rows if row.event.action == "payment_resolved"]
        return any(json.loads(event.detail).get("proposal") == approved.id for event in events)

    async def _record(
        self, user: ResolutionUser, proposal: Proposal, action: str, remark: str | None = None
    ) -> None:
        await self.store.admin.append_audit(*self._event(user, proposal, action, remark))

    def _event(
        self, user: ResolutionUser, proposal: Proposal, action: str, remark: str | None
    ) -> tuple[AuditEvent, AuditKey]:
        return self.audit_log.event(
            user.actor,
            action,
            f"payment:{proposal.gateway_reference}",
            proposal=proposal.id or None,
            outcome=proposal.error_code or SUCCESS,
            reason=proposal.reason,
            evidence=proposal.evidence,
            proposedBy=proposal.proposed_by,
            remark=remark,
            **user.people,
        )


def _who_decided(proposal: Proposal) -> str:
    """Return a sentence about who has decided on a proposal, and when."""
    if proposal.decided_by is None or proposal.decided_at is None:
        return ResolutionRefusal.ALREADY_DECIDED.value

    verb = "approved"
    if proposal.state is ProposalState.REJECTED:
        verb = "rejected"

    return (
        f"{proposal.decided_by} {verb} it already, at "
        f"{format_with_microseconds(proposal.decided_at)[:19]}Z."
    )


_AUDIT_ACTIONS = {
    ProposalAction.APPROVE: "resolution_approved",
    ProposalAction.REJECT: "resolution_rejected",
}

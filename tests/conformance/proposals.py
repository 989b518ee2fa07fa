"""Checks of the proposals to resolve payments by hand."""

from __future__ import annotations

from attrs import evolve

from mmo_trio.storage.interface.admin_types import (
    ApprovalKind,
    AuditEvent,
    AuditKey,
    Proposal,
    ProposalState,
)
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import NOON, OpenStore, after_noon
from tests.conformance.inputs import reference


async def check_proposals(open_store: OpenStore) -> None:
    """Of two users who decide on a proposal, one succeeds; of two who propose, too, until that
    proposal is finished."""
    async with open_store() as store:
        admin = store.admin
        made = Proposal(0, reference(1), "acme", None, "P1", "asked", "page 3", "ada", NOON)
        id = await admin.add_proposal(made)
        other = await admin.add_proposal(
            evolve(made, gateway_reference=reference(2), error_code="x")
        )
        assert id is not None
        assert other is not None
        assert await _waiting(store) == 2
        stored = evolve(made, id=id)
        assert await admin.proposal(id) == stored
        assert await admin.proposal(id + other) is None
        decided = evolve(
            stored, state=ProposalState.APPROVED, decided_by="bob", decided_at=after_noon(1)
        )
        assert await admin.update_proposal(ProposalState.OPEN, decided)
        assert not await admin.update_proposal(ProposalState.OPEN, decided)
        assert await _waiting(store) == 1
        assert [each.id for each in await admin.proposals()] == [other, id]
        assert list(await admin.proposals(about=reference(1))) == [decided]
        assert [each.id for each in await admin.proposals(state=ProposalState.OPEN)] == [other]
        assert await admin.add_proposal(evolve(made, error_code="x")) is None, "one is approved"
        assert await admin.add_proposal(evolve(made, gateway_reference=reference(2))) is None, (
            "one is open"
        )
        assert await admin.update_proposal(
            ProposalState.APPROVED, evolve(decided, state=ProposalState.REFUSED)
        )
        assert await admin.add_proposal(evolve(made, error_code="x")) is not None


async def _waiting(store: Store) -> int:
    """Return how many proposals the figures for staff say that wait."""
    backlog = await store.admin.backlog(NOON, overdue_before=NOON)
    return backlog.approvals[ApprovalKind.RESOLUTION]


async def check_decision_is_recorded_once(open_store: OpenStore) -> None:
    """A decision and its audit event become durable together, and only for the user whose decision
    counts."""
    key = AuditKey("k1", bytes(32))
    async with open_store() as store:
        admin = store.admin
        id = await admin.add_proposal(
            Proposal(0, reference(1), "acme", None, "P1", "asked", "page 3", "ada", NOON)
        )
        assert id is not None
        stored = await admin.proposal(id)
        assert stored is not None
        decided = evolve(
            stored, state=ProposalState.DONE, decided_by="bob", decided_at=after_noon(1)
        )
        for user, counts in (("bob", True), ("eve", False)):
            event = AuditEvent(after_noon(1), f"user:{user}", "payment_resolved", "payment:1", "{}")
            assert (
                await admin.update_proposal(ProposalState.OPEN, decided, event=(event, key))
                is counts
            )
    async with open_store() as store:
        [row] = await store.admin.audit()
        assert row.event.actor == "user:bob"
        assert await store.admin.proposal(id) == decided

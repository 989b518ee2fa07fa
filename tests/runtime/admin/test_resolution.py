"""Resolution by hand: every cell of the table of proposals, and what is recorded around a
decision."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from itertools import product
from typing import Any, cast

import pytest
from attrs import evolve

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Reply
from mmo_sansio.testing import builders as a
from mmo_sansio.values.clock import Instant, Span, earlier, format_with_microseconds
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import DepositTrust, Source, Stage, Status, Transaction
from mmo_sansio.values.money import Money
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.admin.resolution import (
    CARRIED_OUT_WITHIN,
    ProposalAction,
    ProposalActor,
    ResolutionRefusal,
    ResolutionRefused,
    Resolutions,
    ResolutionUser,
    next_state,
)
from mmo_trio.engine.engine import submit_once
from mmo_trio.storage.interface.admin_types import (
    AuditKey,
    ConsoleUser,
    Proposal,
    ProposalState,
    Role,
)
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import SqliteStore
from mmo_trio.system.clock import GatewayClock

NOT_PERMITTED, OWN_PROPOSAL = ResolutionRefusal.NOT_PERMITTED, ResolutionRefusal.OWN_PROPOSAL
ALREADY_PROPOSED, DECIDED = ResolutionRefusal.ALREADY_PROPOSED, ResolutionRefusal.ALREADY_DECIDED
NO_PROPOSAL = ResolutionRefusal.NO_PROPOSAL
OPEN, APPROVED = ProposalState.OPEN, ProposalState.APPROVED
DONE, REJECTED, REFUSED = ProposalState.DONE, ProposalState.REJECTED, ProposalState.REFUSED

STATES = (None, OPEN, APPROVED, DONE, REJECTED, REFUSED)
TABLE: dict[tuple[ProposalAction, ProposalActor], Sequence[ProposalState | ResolutionRefusal]] = {
    (ProposalAction.PROPOSE, ProposalActor.VIEWER): [NOT_PERMITTED] * 6,
    (ProposalAction.PROPOSE, ProposalActor.COLLEAGUE): [
        OPEN, ALREADY_PROPOSED, ALREADY_PROPOSED, OPEN, OPEN, OPEN,
    ],
    (ProposalAction.PROPOSE, ProposalActor.PROPOSER): [
        OPEN, ALREADY_PROPOSED, ALREADY_PROPOSED, OPEN, OPEN, OPEN,
    ],
    (ProposalAction.PROPOSE, ProposalActor.APPROVER): [
        OPEN, ALREADY_PROPOSED, ALREADY_PROPOSED, OPEN, OPEN, OPEN,
    ],
    (ProposalAction.APPROVE, ProposalActor.VIEWER): [NOT_PERMITTED] * 6,
    (ProposalAction.APPROVE, ProposalActor.COLLEAGUE): [NOT_PERMITTED] * 6,
    (ProposalAction.APPROVE, ProposalActor.PROPOSER): [OWN_PROPOSAL] * 6,
    (ProposalAction.APPROVE, ProposalActor.APPROVER): [
        NO_PROPOSAL, APPROVED, APPROVED, DECIDED, DECIDED, DECIDED,
    ],
    (ProposalAction.REJECT, ProposalActor.VIEWER): [NOT_PERMITTED] * 6,
    (ProposalAction.REJECT, ProposalActor.COLLEAGUE): [NOT_PERMITTED] * 6,
    (ProposalAction.REJECT, ProposalActor.PROPOSER): [
        NO_PROPOSAL, REJECTED, DECIDED, DECIDED, DECIDED, DECIDED,
    ],
    (ProposalAction.REJECT, ProposalActor.APPROVER): [
        NO_PROPOSAL, REJECTED, DECIDED, DECIDED, DECIDED, DECIDED,
    ],
}  # fmt: skip
"""For each action and actor: the result in each of the states."""


@pytest.mark.parametrize(
    ("state", "action", "actor"), list(product(STATES, ProposalAction, ProposalActor))
)
def test_every_cell_of_the_table(
    state: ProposalState | None, action: ProposalAction, actor: ProposalActor
) -> None:
    assert next_state(state, action, actor) is TABLE[action, actor][STATES.index(state)]


def resolution_user(name: str, *, propose: bool = True, approve: bool = False) -> ResolutionUser:
    return ResolutionUser(name, f"user:{name}", propose, approve)


VERA = resolution_user("vera", propose=False)
SAM = resolution_user("sam")
ANN, ABE = resolution_user("ann", approve=True), resolution_user("abe", approve=True)
BY_SAM = Proposal(1, a.REFERENCE, "acme", None, None, "r", "e", "sam", Instant(1))
BY_ANN = evolve(BY_SAM, proposed_by="ann")


@pytest.mark.parametrize(
    ("user", "proposal", "four_eyes", "expected"),
    [
        (VERA, None, True, ProposalActor.VIEWER),
        (VERA, BY_SAM, False, ProposalActor.VIEWER),
        (SAM, None, True, ProposalActor.COLLEAGUE),
        (SAM, BY_ANN, True, ProposalActor.COLLEAGUE),
        (SAM, BY_ANN, False, ProposalActor.COLLEAGUE),
        (SAM, BY_SAM, True, ProposalActor.PROPOSER),
        (SAM, BY_SAM, False, ProposalActor.PROPOSER),
        (ANN, None, True, ProposalActor.APPROVER),
        (ANN, BY_SAM, True, ProposalActor.APPROVER),
        (ANN, BY_ANN, True, ProposalActor.PROPOSER),
        (ANN, BY_ANN, False, ProposalActor.APPROVER),
    ],
)
def test_the_relation_of_a_user_to_a_proposal(
    user: ResolutionUser, proposal: Proposal | None, four_eyes: bool, expected: ProposalActor
) -> None:
    assert user.actor_for(proposal, four_eyes=four_eyes) is expected


class Case:
    """A store with one submitted payment, and the resolutions of its users."""

    def __init__(self, store: SqliteStore, *, four_eyes: bool = True) -> None:
        self.store = store
        clock = GatewayClock()
        self.submit = partial(submit_once, self.store, clock=clock)
        self.audit_log = AuditLog(self.store.admin, AuditKey("k1", bytes(32)), clock.wall_time)
        self.resolutions = Resolutions(self.store, self.submit, self.audit_log, four_eyes=four_eyes)

    async def begin(self, *inputs: Input) -> None:
        for name in ("sam", "ann", "abe"):
            await self.store.admin.add_user(ConsoleUser(name, Role.APPROVER, "$hash", Instant(0)))
        for input_ in (a.a_create_payment(), a.a_begin_submission(), *inputs):
            await self.submit(input_)

    async def propose(
        self, user: ResolutionUser, code: ErrorCode | None = None, *, receipt: str | None = None
    ) -> Proposal:
        return await self.resolutions.propose(
            user,
            a.REFERENCE,
            code,
            reason="by phone",
            evidence="line 7",
            provider_reference=receipt,
        )

    async def fails(self) -> ResolutionRefusal:
        """Why nobody may propose that the payment has failed."""
        return await self.refusal(self.propose(SAM, ErrorCode.USER_TIMEOUT))

    async def refusal(self, act: Awaitable[Proposal]) -> ResolutionRefusal:
        with pytest.raises(ResolutionRefused) as caught:
            await act
        return caught.value.refusal

    async def acts(self) -> list[tuple[str, str]]:
        rows = await self.store.admin.audit_after(0, limit=100)
        assert all(row.event.about == f"payment:{a.REFERENCE}" for row in rows)
        return [(row.event.actor.removeprefix("user:"), row.event.action) for row in rows]

    async def status(self) -> Status:
        transaction = await self.store.transaction(a.REFERENCE)
        assert transaction is not None
        return transaction.status


async def begun(store: SqliteStore, *inputs: Input) -> Case:
    """A store with one submitted payment, of which this is known."""
    case = Case(store)
    await case.begin(*inputs)
    return case


def approved_long_ago(proposal: Proposal) -> Proposal:
    """This proposal, as a crash or a standstill left it more than a minute ago."""
    assert proposal.decided_at is not None
    return evolve(
        proposal,
        state=APPROVED,
        decided_at=earlier(proposal.decided_at, Span(CARRIED_OUT_WITHIN + 1)),
    )


async def test_an_approved_proposal_resolves_the_payment(store: SqliteStore) -> None:
    case = await begun(store)
    proposal = await case.propose(SAM)
    assert (proposal.id, proposal.state) == (1, OPEN)
    done = await case.resolutions.approve(ANN, 1)
    assert (done.state, done.decided_by, done.remark) == (DONE, "ann", None)
    assert await case.store.admin.proposal(1) == done
    transaction = await case.store.transaction(a.REFERENCE)
    assert transaction is not None
    assert transaction.progress.completion_source is Source.MANUAL
    assert await case.acts() == [
        ("sam", "resolution_proposed"),
        ("ann", "resolution_approved"),
        ("ann", "payment_resolved"),
    ]


async def test_without_four_eyes_a_proposal_of_an_approver_takes_effect_at_once(
    store: SqliteStore,
) -> None:
    case = Case(store, four_eyes=False)
    await case.begin(a.accepted())
    await case.propose(ANN, ErrorCode.USER_TIMEOUT)
    assert await case.status() is Status.FAILED
    assert [act for _, act in await case.acts()] == [
        "resolution_proposed",
        "resolution_approved",
        "payment_resolved",
    ]


async def test_refused_actions_change_nothing_and_are_recorded(store: SqliteStore) -> None:
    case = Case(store)
    assert await case.refusal(case.propose(SAM)) is ResolutionRefusal.NO_PAYMENT
    await case.begin()
    resolutions = case.resolutions
    assert await case.refusal(resolutions.approve(ANN, 1)) is NO_PROPOSAL
    assert await case.refusal(resolutions.approve(ANN, 2**63)) is NO_PROPOSAL
    assert await case.refusal(case.propose(VERA)) is NOT_PERMITTED
    assert await case.acts() == []
    await case.propose(ANN)
    assert await case.refusal(case.propose(SAM)) is ALREADY_PROPOSED
    assert await case.refusal(resolutions.approve(ANN, 1)) is OWN_PROPOSAL
    assert await case.refusal(resolutions.approve(SAM, 1)) is NOT_PERMITTED
    assert await case.refusal(resolutions.reject(SAM, 1, "no")) is NOT_PERMITTED
    assert await case.status() is Status.PENDING
    assert (await resolutions.reject(ABE, 1, "no such line")).remark == "no such line"
    assert await case.refusal(resolutions.approve(ABE, 1)) is DECIDED
    assert await case.acts() == [
        ("ann", "resolution_proposed"),
        ("ann", "refused"),
        ("abe", "resolution_rejected"),
        ("abe", "refused"),
    ]


async def test_evidence_that_arrives_before_the_approval_refuses_the_proposal(
    store: SqliteStore,
) -> None:
    case = await begun(store)
    await case.propose(SAM, ErrorCode.USER_TIMEOUT)
    await case.submit(a.succeeded(final=Money(100, "UGX")))
    assert await case.fails() is ResolutionRefusal.EVIDENCE
    refused = await case.resolutions.approve(ANN, 1)
    assert refused.state is REFUSED
    assert refused.remark is not None
    assert refused.remark.startswith("The evidence on record is against it: ")
    assert await case.status() is Status.PENDING
    assert (await case.acts())[-1] == ("ann", "resolution_failed")


@pytest.mark.spec("S5")
@pytest.mark.parametrize("trust", [DepositTrust.UNCONFIRMED, DepositTrust.CONFIRMED], ids=str)
async def test_money_that_names_the_payment_refuses_its_failure_by_hand(
    store: SqliteStore, trust: DepositTrust
) -> None:
    """The operator has confirmed a deposit that names the payment, or has yet to be asked; nothing
    else of it is known but to its claim."""
    case = await begun(store, a.accepted(provider_reference="ws_CO_1"))
    proposed = await case.propose(SAM, ErrorCode.USER_TIMEOUT)
    await case.submit(
        a.a_deposit(gateway_reference=a.UNUSED_REFERENCE, payment=a.REFERENCE, trust=trust)
    )
    assert await case.fails() is ResolutionRefusal.EVIDENCE
    refused = await case.resolutions.approve(ANN, proposed.id)
    said = "has confirmed"
    if trust is DepositTrust.UNCONFIRMED:
        said = "must first answer whether it has"
    assert refused.remark is not None
    assert f"Test Money {said} the receipt DEP-1, which names this payment." in refused.remark
    assert await case.status() is Status.PENDING


@pytest.mark.parametrize("typed", ["DEP-1", "dep-1"])
async def test_a_receipt_that_a_deposit_has_refuses_the_proposal(
    store: SqliteStore, typed: str
) -> None:
    case = await begun(store, a.a_deposit(gateway_reference=a.UNUSED_REFERENCE))
    assert await case.refusal(case.propose(SAM, receipt=typed)) is ResolutionRefusal.EVIDENCE
    assert await case.status() is Status.PENDING


@pytest.mark.spec("S4")
@pytest.mark.parametrize("typed", ["R-1", "r-1"])
async def test_a_receipt_with_which_another_payment_has_succeeded_refuses_the_proposal(
    store: SqliteStore, typed: str
) -> None:
    """Its operator's results claim no receipt, and a person copies it by hand."""
    case = Case(store)
    another = a.UNUSED_REFERENCE
    await case.begin(
        a.a_create_payment(another, merchant_reference="another"), a.a_begin_submission(another)
    )
    proposed = await case.propose(SAM, receipt=typed)
    await case.submit(a.succeeded(another, provider_reference="R-1"))
    refused = await case.resolutions.approve(ANN, proposed.id)
    assert (refused.state, await case.status()) == (REFUSED, Status.PENDING)
    assert refused.remark is not None
    assert f"The receipt R-1 is the one of {another}." in refused.remark


async def test_a_payment_that_ended_meanwhile_stays_as_it_ended(store: SqliteStore) -> None:
    case = await begun(store)
    await case.propose(SAM, ErrorCode.USER_TIMEOUT)
    await case.submit(a.succeeded())
    refused = await case.resolutions.approve(ANN, 1)
    assert (refused.state, refused.remark) == (REFUSED, "The payment has ended meanwhile.")
    assert await case.refusal(case.propose(SAM)) is ResolutionRefusal.PAYMENT_ENDED
    assert await case.status() is Status.SUCCESS


async def test_an_approval_that_a_crash_interrupted_is_carried_out_again(
    store: SqliteStore,
) -> None:
    case = await begun(store)
    await case.propose(SAM)
    done = await case.resolutions.approve(ANN, 1)
    for _ in range(2):
        assert await case.store.admin.update_proposal(DONE, approved_long_ago(done))
        again = await case.resolutions.approve(ABE, 1)
        assert (again.state, again.decided_by) == (DONE, "ann")
    assert [act for _, act in await case.acts()].count("payment_resolved") == 1


async def test_of_two_who_approve_at_once_the_slower_one_undoes_nothing(store: SqliteStore) -> None:
    case = await begun(store)
    await case.propose(SAM)
    hurry = case.submit
    told: list[str] = []

    async def submit(input_: Input) -> Reply:
        """The other approver comes while this one is about to resolve the payment."""
        with pytest.raises(ResolutionRefused) as caught:
            await case.resolutions.approve(ABE, 1)
        told.append(str(caught.value))
        return await hurry(input_)

    done = await Resolutions(case.store, submit, case.audit_log, four_eyes=True).approve(ANN, 1)
    assert (done.state, done.decided_by, done.decided_at) == (DONE, "ann", done.decided_at)
    at = format_with_microseconds(done.decided_at or Instant(0))[:19]
    assert told == [f"ann approved it already, at {at}Z."]
    stored = await case.store.admin.proposal(1)
    assert stored == done
    assert await case.acts() == [
        ("sam", "resolution_proposed"),
        ("ann", "resolution_approved"),
        ("abe", "refused"),
        ("ann", "payment_resolved"),
    ]


@pytest.mark.parametrize("is_after_the_resolution", [True, False])
async def test_of_two_who_carry_out_one_approval_one_records_it(
    store: SqliteStore, *, is_after_the_resolution: bool
) -> None:
    """The one who approved stood still for a minute, so that another user went on for him."""
    case = await begun(store)
    await case.propose(SAM)
    hurry = case.submit
    other: list[Proposal] = []

    async def go_on() -> None:
        approved = await case.store.admin.proposal(1)
        assert approved is not None
        assert await case.store.admin.update_proposal(APPROVED, approved_long_ago(approved))
        other.append(await case.resolutions.approve(ABE, 1))

    async def submit(input_: Input) -> Reply:
        if not is_after_the_resolution:
            await go_on()
        reply = await hurry(input_)
        if is_after_the_resolution:
            await go_on()
        return reply

    slow = Resolutions(case.store, submit, case.audit_log, four_eyes=True)
    with pytest.raises(ResolutionRefused, match=r"^ann approved it already, at "):
        await slow.approve(ANN, 1)
    assert [(each.state, each.decided_by) for each in other] == [(DONE, "ann")]
    assert await case.status() is Status.SUCCESS
    assert (await case.acts()).count(("abe", "payment_resolved")) == 1
    assert [act for _, act in await case.acts()].count("payment_resolved") == 1


async def test_of_two_who_decide_in_one_moment_one_learns_who_was_faster(
    store: SqliteStore,
) -> None:
    case = await begun(store)
    await case.propose(SAM)

    seen = await case.store.admin.proposal(1)
    await case.resolutions.reject(ABE, 1, "no such line")

    class SlowAdmin(AdminStore):
        """Shows the proposal first as it was before the other user rejected it."""

        shown = 0

        async def proposal(self, id: int) -> Proposal | None:
            SlowAdmin.shown += 1
            return seen if SlowAdmin.shown == 1 else await AdminStore.proposal(self, id)

    case.store.admin = SlowAdmin(store.admin.read, store.admin.write, store.admin.clear_breaker)
    with pytest.raises(ResolutionRefused, match=r"^abe rejected it already, at "):
        await case.resolutions.approve(ANN, 1)


async def test_a_refusal_after_the_other_approvers_success_is_none(store: SqliteStore) -> None:
    """The slower approver is refused before the faster one has stored that the proposal is done."""
    case = await begun(store)
    await case.propose(SAM)
    done = await case.resolutions.approve(ABE, 1)
    assert await case.store.admin.update_proposal(DONE, approved_long_ago(done))
    resolved = await case.store.transaction(a.REFERENCE)
    assert resolved is not None
    stale = evolve(resolved, progress=evolve(resolved.progress, stage=Stage.AWAITING_RESULT))

    class SlowStore:
        """Shows the payment as it was before it was resolved."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def transaction(self, gateway_reference: str) -> Transaction | None:
            return stale

    slow = cast(Store, SlowStore())
    ended = await Resolutions(slow, case.submit, case.audit_log, four_eyes=True).approve(ANN, 1)
    assert (ended.state, ended.remark) == (DONE, None)
    assert "resolution_failed" not in [act for _, act in await case.acts()]


async def test_a_user_of_the_console_approves_what_a_command_of_somebody_else_proposes(
    store: SqliteStore,
) -> None:
    case = await begun(store)
    shell = evolve(SAM, name="cli:ann", actor="cli:ann", can_approve=True, is_command=True)
    await case.propose(shell)
    assert await case.refusal(case.resolutions.approve(ANN, 1)) is OWN_PROPOSAL
    assert (await case.resolutions.approve(ABE, 1)).state is DONE


async def test_the_proposal_of_a_user_who_was_disabled_since_is_not_approved(
    store: SqliteStore,
) -> None:
    case = await begun(store)
    await case.propose(SAM)
    sam = await case.store.admin.user("sam")
    assert sam is not None
    await case.store.admin.replace_user(evolve(sam, disabled_at=Instant(1)))
    refusal = await case.refusal(case.resolutions.approve(ANN, 1))
    assert refusal is ResolutionRefusal.PROPOSER_DISABLED
    assert (await case.acts())[-1] == ("ann", "refused")
    assert await case.status() is Status.PENDING
    assert (await case.resolutions.reject(ANN, 1, "sam has left")).state is REJECTED


async def test_of_two_who_propose_in_one_moment_one_learns_that_the_other_was_faster(
    store: SqliteStore,
) -> None:
    case = await begun(store)
    await case.propose(SAM)

    class SlowAdmin(AdminStore):
        """Shows the proposals as they were before the other one was made."""

        async def proposals(
            self, *, about: str | None = None, state: ProposalState | None = None, limit: int = 100
        ) -> Sequence[Proposal]:
            return []

    case.store.admin = SlowAdmin(store.admin.read, store.admin.write, store.admin.clear_breaker)
    refusal = await case.refusal(case.propose(SAM, ErrorCode.USER_CANCELLED))
    assert refusal is ResolutionRefusal.ALREADY_PROPOSED
    assert [each.id for each in await AdminStore.proposals(store.admin)] == [1]


async def test_a_proposal_is_not_done_by_the_resolution_of_another_one(store: SqliteStore) -> None:
    """Of the same two users, with the opposite outcome."""
    case = await begun(store, a.accepted())
    failed = await case.propose(SAM, ErrorCode.USER_CANCELLED)
    assert (await case.resolutions.approve(ANN, 1)).state is DONE
    assert await store.admin.add_proposal(evolve(failed, error_code=None)) == 2
    refused = await case.resolutions.approve(ANN, 2)
    assert (refused.state, refused.remark) == (REFUSED, "The payment has ended meanwhile.")
    assert await case.status() is Status.FAILED
    assert (await case.acts())[-1] == ("ann", "resolution_failed")

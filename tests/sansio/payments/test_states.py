"""The legality table, cell by cell: what each input does in each stage, and that the empty cells do
nothing."""

from __future__ import annotations

import pytest
from attrs import evolve

from mmo_sansio.messages.changes import JournalEntry, SuspenseRecorded, TransactionAdvanced
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    Input,
    MarkRestored,
    ProviderHinted,
    ProviderNeverReceived,
)
from mmo_sansio.messages.intents import IntentKind, PollEnded
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision, advance
from mmo_sansio.payments.states import TRANSITION_INPUTS, TRANSITIONS, is_legal, target_stages
from mmo_sansio.testing import (
    PROVIDER_TITLE,
    REFERENCE,
    START,
    a_begin_submission,
    a_confirmation,
    a_resolution,
    a_return,
    a_stop,
    a_transaction,
    a_wake,
    accepted,
    cannot_tell,
    failed,
    hinted,
    ledger_with,
    never_received,
    succeeded,
    unreachable,
)
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Evidence, Flow, Page, ProviderData, Stage, Status, Transaction
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl, PayerAction

SOON = later(START, SECOND)
HALF_AN_HOUR = START + 30 * MINUTE
EXPIRED = START + 3 * DAY

C, W, S, A, OK, KO = (
    Stage.CREATED,
    Stage.AWAITING_CUSTOMER,
    Stage.SUBMITTING,
    Stage.AWAITING_RESULT,
    Stage.SUCCEEDED,
    Stage.FAILED,
)

MATRIX: dict[str, tuple[Input, int, dict[Stage, Stage]]] = {
    # input: (the input, when, where it leads from each stage that it moves)
    "begin": (a_begin_submission(), SOON, {C: S}),
    "stop": (a_stop(), SOON, {C: KO, W: KO}),
    "restored": (MarkRestored(REFERENCE, "ada"), SOON, {C: S, W: S, S: S, A: A}),
    "confirm": (a_confirmation(), SOON, {W: C}),
    "gave a code": (a_confirmation(code="123456"), SOON, {W: C}),
    "came back": (a_return(), SOON, {}),
    "accepted": (accepted(poll_after=9 * SECOND), SOON, {S: A, A: A}),
    "succeeded": (succeeded(), SOON, {S: OK, A: OK}),
    "paid, without its receipt": (succeeded(lacks_receipt=True), SOON, {S: S, A: A}),
    "failed": (failed(), SOON, {S: KO, A: KO}),
    "lost": (unreachable(), SOON, {S: S, A: A}),
    "never received": (never_received(version=2), SOON, {S: C}),
    "can't tell": (cannot_tell(version=2), SOON, {S: S}),
    "can't tell what was accepted": (cannot_tell(version=3), SOON, {A: A}),
    "hinted": (hinted(), START - SECOND, {A: A}),
    "woke early": (a_wake(), SOON, {}),
    "woke": (a_wake(), HALF_AN_HOUR, {W: KO, S: S, A: A}),
    "woke expired": (a_wake(), EXPIRED, {C: KO, W: KO, S: KO, A: KO}),
    "resolved as a success": (a_resolution(), SOON, {S: OK, A: OK}),
    "resolved as a failure": (
        a_resolution(error_code=ErrorCode.PROVIDER_TIMEOUT),
        HALF_AN_HOUR,
        {C: KO, W: KO, S: KO, A: KO},
    ),
}

CELLS = [
    pytest.param(stage, given, now, to.get(stage), id=f"{stage}-{name}")
    for name, (given, now, to) in MATRIX.items()
    for stage in Stage
]
ON_RECORD = a_transaction(C, provider_data=ProviderData("test", PROVIDER_TITLE), version=3)
"""Submitted once, and sent back because the provider said that it never got it."""
ASKED_FOR_A_CODE = a_transaction(
    W,
    flow=Flow.WEB,
    page=Page("token", later(START, HOUR)),
    provider_data=ProviderData("test", PROVIDER_TITLE),
    version=4,
    submissions=1,
    payer_action=EnterCode(),
)
"""The same, because it needs a code first."""
REPORTED = Evidence("RECEIPT1", "0", settles=True, reported_at=START)
TAKEN_BACK = (accepted(), succeeded(), failed(), evolve(hinted(), evidence=REPORTED))
"""By which the provider takes that back."""


def decided(transaction: Transaction, given: Input, *, now: Instant = SOON) -> Decision:
    return decide(ledger_with(transaction), given, now=now)


@pytest.mark.spec("S1")
@pytest.mark.parametrize(("stage", "given", "now", "to"), CELLS)
def test_every_cell_of_the_table(
    stage: Stage, given: Input, now: Instant, to: Stage | None
) -> None:
    was = a_transaction(stage)
    decision = decided(was, given, now=now)
    steps = [each for each in decision.changes if isinstance(each, TransactionAdvanced)]
    if to is None:
        assert isinstance(decision.reply, Ignored | Applied)
        assert steps == []
        late_hint = isinstance(given, ProviderHinted) and stage is KO
        assert decision.intents == ((PollEnded(was.reference, now),) if late_hint else ())
        assert {type(each) for each in decision.changes} <= {SuspenseRecorded, JournalEntry}
        return
    assert to in target_stages(stage, given)
    (step,) = steps
    assert step.before == was
    assert step.after.order == was.order
    assert step.after.progress.stage is to
    assert step.after.progress.version == was.progress.version + 1
    assert (step.after.progress.wake_at is None) == to.is_terminal
    assert decision.reply == Applied(step.after)
    assert isinstance(decision.changes[-1], JournalEntry)
    expected = [each for each in decision.intents if each.gateway_reference == was.reference]
    assert expected == list(decision.intents)


def test_every_legal_cell_is_in_the_matrix() -> None:
    shown = {(stage, type(given)) for given, _, to in MATRIX.values() for stage in to}
    rows = {(stage, given) for stage, row in TRANSITIONS.items() for given in row}
    taken_back = {(stage, type(each)) for stage in (C, W) for each in TAKEN_BACK}
    once_asked = {(S, ProviderHinted)}
    acted = {(stage, type(given)) for stage, _, given, _ in PAYER_ACTS}
    assert rows == shown | taken_back | once_asked | acted


CODE, PAGE = EnterCode(), OpenUrl("https://pay.example/1")
PAYER_ACTS: list[tuple[Stage, PayerAction | None, Input, Stage]] = [
    (S, None, never_received(version=2, payer_action=CODE), W),
    (W, CODE, a_confirmation(code="123456"), C),
    (A, CODE, a_confirmation(code="123456"), A),
    (A, PAGE, a_return(), A),
]
"""What leads elsewhere for a payment whose payer has to act elsewhere."""


@pytest.mark.spec("W1", "W2")
@pytest.mark.parametrize(("stage", "asked", "given", "to"), PAYER_ACTS)
def test_what_a_payer_does_elsewhere_moves_the_payment(
    stage: Stage, asked: PayerAction | None, given: Input, to: Stage
) -> None:
    page = Page("token", later(START, HOUR))
    decision = decided(a_transaction(stage, flow=Flow.WEB, page=page, payer_action=asked), given)
    assert isinstance(decision.reply, Applied)
    assert decision.reply.transaction.progress.stage is to


WITH_RECEIPT: list[tuple[Stage, Input, int, Stage]] = [
    (S, failed(), SOON, S),
    (A, failed(), SOON, A),
    (S, never_received(version=2), SOON, S),
    (S, a_wake(), HALF_AN_HOUR, OK),
    (A, a_wake(), HALF_AN_HOUR, OK),
]
"""What another way is taken by where the provider has reported a receipt."""


@pytest.mark.spec("S2", "S6")
@pytest.mark.parametrize(("stage", "given", "now", "to"), WITH_RECEIPT)
def test_a_reported_receipt_changes_where_a_report_leads(
    stage: Stage, given: Input, now: Instant, to: Stage
) -> None:
    decision = decided(a_transaction(stage, evidence=REPORTED), given, now=now)
    assert isinstance(decision.reply, Applied)
    assert decision.reply.transaction.progress.stage is to


def test_every_target_of_the_table_is_reached_by_the_matrix() -> None:
    reached = {(a, type(given), b) for given, _, to in MATRIX.values() for a, b in to.items()}
    reached |= {(stage, type(given), to) for stage, given, _, to in WITH_RECEIPT}
    reached |= {(stage, type(given), to) for stage, _, given, to in PAYER_ACTS}
    promised = {
        (stage, given, to)
        for stage, row in TRANSITIONS.items()
        for given, leads in row.items()
        for to in leads
        if not (stage.is_unsent and given in {type(each) for each in TAKEN_BACK})
        and (given, to) != (BeginSubmission, KO)  # Its brand is on hold: see test_submission.py.
        and (stage, given) != (S, ProviderHinted)
        # It was refused before: see test_answers_to_submissions.py.
        and (given, to) != (ProviderNeverReceived, KO)
    }
    assert promised == reached


def test_the_columns_are_the_inputs_that_move_something() -> None:
    assert {given for row in TRANSITIONS.values() for given in row} == set(TRANSITION_INPUTS)
    assert len(set(TRANSITION_INPUTS)) == len(TRANSITION_INPUTS) == 14
    assert set(TRANSITIONS) == set(Stage)


@pytest.mark.spec("S1")
def test_terminal_rows_are_empty() -> None:
    assert [stage for stage, row in TRANSITIONS.items() if not row] == [OK, KO]
    assert [stage for stage in Stage if stage.is_terminal] == [OK, KO]


@pytest.mark.spec("S1")
def test_the_public_status_of_each_stage() -> None:
    assert {stage: stage.status for stage in Stage} == {
        C: Status.PENDING,
        W: Status.PENDING,
        S: Status.PENDING,
        A: Status.PENDING,
        OK: Status.SUCCESS,
        KO: Status.FAILED,
    }


@pytest.mark.spec("S1", "S6")
def test_only_what_was_never_received_leads_back_to_the_customer() -> None:
    ways = [
        (stage, given)
        for stage, row in TRANSITIONS.items()
        for given, leads in row.items()
        if W in leads
    ]
    assert ways == [(S, ProviderNeverReceived)]


@pytest.mark.spec("S6")
def test_only_never_received_leads_back_to_a_submission() -> None:
    ways = [
        (stage, given.__name__)
        for stage, row in TRANSITIONS.items()
        for given, leads in row.items()
        if C in leads and stage is not W
    ]
    assert ways == [(S, "ProviderNeverReceived")]
    rows = TRANSITIONS.items()
    again = [
        stage
        for stage, row in rows
        for given, leads in row.items()
        if S in leads and given is not MarkRestored
    ]
    assert [stage for stage in again if stage is not S] == [C]


@pytest.mark.spec("S6")
@pytest.mark.parametrize("before", [ON_RECORD, ASKED_FOR_A_CODE], ids=["created", "customer"])
@pytest.mark.parametrize(
    ("given", "to"),
    list(zip(TAKEN_BACK, (A, OK, KO, A), strict=True)),
    ids=["accepted", "succeeded", "failed", "receipt"],
)
def test_a_provider_that_takes_back_its_never_received_is_believed(
    before: Transaction, given: Input, to: Stage
) -> None:
    ledger = ledger_with(before)
    decision = decide(ledger, given, now=SOON)
    assert isinstance(decision.reply, Applied)
    assert decision.reply.transaction.progress.stage is to
    assert decision.reply.transaction.progress.payer_action is None
    ledger.apply(decision.changes, decision.intents)
    assert ledger.open_intent((before.reference, IntentKind.SUBMIT)) is None
    begun = decide(ledger, a_begin_submission(), now=later(SOON, Span(1)))
    assert isinstance(begun.reply, Ignored)


def test_a_move_that_the_table_lacks_raises() -> None:
    with pytest.raises(AssertionError, match=r"created x .* -> succeeded"):
        advance(a_transaction(C), a_begin_submission(), OK)


@pytest.mark.parametrize(
    ("stage", "given", "to", "wake_at"),
    [(A, succeeded(), OK, SOON), (C, a_begin_submission(), S, None)],
    ids=["terminal with a wake", "pending without"],
)
def test_a_wake_stands_exactly_on_what_is_pending(
    stage: Stage, given: Input, to: Stage, wake_at: int | None
) -> None:
    with pytest.raises(AssertionError):
        advance(a_transaction(stage), given, to, wake_at=wake_at)


def test_is_legal_asks_for_the_type_of_the_input() -> None:
    assert is_legal(C, a_begin_submission())
    assert not is_legal(C, a_confirmation())
    assert target_stages(C, a_begin_submission()) == (S, KO)
    assert target_stages(OK, succeeded()) == ()


@pytest.mark.parametrize("given", [each for each, _, _ in MATRIX.values()], ids=list(MATRIX))
def test_what_names_no_transaction_moves_nothing(given: Input) -> None:
    decision = decide(ledger_with(), given, now=SOON)
    assert isinstance(decision.reply, Ignored)
    assert decision.intents == ()
    assert {type(each) for each in decision.changes} <= {SuspenseRecorded, JournalEntry}


@pytest.mark.parametrize("stage", [C, S, A], ids=str)
@pytest.mark.parametrize(
    "given",
    [
        accepted(provider="other"),
        succeeded(provider="other"),
        failed(provider="other"),
        unreachable(provider="other"),
        never_received(provider="other"),
    ],
    ids=["accepted", "succeeded", "failed", "lost", "never received"],
)
def test_another_provider_moves_nothing(stage: Stage, given: Input) -> None:
    was = a_transaction(stage)
    was = evolve(
        was, progress=evolve(was.progress, provider_data=ProviderData("test", PROVIDER_TITLE))
    )
    decision = decided(was, given)
    assert isinstance(decision.reply, Ignored)
    assert decision.intents == ()
    assert not any(isinstance(each, TransactionAdvanced) for each in decision.changes)

"""A receipt counts once, whatever the stage of its payment (S4): each confirmed word about it
claims it, and who finds it taken says so in the suspense book."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from attrs import evolve

from mmo_sansio.messages.changes import DepositClaimChanged, SuspenseReason
from mmo_sansio.messages.inputs import DepositClaimWoke, Input
from mmo_sansio.messages.replies import Applied, Ignored, ReversalApplied
from mmo_sansio.messages.reversals import RequestReversal
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.evidence import find_contradiction
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.settlement import RECEIPT_AWAITED_FOR
from mmo_sansio.testing import (
    KES,
    REFERENCE,
    START,
    UNUSED_REFERENCE,
    a_begin_submission,
    a_create_payment,
    a_deposit,
    a_resolution,
    a_wake,
    accepted,
    cannot_tell,
    failed,
    hinted,
    never_received,
    numbered_reference,
    succeeded,
    unreachable,
)
from mmo_sansio.values.clock import DAY, HOUR, SECOND, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import DepositTrust, Evidence, Operation, Source, Stage

RECEIPT = "RKL51ZDR4F"
OTHER_RECEIPT = "RKL51ZDR4G"
OTHER = numbered_reference(7)
PAID = succeeded(provider_reference=RECEIPT, source=Source.POLL, settles_receipt=True)
HINTED = hinted(evidence=Evidence(RECEIPT, "0", KES(150), settles=True))
WITHOUT_RECEIPT = succeeded(provider_reference="ws_CO_1", source=Source.POLL, lacks_receipt=True)
DEPOSIT = a_deposit(
    provider_reference=RECEIPT,
    amount=KES(150),
    gateway_reference=UNUSED_REFERENCE,
    trust=DepositTrust.LISTED,
    payment=None,
)
NAMED = evolve(
    DEPOSIT, trust=DepositTrust.CONFIRMED, brand=None, payment=REFERENCE, account="174379"
)
BACK = RequestReversal(
    REFERENCE,
    "acme",
    None,
    "Paid late.",
    "amina",
    needs_approval=False,
    reported=KES(150),
    receipt=RECEIPT,
    provider="test",
)


def after(*inputs: Input, reference: str = REFERENCE) -> Gateway:
    """A gateway with a prompt that its provider has, and what came a second later each."""
    gateway = Gateway()
    begin: list[Input] = [
        a_create_payment(reference, merchant_reference=reference),
        a_begin_submission(reference),
        accepted(reference, provider_reference="ws_CO_1", poll_after=HOUR),
    ]
    receive(gateway, [*begin, *inputs])
    return gateway


def receive(gateway: Gateway, inputs: Sequence[Input]) -> None:
    for nth, each in enumerate(inputs):
        gateway.receive(each, now=later(START, Span(nth * SECOND)))


def expired() -> Gateway:
    gateway = after()
    gateway.wake(now=later(START, Span(4 * DAY)))
    return gateway


def reasons(gateway: Gateway) -> list[SuspenseReason]:
    return [each.reason for each in gateway.suspense]


LATE: Mapping[str, Callable[[], Gateway]] = {"expired": expired, "refused": lambda: after(failed())}


@pytest.mark.spec("S4", "S5")
@pytest.mark.parametrize("ended", LATE)
@pytest.mark.parametrize("late", [PAID, HINTED], ids=["a result", "a callback"])
@pytest.mark.parametrize("is_deposit_first", [False, True])
def test_a_late_success_claims_its_receipt(
    ended: str, late: Input, *, is_deposit_first: bool
) -> None:
    gateway = LATE[ended]()
    receive(gateway, [DEPOSIT, late] if is_deposit_first else [late, DEPOSIT])
    assert (UNUSED_REFERENCE in gateway.ledger.transactions) is is_deposit_first
    assert reasons(gateway).count(SuspenseReason.CONFLICTING_DEPOSIT) == 1
    late_reason = (
        SuspenseReason.LATE_RESULT if ended == "expired" else SuspenseReason.CONFLICTING_RESULT
    )
    assert late_reason in reasons(gateway)


@pytest.mark.spec("S4")
@pytest.mark.parametrize("is_typed_first", [False, True])
def test_a_receipt_of_a_late_success_ends_no_other_payment_by_hand(*, is_typed_first: bool) -> None:
    gateway = after(failed())
    receive(gateway, [a_create_payment(OTHER, merchant_reference=OTHER), a_begin_submission(OTHER)])
    typed = a_resolution(OTHER, provider_reference=RECEIPT)
    inputs: list[Input] = [typed, PAID] if is_typed_first else [PAID, typed]
    replies = [gateway.receive(each, now=later(START, HOUR)) for each in inputs]
    if is_typed_first:
        assert isinstance(replies[0], Applied)
        assert reasons(gateway) == [
            SuspenseReason.CONFLICTING_RESULT,
            SuspenseReason.CONFLICTING_DEPOSIT,
        ]
    else:
        assert isinstance(replies[1], Ignored)
        assert f"is the receipt of the payment {REFERENCE}" in replies[1].reason


@pytest.mark.spec("S4")
def test_money_that_was_reported_late_is_asked_back_by_a_receipt_that_nothing_else_has() -> None:
    booked = after(failed(), DEPOSIT, PAID)
    refused = booked.receive(BACK, now=later(START, HOUR))
    assert isinstance(refused, Ignored)
    assert refused.reason == (
        f"The receipt {RECEIPT} is that of the deposit {UNUSED_REFERENCE}: look at that first."
    )
    gateway = after(failed())  # Staff know the receipt from an entry that claims nothing.
    assert isinstance(gateway.receive(BACK, now=later(START, HOUR)), ReversalApplied)
    assert isinstance(gateway.receive(DEPOSIT, now=later(START, HOUR)), Ignored)
    assert reasons(gateway) == [SuspenseReason.CONFLICTING_DEPOSIT]


@pytest.mark.spec("S4")
@pytest.mark.parametrize("other", [DEPOSIT, BACK], ids=["a deposit", "a reversal"])
def test_of_two_at_once_only_one_gets_the_receipt(other: Input) -> None:
    """Two processes decide by what both have loaded: their claims collide, so the later one is
    decided again."""
    inputs: tuple[Input, Input] = (PAID, other)
    for first, second in (inputs, inputs[::-1]):
        ledger = after(failed()).ledger
        overtaken = decide(ledger, second, now=START)
        ledger.apply(decide(ledger, first, now=START).changes)
        claims = [each for each in overtaken.changes if isinstance(each, DepositClaimChanged)]
        assert [each.key for each in claims] == [("test", RECEIPT)]
        with pytest.raises(AssertionError):
            ledger.apply(claims)


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "told",
    [
        evolve(PAID, provider_reference=OTHER_RECEIPT),
        evolve(HINTED, evidence=Evidence(OTHER_RECEIPT, "0", KES(150))),
        evolve(NAMED, provider_reference=OTHER_RECEIPT),
    ],
    ids=["a result", "a callback", "a confirmation"],
)
def test_a_receipt_that_differs_from_what_staff_typed_leaves_a_trace(told: Input) -> None:
    gateway = after(a_resolution(provider_reference=RECEIPT), told)
    (entry,) = gateway.suspense
    assert (entry.gateway_reference, OTHER_RECEIPT in entry.content) == (REFERENCE, True)
    assert gateway.transaction(REFERENCE).progress.provider_reference == RECEIPT


@pytest.mark.spec("S4")
@pytest.mark.parametrize("told", [PAID, HINTED, NAMED], ids=["a result", "a callback", "a deposit"])
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_success_without_its_receipt_takes_the_one_that_is_told_later(
    told: Input, *, by_hand: bool
) -> None:
    gateway = after(a_resolution() if by_hand else WITHOUT_RECEIPT)
    gateway.wake(now=later(START, HOUR))
    paid = gateway.transaction(REFERENCE)
    assert paid.progress.stage is Stage.SUCCEEDED
    gateway.receive(told, now=later(START, Span(2 * HOUR)))
    completed = gateway.transaction(REFERENCE)
    assert completed.progress.provider_reference == RECEIPT
    assert completed.progress.completed_at == paid.progress.completed_at
    assert gateway.ledger.claims["test", RECEIPT].payment == REFERENCE
    gateway.receive(told, now=later(START, Span(3 * HOUR)))
    assert gateway.suspense == []
    receive(gateway, [DEPOSIT])
    assert reasons(gateway) == [SuspenseReason.CONFLICTING_DEPOSIT]


@pytest.mark.spec("S4", "S5")
@pytest.mark.parametrize("told", [PAID, HINTED, NAMED], ids=["a result", "a callback", "a deposit"])
@pytest.mark.parametrize("is_late", [False, True])
def test_another_receipt_than_that_of_a_success_leaves_a_trace(
    told: Input, *, is_late: bool
) -> None:
    told_in_time: list[Input] = [WITHOUT_RECEIPT, told]
    gateway = after(*([WITHOUT_RECEIPT] if is_late else told_in_time))
    gateway.wake(now=later(START, HOUR))
    gateway.receive(told, now=later(START, Span(2 * HOUR)))
    assert gateway.transaction(REFERENCE).progress.provider_reference == RECEIPT
    assert gateway.suspense == []
    other = hinted(evidence=Evidence(OTHER_RECEIPT, "0", KES(150), settles=True))
    gateway.receive(other, now=later(START, Span(3 * HOUR)))
    (entry,) = gateway.suspense
    assert (entry.reason, OTHER_RECEIPT in entry.content) == (
        SuspenseReason.CONFLICTING_RESULT,
        True,
    )


@pytest.mark.spec("S5")
def test_a_receipt_of_another_amount_leaves_a_trace_at_a_success_without_one() -> None:
    gateway = after(WITHOUT_RECEIPT)
    gateway.wake(now=later(START, HOUR))
    gateway.receive(
        hinted(evidence=Evidence(RECEIPT, "0", KES(149), settles=True)), now=later(START, DAY)
    )
    assert reasons(gateway) == [SuspenseReason.CONFLICTING_RESULT]


@pytest.mark.spec("S4")
@pytest.mark.parametrize("operation", [Operation.DIRECT_PAYIN, Operation.DIRECT_PAYOUT])
def test_a_receipt_that_the_clock_lets_count_is_claimed(operation: Operation) -> None:
    gateway = Gateway()
    receive(
        gateway,
        [a_create_payment(operation=operation), a_begin_submission(), accepted(), HINTED],
    )
    gateway.wake(now=later(START, HOUR))
    assert gateway.transaction(REFERENCE).progress.provider_reference == RECEIPT
    assert gateway.transaction(REFERENCE).progress.stage is Stage.SUCCEEDED
    assert gateway.ledger.claims["test", RECEIPT].payment == REFERENCE
    typed = a_resolution(OTHER, provider_reference=RECEIPT)
    receive(gateway, [a_create_payment(OTHER, merchant_reference=OTHER), a_begin_submission(OTHER)])
    refused = gateway.receive(typed, now=later(START, DAY))
    assert isinstance(refused, Ignored)
    assert f"is the receipt of the payment {REFERENCE}" in refused.reason


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    "told",
    [
        evolve(PAID, final=KES(149)),
        evolve(HINTED, evidence=Evidence(RECEIPT, "0", KES(149), settles=True)),
        evolve(NAMED, amount=KES(149)),
        evolve(NAMED, trust=DepositTrust.UNCONFIRMED),
    ],
    ids=["a result", "a callback", "a deposit", "an unconfirmed one"],
)
def test_another_amount_or_an_unconfirmed_deposit_is_not_its_receipt(told: Input) -> None:
    gateway = after(WITHOUT_RECEIPT)
    gateway.wake(now=later(START, HOUR))
    gateway.receive(told, now=later(START, Span(2 * HOUR)))
    assert gateway.transaction(REFERENCE).progress.provider_reference == "ws_CO_1"


@pytest.mark.spec("S4")
def test_a_receipt_that_another_has_is_not_taken_by_a_success_without_one() -> None:
    gateway = after(WITHOUT_RECEIPT, DEPOSIT)
    gateway.wake(now=later(START, HOUR))
    gateway.receive(PAID, now=later(START, Span(2 * HOUR)))
    assert gateway.transaction(REFERENCE).progress.provider_reference == "ws_CO_1"
    assert reasons(gateway) == [SuspenseReason.CONFLICTING_DEPOSIT]


@pytest.mark.spec("S1", "S2", "S6")
@pytest.mark.parametrize(
    "told",
    [
        accepted(poll_after=HOUR),
        unreachable(),
        never_received(version=4),
        cannot_tell(),
        WITHOUT_RECEIPT,
        hinted(),
        a_wake(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_payment_that_waits_for_its_receipt_is_paid_whatever_comes(told: Input) -> None:
    gateway = after(WITHOUT_RECEIPT, told)
    progress = gateway.transaction(REFERENCE).progress
    assert progress.stage is Stage.AWAITING_RESULT
    assert gateway.suspense == []
    gateway.wake(now=later(START, Span(5 * SECOND)))
    gateway.wake(now=later(START, Span(4 * SECOND + RECEIPT_AWAITED_FOR)))
    ended = gateway.transaction(REFERENCE).progress
    assert (ended.stage, ended.final, ended.completion_source) == (
        Stage.SUCCEEDED,
        KES(150),
        Source.POLL,
    )


@pytest.mark.spec("S5")
def test_a_failure_after_it_was_called_paid_is_left_to_a_person() -> None:
    gateway = after(WITHOUT_RECEIPT, failed())
    assert reasons(gateway) == [SuspenseReason.CONFLICTING_RESULT]
    by_hand = a_resolution(error_code=ErrorCode.PROVIDER_TIMEOUT)
    refused = gateway.receive(by_hand, now=later(START, HOUR))
    assert isinstance(refused, Ignored)
    assert refused.reason == "Test Money has called it paid."
    waiting = gateway.transaction(REFERENCE)
    assert find_contradiction(waiting, succeeded=False) == "Test Money has called it paid."
    assert find_contradiction(waiting, succeeded=True) is None
    gateway.wake(now=later(START, HOUR))
    assert gateway.transaction(REFERENCE).progress.stage is Stage.SUCCEEDED


@pytest.mark.spec("S2")
def test_a_callback_that_overtakes_an_answer_without_the_receipt_is_not_lost() -> None:
    overtaken = after(hinted(content="{}", evidence=Evidence(RECEIPT, "0", KES(150))))
    overtaken.take_intents()
    overtaken.receive(WITHOUT_RECEIPT, now=later(START, Span(2 * SECOND)))
    assert len(overtaken.take_intents()) == 1  # It is asked once more, with the receipt.
    overtaken.wake(now=later(START, HOUR))
    progress = overtaken.transaction(REFERENCE).progress
    assert (progress.stage, progress.provider_reference) == (Stage.SUCCEEDED, RECEIPT)


DENIED = unreachable(denies_receipt=True)


@pytest.mark.spec("S2", "S4")
@pytest.mark.parametrize("denial", [DENIED, failed(source=Source.POLL)], ids=["early", "failed"])
@pytest.mark.parametrize("trust", [DepositTrust.CONFIRMED, DepositTrust.LISTED])
def test_a_confirmation_counts_of_a_receipt_that_a_notification_alone_has_claimed(
    denial: Input, trust: DepositTrust
) -> None:
    gateway = after(HINTED, denial, evolve(NAMED, trust=trust))
    progress = gateway.transaction(REFERENCE).progress
    assert (progress.stage, progress.provider_reference) == (Stage.SUCCEEDED, RECEIPT)


@pytest.mark.spec("S5")
def test_a_confirmation_after_the_expiry_says_that_the_receipt_is_confirmed() -> None:
    gateway = after(HINTED, DENIED)
    gateway.wake(now=later(START, Span(4 * DAY)))
    gateway.receive(NAMED, now=later(START, Span(4 * DAY)))
    assert gateway.transaction(REFERENCE).progress.stage is Stage.FAILED
    assert gateway.suspense[-1].reason is SuspenseReason.CONFLICTING_DEPOSIT
    assert '"confirmed": true' in gateway.suspense[-1].content


@pytest.mark.spec("S4")
def test_a_receipt_that_nobody_has_confirmed_is_shown_to_staff_where_it_is_taken() -> None:
    told = hinted(content="{}", evidence=Evidence(RECEIPT, "0", KES(150)))
    gateway = after(told, WITHOUT_RECEIPT)
    gateway.wake(now=later(START, HOUR))
    assert gateway.transaction(REFERENCE).progress.provider_reference == RECEIPT
    assert reasons(gateway) == [SuspenseReason.UNCONFIRMED_RECEIPT]


@pytest.mark.spec("S4", "S5")
@pytest.mark.parametrize("is_told_in_time", [True, False])
def test_a_prompt_that_is_paid_by_hand_too_keeps_both_receipts(is_told_in_time: bool) -> None:
    by_hand = evolve(NAMED, provider_reference=OTHER_RECEIPT)
    told: list[Input] = [HINTED, WITHOUT_RECEIPT]
    if not is_told_in_time:
        told.reverse()
    gateway = after(by_hand, *told)
    for waited in (HOUR, DAY):
        gateway.wake(now=later(START, waited))
        gateway.receive(
            DepositClaimWoke("test", OTHER_RECEIPT, REFERENCE), now=later(START, waited)
        )
    progress = gateway.transaction(REFERENCE).progress
    assert progress.stage is Stage.SUCCEEDED
    assert progress.provider_reference == (RECEIPT if is_told_in_time else OTHER_RECEIPT)
    (entry,) = gateway.suspense
    assert (OTHER_RECEIPT if is_told_in_time else RECEIPT) in entry.content


@pytest.mark.spec("S2")
def test_staff_who_name_no_receipt_take_the_one_that_is_claimed_for_the_payment() -> None:
    gateway = after(HINTED, a_resolution(error_code=None, provider_reference=None))
    progress = gateway.transaction(REFERENCE).progress
    assert (progress.stage, progress.provider_reference) == (Stage.SUCCEEDED, RECEIPT)


@pytest.mark.spec("S6")
def test_what_a_confirmed_receipt_names_is_not_sent_again() -> None:
    gateway = Gateway()
    receive(gateway, [a_create_payment(), a_begin_submission(), NAMED, never_received()])
    assert gateway.transaction(REFERENCE).progress.submissions == 1
    assert gateway.transaction(REFERENCE).progress.stage is not Stage.CREATED

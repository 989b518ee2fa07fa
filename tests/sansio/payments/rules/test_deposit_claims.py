"""Claims of deposits: nothing is booked that the operator has not confirmed, nothing that was paid
is lost (S4, S5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import define, evolve

from mmo_sansio.messages.changes import DepositClaimChanged, SuspenseReason, SuspenseRecorded
from mmo_sansio.messages.inputs import DepositAnswered, DepositClaimWoke, DepositNotified, Input
from mmo_sansio.messages.replies import Applied, ClaimDue, Ignored, Reply
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.evidence import SETTLES_AFTER, find_contradiction
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.rules.deposits import (
    CLAIM_LIFETIME,
    FIRST_LOOK_AT_PROMPT,
    NOT_FOUND_IS_FINAL_AFTER,
)
from mmo_sansio.testing import (
    KES,
    REFERENCE,
    START,
    UNUSED_REFERENCE,
    a_begin_submission,
    a_brand,
    a_create_payment,
    a_deposit,
    a_party,
    a_resolution,
    accepted,
    failed,
    hinted,
    numbered_reference,
    succeeded,
    unreachable,
)
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Span, earlier, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    DepositAnswerOutcome,
    DepositClaim,
    DepositTrust,
    Evidence,
    Flow,
    Operation,
    Source,
    Stage,
    Status,
    Transaction,
)
from mmo_sansio.values.money import Money

RECEIPT = "RKL51ZDR4F"
OTHER_RECEIPT = "RKL51ZDR4G"


@define
class Clockwork:
    """A gateway whose time a test moves on."""

    gateway: Gateway
    now: Instant = START

    def receive(self, input_: Input) -> Reply:
        return self.gateway.receive(input_, now=self.now)

    def wait(self, span: Span) -> None:
        """Let time pass, and wake whatever is due at its end."""
        self.now = later(self.now, span)
        self.gateway.wake(now=self.now)
        for claim in [
            each
            for each in self.gateway.ledger.claims.values()
            if each.wake_at and each.wake_at <= self.now
        ]:
            self.receive(DepositClaimWoke(claim.provider, claim.receipt, claim.payment))

    @property
    def claim(self) -> DepositClaim:
        return self.gateway.ledger.claims["test", RECEIPT]

    @property
    def payment(self) -> Transaction:
        return self.gateway.transaction(REFERENCE)

    @property
    def deposits(self) -> list[Transaction]:
        return [
            each
            for each in self.gateway.ledger.transactions.values()
            if each.order.flow is Flow.PUSH
        ]

    @property
    def suspense(self) -> list[tuple[SuspenseReason, str | None, str | None, str | None]]:
        """Reason, payment, receipt and amount of each entry."""
        rows = []
        for each in self.gateway.suspense:
            content = json.loads(each.content)
            rows.append(
                (
                    each.reason,
                    each.gateway_reference,
                    content["providerReference"],
                    content["amount"],
                )
            )
        return rows


PROMPT_ID = "ws_CO_000000001"


def with_payment(
    operation: Operation = Operation.DIRECT_PAYIN, number: int | None = None
) -> Clockwork:
    """A payment of KES 150 that the operator has, and has told the id of if it is a prompt."""
    return add_payment(Clockwork(Gateway()), operation, number)


def add_payment(world: Clockwork, operation: Operation, number: int | None = None) -> Clockwork:
    reference = REFERENCE if number is None else numbered_reference(number)
    qr_url = "https://acme.example/qr" if operation is Operation.QR_PAYIN else None
    created = a_create_payment(
        reference, operation=operation, merchant_reference=reference, display_qr_url=qr_url
    )
    world.receive(created)
    world.receive(a_begin_submission(reference))
    id = None if operation is Operation.QR_PAYIN else PROMPT_ID
    world.receive(accepted(reference, provider_reference=id, poll_after=HOUR))
    world.gateway.take_intents()
    return world


def with_prompt_without_id() -> Clockwork:
    """A prompt of KES 150 whose answer was lost."""
    world = Clockwork(Gateway())
    world.receive(a_create_payment(REFERENCE, merchant_reference=REFERENCE))
    world.receive(a_begin_submission(REFERENCE))
    world.receive(unreachable(REFERENCE))
    return world


def told(
    payment: str | None = REFERENCE, receipt: str = RECEIPT, **members: Any
) -> DepositNotified:
    """An unsigned confirmation of KES 150 that names a payment."""
    standard: dict[str, Any] = {
        "provider_reference": receipt,
        "gateway_reference": UNUSED_REFERENCE,
        "brand": None if payment else a_brand(),
        "method": "" if payment else "test_ke",
        "amount": KES(150),
        "party": a_party(),
        "trust": DepositTrust.UNCONFIRMED,
        "account": "174379",
        "bill_reference": payment[-12:] if payment else "SHOP-1",
        "payment": payment,
    }
    return a_deposit(**{**standard, **members})


def believed(**members: Any) -> DepositNotified:
    return told(**{"trust": DepositTrust.CONFIRMED, **members})


def answer(payment: str | None = REFERENCE, **members: Any) -> DepositAnswered:
    """The operator's answer that KES 150 were paid to us."""
    standard: dict[str, Any] = {
        "outcome": DepositAnswerOutcome.COMPLETED,
        "is_ours": True,
        "amount": KES(150),
    }
    brand = None if payment else a_brand()
    given = {**standard, **members}
    return DepositAnswered(
        "test", RECEIPT, payment=payment, brand=brand, method="test_ke" if brand else "", **given
    )


# What nobody has confirmed.


@pytest.mark.parametrize("payment", [REFERENCE, None])
def test_an_unsigned_confirmation_moves_nothing_and_makes_us_ask(payment: str | None) -> None:
    world = with_payment(Operation.QR_PAYIN)
    reply = world.receive(told(payment))
    assert isinstance(reply, Ignored)
    assert (world.payment.status, world.deposits, world.suspense) == (Status.PENDING, [], [])
    due = world.receive(DepositClaimWoke("test", RECEIPT, payment))
    assert isinstance(due, ClaimDue)
    assert (due.claim.receipt, due.claim.amount, due.claim.payment) == (RECEIPT, KES(150), payment)
    assert isinstance(
        world.receive(DepositClaimWoke("test", RECEIPT, payment)), Ignored
    )  # Another process was quicker.


def test_the_operators_answer_settles_the_payment_that_was_named() -> None:
    world = with_payment(Operation.QR_PAYIN)
    world.receive(told())
    assert isinstance(world.receive(answer()), Applied)
    assert (world.payment.status, world.payment.progress.final) == (Status.SUCCESS, KES(150))
    assert world.payment.progress.provider_reference == RECEIPT
    assert (world.claim.wake_at, world.suspense) == (None, [])


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    "first",
    [
        {"outcome": DepositAnswerOutcome.UNKNOWN},
        {"outcome": DepositAnswerOutcome.NOT_FOUND},
        {"amount": None},
    ],
)
def test_whoever_reads_the_address_of_an_answer_can_confirm_nothing_there(
    first: dict[str, Any],
) -> None:
    world = with_payment(Operation.QR_PAYIN)
    world.receive(told())
    asked_at = later(world.claim.received_at, SECOND)
    world.receive(answer(**first, asked_at=asked_at))
    assert isinstance(world.receive(answer(asked_at=asked_at)), Ignored)
    assert world.payment.status is Status.PENDING
    assert isinstance(world.receive(answer(asked_at=later(asked_at, Span(1)))), Applied)


@pytest.mark.spec("S4")
def test_an_answer_about_an_earlier_claim_of_the_receipt_confirms_no_later_one() -> None:
    world = with_payment(Operation.QR_PAYIN)
    world.receive(told())
    asked_at = earlier(world.claim.received_at, Span(1))
    assert isinstance(world.receive(answer(asked_at=asked_at)), Ignored)
    assert world.payment.status is Status.PENDING


@pytest.mark.spec("S4")
def test_the_operators_answer_makes_a_deposit_of_nobodys_payment() -> None:
    world = Clockwork(Gateway())
    world.receive(told(None))
    assert isinstance(world.receive(answer(None)), Applied)
    (made,) = world.deposits
    assert (made.reference, made.order.brand, made.order.requested) == (
        UNUSED_REFERENCE,
        "acme",
        KES(150),
    )
    assert made.progress.provider_reference == RECEIPT
    world.receive(told(None))
    world.receive(answer(None))
    assert len(world.deposits) == 1
    assert world.suspense == []


@pytest.mark.parametrize(
    ("members", "reason", "amount"),
    [
        ({"is_ours": False}, SuspenseReason.UNCONFIRMED_DEPOSIT, KES(150)),
        (
            {"outcome": DepositAnswerOutcome.FAILED, "amount": None},
            SuspenseReason.UNCONFIRMED_DEPOSIT,
            KES(150),
        ),
        ({"amount": KES(1)}, SuspenseReason.CONFLICTING_DEPOSIT, KES(1)),
        (
            {"amount": Money(15_000, "UGX")},
            SuspenseReason.CONFLICTING_DEPOSIT,
            Money(15_000, "UGX"),
        ),
    ],
)
@pytest.mark.parametrize("payment", [REFERENCE, None])
def test_what_the_answer_contradicts_is_left_to_a_person(
    payment: str | None, members: dict[str, Any], reason: SuspenseReason, amount: Money
) -> None:
    world = with_payment(Operation.QR_PAYIN)
    world.receive(told(payment))
    world.receive(answer(payment, **members))
    assert (world.payment.status, world.deposits) == (Status.PENDING, [])
    assert world.suspense == [(reason, payment, RECEIPT, str(amount))]
    world.receive(told(payment))  # The true one may still come.
    world.receive(answer(payment))
    assert len(world.deposits) == (payment is None)
    assert (world.payment.status is Status.SUCCESS) == (payment is not None)


def test_not_found_is_believed_only_once_the_operator_could_know() -> None:
    world = with_payment(Operation.QR_PAYIN)
    world.receive(told())
    missing = answer(outcome=DepositAnswerOutcome.NOT_FOUND, is_ours=False, amount=None)
    world.receive(missing)
    assert (world.suspense, world.claim.is_confirmed) == ([], False)
    world.wait(NOT_FOUND_IS_FINAL_AFTER)
    world.receive(missing)
    assert world.suspense == [
        (SuspenseReason.UNCONFIRMED_DEPOSIT, REFERENCE, RECEIPT, "150.00 KES")
    ]
    assert world.gateway.ledger.claims == {}


def test_an_early_question_says_nothing_however_late_its_answer_comes() -> None:
    world = with_payment(Operation.QR_PAYIN)
    world.receive(told())
    missing = answer(outcome=DepositAnswerOutcome.NOT_FOUND, is_ours=False, amount=None)
    world.now = later(START, Span(2 * HOUR))
    too_early = later(START, Span(NOT_FOUND_IS_FINAL_AFTER - 1))
    world.receive(evolve(missing, asked_at=too_early))
    assert (world.suspense, world.claim.payment) == ([], REFERENCE)
    world.receive(evolve(missing, asked_at=later(START, NOT_FOUND_IS_FINAL_AFTER)))
    assert [reason for reason, *_ in world.suspense] == [SuspenseReason.UNCONFIRMED_DEPOSIT]


def test_a_claim_is_asked_about_at_growing_intervals_and_in_the_end_left_to_a_person() -> None:
    world = with_payment(Operation.QR_PAYIN)
    world.receive(told())
    asked = []
    for _ in range(400):
        wake_at = world.claim.wake_at
        assert wake_at is not None
        world.now = max(world.now, wake_at)
        if not isinstance(world.receive(DepositClaimWoke("test", RECEIPT, REFERENCE)), ClaimDue):
            break
        asked.append(world.now - START)
        world.receive(answer(outcome=DepositAnswerOutcome.UNKNOWN, is_ours=False, amount=None))
    assert asked[:5] == [0, 15 * SECOND, 45 * SECOND, 105 * SECOND, 225 * SECOND]
    assert CLAIM_LIFETIME - 15 * MINUTE <= asked[-1] < CLAIM_LIFETIME
    assert len(asked) < 110
    assert world.suspense == [
        (SuspenseReason.UNCONFIRMED_DEPOSIT, REFERENCE, RECEIPT, "150.00 KES")
    ]
    assert world.payment.status is Status.PENDING


# One receipt settles one thing.


@pytest.mark.parametrize("trust", [DepositTrust.UNCONFIRMED, DepositTrust.CONFIRMED])
def test_a_receipt_settles_one_qr_payment(trust: DepositTrust) -> None:
    world = add_payment(with_payment(Operation.QR_PAYIN), Operation.QR_PAYIN, 7)
    other = numbered_reference(7)
    world.receive(told(trust=trust))
    world.receive(answer())
    world.receive(told(other, trust=trust))
    world.receive(answer(other))
    assert world.payment.status is Status.SUCCESS
    assert world.gateway.transaction(other).status is Status.PENDING
    assert world.suspense == [(SuspenseReason.CONFLICTING_DEPOSIT, other, RECEIPT, "150.00 KES")]


@pytest.mark.parametrize("trust", [DepositTrust.UNCONFIRMED, DepositTrust.CONFIRMED])
@pytest.mark.parametrize("first", [REFERENCE, None])
def test_a_receipt_settles_a_payment_or_makes_a_deposit(
    trust: DepositTrust, first: str | None
) -> None:
    world = with_payment(Operation.QR_PAYIN)
    second = None if first else REFERENCE
    world.receive(told(first, trust=trust))
    world.receive(answer(first))
    world.receive(told(second, trust=trust, party=a_party(id="else")))
    world.receive(answer(second))
    assert (len(world.deposits), world.payment.status) == (
        (0, Status.SUCCESS) if first else (1, Status.PENDING)
    )
    assert [(reason, receipt) for reason, _, receipt, _ in world.suspense] == [
        (SuspenseReason.CONFLICTING_DEPOSIT, RECEIPT)
    ]


def test_a_prompts_receipt_settles_no_qr_payment() -> None:
    world = add_payment(with_payment(), Operation.QR_PAYIN, 7)
    other = numbered_reference(7)
    world.receive(succeeded(provider_reference=RECEIPT, settles_receipt=True))
    world.receive(told(other))
    world.receive(answer(other))
    assert world.gateway.transaction(other).status is Status.PENDING
    assert world.suspense == [(SuspenseReason.CONFLICTING_DEPOSIT, other, RECEIPT, "150.00 KES")]
    world.receive(told())  # The operator confirms the prompt as a deposit, too.
    assert len(world.suspense) == 1


def test_a_prompt_whose_receipt_settled_another_payment_stands_before_a_person() -> None:
    world = add_payment(with_payment(), Operation.QR_PAYIN, 7)
    world.receive(told(numbered_reference(7)))
    world.receive(answer(numbered_reference(7)))
    world.receive(succeeded(provider_reference=RECEIPT, settles_receipt=True))
    assert world.payment.status is Status.SUCCESS
    assert world.suspense == [(SuspenseReason.CONFLICTING_DEPOSIT, REFERENCE, RECEIPT, None)]


@pytest.mark.spec("S4")
def test_a_receipt_that_a_deposit_has_ends_no_other_payment_by_hand() -> None:
    world = with_prompt_without_id()
    world.receive(believed(payment=None))
    refused = world.receive(a_resolution(provider_reference=RECEIPT))
    assert isinstance(refused, Ignored)
    assert refused.reason == (
        f"The provider's reference {RECEIPT} is the receipt of the deposit {UNUSED_REFERENCE}. "
        f"Name the payment's own"
        " receipt, or resolve it as failed if no other money has moved."
    )
    assert world.payment.status is Status.PENDING
    assert isinstance(world.receive(a_resolution(provider_reference=OTHER_RECEIPT)), Applied)


@pytest.mark.spec("S4")
@pytest.mark.parametrize("trust", [DepositTrust.UNCONFIRMED, DepositTrust.CONFIRMED])
@pytest.mark.parametrize("named", [None, numbered_reference(7)])
def test_a_receipt_that_has_ended_a_payment_by_hand_makes_no_deposit(
    named: str | None, trust: DepositTrust
) -> None:
    world = add_payment(with_payment(), Operation.QR_PAYIN, 7)
    world.receive(a_resolution(provider_reference=RECEIPT))
    world.receive(told(named, trust=trust))
    world.receive(answer(named))
    assert (world.payment.status, world.deposits) == (Status.SUCCESS, [])
    assert world.gateway.transaction(numbered_reference(7)).status is Status.PENDING
    assert world.suspense == [(SuspenseReason.CONFLICTING_DEPOSIT, named, RECEIPT, "150.00 KES")]


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    ("claimed", "owner"),
    [
        (told(numbered_reference(7)), f"the payment {numbered_reference(7)}"),
        (told(None), "a deposit that belongs to no payment yet"),
        (
            a_resolution(numbered_reference(7), provider_reference=RECEIPT),
            f"the payment {numbered_reference(7)}",
        ),
        (
            succeeded(numbered_reference(7), provider_reference=RECEIPT, settles_receipt=True),
            f"the payment {numbered_reference(7)}",
        ),
    ],
    ids=["a claim", "an unnamed claim", "by hand", "a result"],
)
def test_a_receipt_that_another_payment_claims_ends_none_by_hand(
    claimed: Input, owner: str
) -> None:
    world = add_payment(with_payment(), Operation.QR_PAYIN, 7)
    world.receive(claimed)
    refused = world.receive(a_resolution(provider_reference=RECEIPT))
    assert isinstance(refused, Ignored)
    assert f"is the receipt of {owner}." in refused.reason
    assert isinstance(world.receive(a_resolution(error_code=ErrorCode.PROVIDER_TIMEOUT)), Applied)


def test_a_claim_that_names_the_payment_is_explained_by_its_end_by_hand() -> None:
    world = with_payment()
    world.receive(told())
    assert isinstance(world.receive(a_resolution(provider_reference=RECEIPT)), Applied)
    world.wait(FIRST_LOOK_AT_PROMPT)
    assert (world.claim.wake_at, world.suspense) == (None, [])


@pytest.mark.spec("S4")
@pytest.mark.parametrize("is_deposit_first", [True, False])
def test_a_receipt_that_ends_a_prompt_by_the_clock_makes_no_deposit(
    *, is_deposit_first: bool
) -> None:
    world = with_payment()
    reports: list[Input] = [
        believed(payment=None),
        hinted(evidence=Evidence(RECEIPT, "0", KES(150), settles=True)),
    ]
    for each in reports if is_deposit_first else reversed(reports):
        world.receive(each)
    world.wait(SETTLES_AFTER)
    successes = [each for each in (*world.deposits, world.payment) if each.status is Status.SUCCESS]
    assert [each.progress.provider_reference for each in successes] == [RECEIPT]
    assert (world.payment.status is Status.SUCCESS) is not is_deposit_first
    assert is_deposit_first or world.suspense == [
        (SuspenseReason.CONFLICTING_DEPOSIT, None, RECEIPT, "150.00 KES")
    ]


@pytest.mark.spec("S4")
@pytest.mark.parametrize("is_deposit_first", [True, False])
def test_of_a_result_and_a_deposit_at_once_only_one_gets_the_receipt(
    *, is_deposit_first: bool
) -> None:
    """Two processes decide by what both have loaded: their changes collide, so the later one is
    decided again."""
    ledger = with_payment().gateway.ledger
    inputs: list[Input] = [
        believed(payment=None),
        succeeded(provider_reference=RECEIPT, settles_receipt=True),
    ]
    first, second = inputs if is_deposit_first else reversed(inputs)
    overtaken = decide(ledger, second, now=START)
    ledger.apply(decide(ledger, first, now=START).changes)
    keys = [each.key for each in overtaken.changes if isinstance(each, DepositClaimChanged)]
    assert keys == [("test", RECEIPT)]
    with pytest.raises(AssertionError):
        ledger.apply(each for each in overtaken.changes if isinstance(each, DepositClaimChanged))
    again = decide(ledger, second, now=START)
    (entry,) = [each for each in again.changes if isinstance(each, SuspenseRecorded)]
    assert entry.reason is SuspenseReason.CONFLICTING_DEPOSIT


@pytest.mark.spec("S4")
def test_a_deposit_that_was_booked_at_once_is_booked_once() -> None:
    world = Clockwork(Gateway())
    assert isinstance(world.receive(believed(payment=None)), Applied)
    for again in (
        believed(payment=None),
        told(None),
        believed(payment=None, trust=DepositTrust.LISTED),
    ):
        assert isinstance(world.receive(again), Ignored)
    assert (len(world.deposits), world.suspense, world.claim.wake_at) == (1, [], None)
    strange = believed(payment=None, brand=None, receipt=OTHER_RECEIPT)
    world.receive(strange)
    world.receive(
        evolve(strange, brand=a_brand(), gateway_reference=REFERENCE)
    )  # It has an owner now.
    assert len(world.deposits) == 2


# What is known of a payment's money against its failure by hand.


@pytest.mark.spec("S5")
def test_a_claim_that_names_the_payment_speaks_against_its_failure_by_hand() -> None:
    world = with_payment()
    world.receive(told())
    (claim,) = world.gateway.ledger.claims.values()
    assert find_contradiction(world.payment, succeeded=False, claims=[claim]) == (
        f"Test Money must first answer whether it has the receipt {RECEIPT}, which names "
        f"this payment."
    )
    world.receive(answer())
    assert find_contradiction(world.payment, succeeded=False, claims=[world.claim]) == (
        f"Test Money has confirmed the receipt {RECEIPT}, which names this payment."
    )
    assert find_contradiction(world.payment, succeeded=True, claims=[world.claim]) is None


def test_a_second_payer_of_a_qr_code_is_on_record_with_the_receipt() -> None:
    world = with_payment(Operation.QR_PAYIN)
    world.receive(believed())
    world.receive(believed(receipt=OTHER_RECEIPT))
    assert world.suspense == [
        (SuspenseReason.CONFLICTING_RESULT, REFERENCE, OTHER_RECEIPT, "150.00 KES")
    ]


@pytest.mark.parametrize("payment", [REFERENCE, None])
def test_another_account_is_compared_even_where_confirmations_are_believed(
    payment: str | None,
) -> None:
    world = with_payment(Operation.QR_PAYIN)
    world.receive(told(payment, trust=DepositTrust.FOREIGN_ACCOUNT, account="999999"))
    assert (world.payment.status, world.deposits) == (Status.PENDING, [])
    assert world.suspense == [(SuspenseReason.UNMATCHED_DEPOSIT, payment, RECEIPT, "150.00 KES")]


# Confirmations that name a prompt.

CONFIRM = [DepositTrust.UNCONFIRMED, DepositTrust.CONFIRMED]


@pytest.mark.parametrize("trust", CONFIRM)
@pytest.mark.parametrize("amount", [KES(150), KES(90_000)])
@pytest.mark.parametrize(
    "ending", ["failed", "another receipt", "unknown receipt", "expiry", "manual"]
)
def test_a_payment_past_the_prompt_is_on_record_however_the_prompt_ends(
    ending: str, amount: Money, trust: DepositTrust
) -> None:
    world = with_payment()
    world.receive(told(amount=amount, trust=trust))
    world.wait(FIRST_LOOK_AT_PROMPT)
    world.receive(answer(amount=amount))
    assert (world.payment.status, world.suspense) == (Status.PENDING, [])
    match ending:
        case "failed":
            world.receive(failed())
        case "another receipt":
            world.receive(succeeded(provider_reference=OTHER_RECEIPT, settles_receipt=True))
        case "unknown receipt":
            world.receive(succeeded(provider_reference="ws_CO_1"))
        case "manual":
            world.receive(a_resolution(error_code=ErrorCode.TRANSACTION_DECLINED))
        case _:
            world.wait(Span(3 * DAY))
            assert world.payment.progress.error_code is ErrorCode.TRANSACTION_EXPIRED
    world.wait(HOUR)
    assert world.suspense == [(SuspenseReason.CONFLICTING_DEPOSIT, REFERENCE, RECEIPT, str(amount))]
    assert world.claim.wake_at is None
    assert any(
        RECEIPT in line.detail
        for line in world.gateway.journal
        if line.gateway_reference == REFERENCE
    )
    world.wait(HOUR)
    world.receive(told(amount=amount, trust=trust))
    assert len(world.suspense) == 1


@pytest.mark.parametrize("trust", CONFIRM)
def test_a_confirmation_of_the_prompts_own_receipt_is_explained_by_its_success(
    trust: DepositTrust,
) -> None:
    world = with_payment()
    world.receive(told(trust=trust))
    world.receive(succeeded(provider_reference=RECEIPT, settles_receipt=True))
    world.wait(FIRST_LOOK_AT_PROMPT)
    assert (world.payment.status, world.suspense, world.claim.wake_at) == (Status.SUCCESS, [], None)


SOMEBODY_ELSE = "254708374149"
ANSWERED_PAID = succeeded(provider_reference=PROMPT_ID, source=Source.POLL, lacks_receipt=True)


@pytest.mark.spec("S4", "S5")
@pytest.mark.parametrize("end", ["paid before", "awaits its receipt", "paid later", "fails later"])
@pytest.mark.parametrize("payer", [SOMEBODY_ELSE, a_party().msisdn, ""])
def test_what_another_number_has_paid_is_not_the_receipt_of_a_prompt(end: str, payer: str) -> None:
    world = with_payment()
    if end in ("paid before", "awaits its receipt"):
        world.receive(ANSWERED_PAID)
    if end == "paid before":
        world.wait(HOUR)
    world.receive(told())
    world.receive(answer(payer=payer))
    if end == "paid later":
        world.receive(ANSWERED_PAID)
    if end == "fails later":
        world.receive(failed())
    world.wait(HOUR)
    is_anothers = payer == SOMEBODY_ELSE
    assert world.claim.wake_at is None
    assert (world.payment.progress.provider_reference == RECEIPT) is (
        not is_anothers and end != "fails later"
    )
    beside = (SuspenseReason.CONFLICTING_DEPOSIT, REFERENCE, RECEIPT, "150.00 KES")
    assert world.suspense == ([beside] if is_anothers or end == "fails later" else [])


@pytest.mark.spec("S2", "S4")
def test_another_number_may_pay_a_qr_code_and_what_a_prompt_itself_has_named() -> None:
    code = with_payment(Operation.QR_PAYIN)
    code.receive(told())
    code.receive(answer(payer=SOMEBODY_ELSE))
    assert code.payment.status is Status.SUCCESS
    prompt = with_payment()
    prompt.receive(hinted(evidence=Evidence(RECEIPT, "0", KES(150))))
    prompt.receive(told())
    prompt.receive(answer(payer=SOMEBODY_ELSE))
    assert (prompt.payment.status, prompt.suspense) == (Status.SUCCESS, [])


def test_a_forged_confirmation_of_a_prompt_is_told_from_money() -> None:
    world = with_payment()
    world.receive(told())
    world.wait(FIRST_LOOK_AT_PROMPT)
    world.receive(failed())
    world.wait(HOUR)
    world.receive(answer(outcome=DepositAnswerOutcome.NOT_FOUND, is_ours=False, amount=None))
    assert world.suspense == [
        (SuspenseReason.UNCONFIRMED_DEPOSIT, REFERENCE, RECEIPT, "150.00 KES")
    ]


def test_a_confirmation_that_comes_after_the_prompts_end_is_judged_at_once() -> None:
    world = with_payment()
    world.receive(failed())
    world.receive(believed())
    assert world.suspense == [
        (SuspenseReason.CONFLICTING_DEPOSIT, REFERENCE, RECEIPT, "150.00 KES")
    ]


# Another amount.


@pytest.mark.parametrize("trust", CONFIRM)
@pytest.mark.parametrize("amount", [KES(149), KES(1_500)])
def test_a_qr_payment_of_another_amount_is_tied_to_it_and_is_evidence(
    amount: Money, trust: DepositTrust
) -> None:
    world = with_payment(Operation.QR_PAYIN)
    world.receive(told(amount=amount, trust=trust))
    world.receive(answer(amount=amount))
    assert world.payment.progress.stage is Stage.AWAITING_RESULT
    assert world.suspense == [(SuspenseReason.AMOUNT_DIFFERS, REFERENCE, RECEIPT, str(amount))]
    entries = [(each.reason, each.content) for each in world.gateway.suspense]
    assert find_contradiction(world.payment, succeeded=False, entries=entries)
    assert not find_contradiction(world.payment, succeeded=True, entries=entries)


# A prompt of which the operator has told nothing.


@pytest.mark.spec("S2", "S5")
@pytest.mark.parametrize("trust", CONFIRM)
def test_a_confirmed_receipt_settles_the_prompt_without_an_id_that_it_names(
    trust: DepositTrust,
) -> None:
    world = with_prompt_without_id()
    world.receive(told(trust=trust))
    assert (world.payment.status, world.suspense) == (
        Status.PENDING,
        [],
    )  # Its answer may still come.
    world.wait(FIRST_LOOK_AT_PROMPT)
    world.receive(answer())
    world.wait(MINUTE)
    assert (world.payment.status, world.payment.progress.final) == (Status.SUCCESS, KES(150))
    assert (world.payment.progress.provider_reference, world.claim.wake_at) == (RECEIPT, None)
    assert (world.deposits, world.suspense) == ([], [])


@pytest.mark.spec("S2", "S5")
def test_a_prompt_is_settled_by_its_own_reported_receipt_only() -> None:
    world = with_payment()
    world.receive(hinted(content="{}", evidence=Evidence(RECEIPT, "0", KES(150))))
    world.receive(believed(receipt=OTHER_RECEIPT))
    assert (world.payment.status, world.suspense) == (Status.PENDING, [])
    world.receive(believed())
    assert (world.payment.status, world.payment.progress.provider_reference) == (
        Status.SUCCESS,
        RECEIPT,
    )
    world.wait(HOUR)
    assert world.suspense == [
        (SuspenseReason.CONFLICTING_DEPOSIT, REFERENCE, OTHER_RECEIPT, "150.00 KES")
    ]


@pytest.mark.spec("S5")
def test_a_prompt_whose_callback_has_named_its_id_is_not_settled_by_its_reference() -> None:
    world = with_prompt_without_id()
    world.wait(MINUTE)
    world.receive(hinted(content='{"id": "ws_CO_1", "code": "1032"}'))
    world.receive(believed())
    assert (world.payment.status, world.suspense) == (Status.PENDING, [])


@pytest.mark.spec("S5")
@pytest.mark.parametrize("amount", [KES(149), KES(1_500)])
def test_a_receipt_of_another_amount_settles_no_prompt_and_is_evidence(amount: Money) -> None:
    world = with_prompt_without_id()
    world.wait(MINUTE)
    world.receive(believed(amount=amount))
    assert world.payment.status is Status.PENDING
    assert world.suspense == [(SuspenseReason.AMOUNT_DIFFERS, REFERENCE, RECEIPT, str(amount))]


@pytest.mark.spec("S5")
def test_a_receipt_that_names_a_pay_out_never_settles_it() -> None:
    world = Clockwork(Gateway())
    world.receive(
        a_create_payment(REFERENCE, operation=Operation.DIRECT_PAYOUT, merchant_reference=REFERENCE)
    )
    world.receive(a_begin_submission(REFERENCE))
    world.receive(unreachable(REFERENCE))
    world.wait(MINUTE)
    world.receive(believed())
    assert world.payment.status is Status.PENDING


@pytest.mark.spec("S5")
def test_a_callback_with_another_receipt_than_settled_the_prompt_is_left_to_a_person() -> None:
    world = with_prompt_without_id()
    world.wait(MINUTE)
    world.receive(believed())
    world.receive(hinted(evidence=Evidence(RECEIPT, "0", KES(150))))
    assert world.suspense == []
    world.receive(hinted(evidence=Evidence(OTHER_RECEIPT, "0", KES(150))))
    assert world.suspense == [
        (SuspenseReason.CONFLICTING_RESULT, REFERENCE, OTHER_RECEIPT, "150.00 KES")
    ]


# The operator's own list of receipts.


@pytest.mark.spec("S4")
@pytest.mark.parametrize("payment", [REFERENCE, None])
@pytest.mark.parametrize("is_listed_first", [True, False])
def test_what_is_listed_and_notified_in_either_order_is_booked_once(
    payment: str | None, is_listed_first: bool
) -> None:
    world = with_payment(Operation.QR_PAYIN)
    notified = told(payment)
    party = a_party(msisdn="722000000", first_name="JANE")
    listed = told(payment, party=party, trust=DepositTrust.LISTED)
    for each in (listed, notified) if is_listed_first else (notified, listed):
        world.receive(each)
    world.receive(listed)
    world.wait(HOUR)
    assert world.suspense == []
    assert (len(world.deposits), world.payment.status) == (
        (0, Status.SUCCESS) if payment else (1, Status.PENDING)
    )


@pytest.mark.spec("S4")
def test_a_listed_deposit_of_another_account_than_on_record_is_left_to_a_person() -> None:
    world = with_payment()
    world.receive(believed(payment=None))
    world.receive(told(None, party=a_party(id="ELSE"), trust=DepositTrust.LISTED))
    assert [reason for reason, *_ in world.suspense] == [SuspenseReason.CONFLICTING_DEPOSIT]


@pytest.mark.spec("S5")
def test_a_listed_receipt_of_another_amount_than_the_notified_one_is_left_to_a_person() -> None:
    world = with_payment(Operation.QR_PAYIN)
    world.receive(told(amount=KES(90_000)))
    world.receive(told(trust=DepositTrust.LISTED))
    assert world.payment.status is Status.PENDING
    assert world.suspense == [
        (SuspenseReason.CONFLICTING_DEPOSIT, REFERENCE, RECEIPT, "150.00 KES")
    ]


def test_a_claim_that_is_woken_early_or_unknown_does_nothing() -> None:
    world = with_payment()
    world.receive(told())
    before = world.claim
    for given in (
        DepositClaimWoke("test", RECEIPT, REFERENCE),
        DepositClaimWoke("test", "ELSE"),
        evolve(answer(), receipt="ELSE"),
    ):
        assert isinstance(world.receive(given), Ignored)
    assert world.claim == before


@pytest.mark.parametrize("payment", [REFERENCE, None])
def test_what_a_process_of_an_earlier_version_has_booked_meanwhile_is_not_booked_again(
    payment: str | None,
) -> None:
    world = with_payment(Operation.QR_PAYIN)
    world.receive(told(payment))
    world.gateway.ledger.claims, claims = {}, world.gateway.ledger.claims
    world.receive(
        believed(payment=None, brand=a_brand(), method="test_ke", party=told(payment).party)
    )
    world.gateway.ledger.claims = claims
    assert isinstance(world.receive(answer(payment)), Ignored)
    assert (len(world.deposits), world.payment.status) == (1, Status.PENDING)
    assert world.claim.wake_at is None

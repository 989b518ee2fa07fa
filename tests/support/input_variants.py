"""Lists every kind of input in each form that reads or writes something else, and what may have
happened before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import evolve, frozen

from mmo_sansio.messages import inputs, reversals
from mmo_sansio.messages.inputs import Input, WithheldReason
from mmo_sansio.messages.intents import IntentKind
from mmo_sansio.payments.brand_usage import PENDING_COUNTER
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.testing import builders
from mmo_sansio.testing.builders import KES, START
from mmo_sansio.values.clock import HOUR, MINUTE, Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    BrandLimits,
    DepositAnswerOutcome,
    DepositTrust,
    Evidence,
    Operation,
    QrCode,
    Source,
    Terms,
)
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl
from mmo_sansio.values.reversals import reversal_id

PAGE: Final = OpenUrl("https://pay.example/c/1")
NOW: Final = later(START, Span(MINUTE))
"""When both inputs of a pair are decided; what led to them was decided before."""


@frozen
class Names:
    """Names what a pair is about; those of another number share nothing with it, so that one store
    holds many."""

    number: int

    @property
    def brand(self) -> str:
        """Return the id of the brand."""
        return f"brand-{self.number}"

    @property
    def payment(self) -> str:
        """Return the gatewayReference of the payment that both inputs may be about."""
        return self.fresh(0)

    @property
    def receipt(self) -> str:
        """Return the provider's receipt that both inputs may name."""
        return f"RECEIPT{self.number:06d}"

    def fresh(self, turn: int) -> str:
        """Return the gatewayReference that the history (0, 3) or the first (1) or second (2) input
        brings."""
        return builders.numbered_reference(4 * self.number + turn)

    def order(self, turn: int) -> str:
        """Return a merchantReference: one (0) that both inputs may name, or one of the first or
        second only."""
        return f"order-{turn}"

    @property
    def everything(self) -> Reads:
        """Return all that a pair can read or write."""
        references, receipts = (
            [self.fresh(turn) for turn in range(4)],
            frozenset((("test", self.receipt),)),
        )
        return Reads(
            transactions=frozenset(references),
            references=frozenset((self.brand, self.order(turn)) for turn in range(3)),
            deposits=receipts,
            intents=frozenset((each, kind) for each in references for kind in IntentKind),
            claims=receipts,
            usage=frozenset(((self.brand, PENDING_COUNTER), (self.brand, "reversals amina KES"))),
            reversals=frozenset(references),
            held_brands=True,
        )


@frozen
class HoldBrand:
    """Staff put a brand on hold. It is no input, as nothing is decided, but inputs read it."""

    brand: str


Event: TypeAlias = Input | HoldBrand
"""What a pair consists of."""


def variants(names: Names, turn: int) -> Mapping[str, Event]:
    """Return every variant by name, as the first (1) or the second (2) of a pair."""
    brand, payment, receipt = builders.a_brand(id=names.brand), names.payment, names.receipt
    woke = inputs.DepositClaimWoke("test", receipt)
    answered = inputs.DepositAnswered(
        "test",
        receipt,
        DepositAnswerOutcome.COMPLETED,
        True,
        KES(150),
        brand=brand,
        method="test_ke",
    )
    denied = evolve(answered, outcome=DepositAnswerOutcome.FAILED)
    asked, reversal = _reversal_request(names), reversal_id(payment, 1)
    decided = reversals.DecideReversal(reversal, "brian", is_approved=True, four_eyes=True)
    unconfirmed, evidence = DepositTrust.UNCONFIRMED, Evidence(receipt, "0")
    return {
        "CreatePayment": _creation(names, turn),
        "CreatePayment (web)": _creation(names, turn, operation=Operation.WEB_PAYIN),
        "CreatePayment (reserved)": evolve(_creation(names, turn), reserved_provider="test"),
        "CreatePayment (limited)": _creation(
            names, turn, pending_max=2, merchant_reference=names.order(turn)
        ),
        "ConfirmPage": builders.a_confirmation(payment),
        "ConfirmPage (code)": builders.a_confirmation(payment, code="123456"),
        "PayerReturned": builders.a_return(payment),
        "ResolveManually": builders.a_resolution(payment),
        "ResolveManually (receipt)": builders.a_resolution(payment, provider_reference=receipt),
        "ResolveManually (failed)": builders.a_resolution(
            payment, error_code=ErrorCode.USER_CANCELLED
        ),
        "CorrectTimes": inputs.CorrectTimes(payment, "amina"),
        "BeginSubmission": builders.a_begin_submission(payment),
        "BeginSubmission (withheld)": inputs.BeginSubmission(payment, WithheldReason.TOO_LATE),
        "StopPayment": builders.a_stop(payment),
        "MarkRestored": inputs.MarkRestored(payment, "amina"),
        "RecordLostUse": inputs.RecordLostUse(
            names.brand, names.order(0), names.fresh(turn), "amina"
        ),
        "ProviderAccepted": builders.accepted(payment, provider_reference="P1"),
        "ProviderAccepted (page)": builders.accepted(payment, payer_action=PAGE),
        "ProviderSucceeded": builders.succeeded(payment),
        "ProviderSucceeded (receipt)": builders.succeeded(
            payment, provider_reference=receipt, settles_receipt=True
        ),
        "ProviderSucceeded (without its receipt)": builders.succeeded(payment, lacks_receipt=True),
        "ProviderFailed": builders.failed(payment),
        "ProviderUnreachable": builders.unreachable(payment),
        "ProviderNeverReceived": builders.never_received(payment),
        "ProviderNeverReceived (code)": builders.never_received(
            payment, version=3, payer_action=EnterCode()
        ),
        "ProviderCannotTell": builders.cannot_tell(payment),
        "ProviderHinted": builders.hinted(payment, content=f"hint {turn}"),
        "ProviderHinted (evidence)": builders.hinted(payment, content="paid", evidence=evidence),
        "ProviderHinted (receipt)": builders.hinted(
            payment, content="paid", evidence=evolve(evidence, settles=True)
        ),
        "DepositNotified": _deposit(names, turn),
        "DepositNotified (listed)": _deposit(names, turn, DepositTrust.LISTED),
        "DepositNotified (unconfirmed)": _deposit(names, turn, unconfirmed),
        "DepositNotified (of a payment)": _deposit(names, turn, payment=payment),
        "DepositNotified (unconfirmed, of a payment)": _deposit(
            names, turn, DepositTrust.UNCONFIRMED, payment=payment
        ),
        "DepositClaimWoke": woke,
        "DepositClaimWoke (of a payment)": evolve(woke, payment=payment),
        "DepositAnswered": answered,
        "DepositAnswered (failed)": denied,
        "DepositAnswered (of a payment)": evolve(answered, payment=payment, brand=None),
        "DepositAnswered (failed, of a payment)": evolve(denied, payment=payment, brand=None),
        "UnmatchedNotified": inputs.UnmatchedNotified("test", receipt),
        "TransactionWoke": builders.a_wake(payment),
        "CallbackConcluded": builders.callback_concluded(payment),
        "QrConcluded": inputs.QrConcluded(payment, builders.an_attempt()),
        "EndedPollConcluded": inputs.EndedPollConcluded(payment),
        "RequestReversal": asked,
        "RequestReversal (limited)": evolve(asked, daily_max=KES(150)),
        "RequestReversal (of a receipt)": evolve(
            asked, reported=KES(150), receipt=receipt, provider="test"
        ),
        "DecideReversal": decided,
        "DecideReversal (refused)": evolve(decided, is_approved=False),
        "ReversalWoke": reversals.ReversalWoke(reversal, f"attempt {turn}"),
        "MarkReversalRestored": reversals.MarkReversalRestored(reversal, "amina"),
        "ResolveReversal": reversals.ResolveReversal(
            reversal, "amina", succeeded=True, evidence="A statement."
        ),
        "ReversalAccepted": reversals.ReversalAccepted(reversal, "test", Source.WEBHOOK),
        "ReversalSucceeded": reversals.ReversalSucceeded(reversal, "test", Source.WEBHOOK),
        "ReversalFailed": reversals.ReversalFailed(reversal, "test", Source.WEBHOOK, "Refused."),
        "ReversalUnreachable": reversals.ReversalUnreachable(reversal, "test", "No answer."),
        "ReversalNeverReceived": reversals.ReversalNeverReceived(reversal, "test", version=2),
        "ReversalCannotTell": reversals.ReversalCannotTell(reversal, "test", version=2),
        "ReversalHinted": reversals.ReversalHinted(reversal, "test"),
        "a hold": HoldBrand(names.brand),
    }


def histories(names: Names) -> Mapping[str, Sequence[tuple[Input, Instant]]]:
    """Return by name what may have been decided before a pair, and when."""
    payment, qr_url = names.payment, "https://acme.example/qr"
    created, begun = _creation(names, 0), builders.a_begin_submission(payment)
    failed = builders.failed(payment)
    paid = builders.succeeded(payment, provider_reference=names.receipt, settles_receipt=True)
    accepted = (created, begun, builders.accepted(payment, provider_reference="P1"))
    qr_created = _creation(names, 0, operation=Operation.QR_PAYIN, display_qr_url=qr_url)
    qr_shown = (qr_created, begun, builders.accepted(payment, qr=QrCode("text", "cGlj")))
    claimed = _deposit(names, 3, DepositTrust.UNCONFIRMED, payment=payment)
    requested = (created, begun, paid, _reversal_request(names))
    approved = (created, begun, paid, evolve(_reversal_request(names), needs_approval=False))
    woke = reversals.ReversalWoke(reversal_id(payment, 1), "attempt 0")
    refused = reversals.ReversalFailed(reversal_id(payment, 1), "test", Source.POLL, "Refused.")
    lost = reversals.ReversalUnreachable(reversal_id(payment, 1), "test", "Lost.", HOUR)
    sent = (*approved, woke)
    limited = evolve(_reversal_request(names), daily_max=KES(150))
    sent_limited = (created, begun, paid, evolve(limited, needs_approval=False), woke)
    every: Mapping[str, Sequence[Input]] = {
        "nothing": (),
        "created": (created,),
        "on its page": (_creation(names, 0, operation=Operation.WEB_PAYIN),),
        "asked for a code": (
            _creation(names, 0, operation=Operation.WEB_PAYIN),
            builders.a_confirmation(payment),
            begun,
            builders.never_received(payment, version=3, payer_action=EnterCode()),
        ),
        "sent to a page": (
            _creation(names, 0, operation=Operation.WEB_PAYIN),
            builders.a_confirmation(payment),
            begun,
            builders.accepted(payment, payer_action=PAGE),
        ),
        "one pending of two": (_creation(names, 0, pending_max=2),),
        "submitted": (created, begun),
        "accepted": accepted,
        "QR code shown": qr_shown,
        "failed": (created, begun, failed),
        "failed, asked": (created, begun, failed, builders.hinted(payment, content="paid")),
        "paid": (created, begun, paid),
        "paid late": (created, begun, failed, paid),
        "paid, without its receipt": (*accepted, builders.succeeded(payment, lacks_receipt=True)),
        "paid by hand": (*accepted, builders.a_resolution(payment)),
        "deposit claimed": (_deposit(names, 3, DepositTrust.UNCONFIRMED),),
        "deposit booked": (_deposit(names, 3),),
        "accepted, claimed": (*accepted, claimed),
        "accepted, confirmed": (*accepted, evolve(claimed, trust=DepositTrust.CONFIRMED)),
        "QR code shown, claimed": (*qr_shown, claimed),
        "reversal requested": requested,
        "reversal requested (limited)": (created, begun, paid, evolve(limited, amount=KES(100))),
        "reversal approved": approved,
        "reversal sent": sent,
        "reversal unknown": (*sent, lost),
        "reversal failed": (*sent, refused),
        "reversal sent (limited)": sent_limited,
        "reversal failed (limited)": (*sent_limited, refused),
        "failed, claimed": (created, begun, claimed, failed),
    }
    stamped = {name: [(each, START) for each in played] for name, played in every.items()}
    return {**stamped, "dated ahead": [(created, later(NOW, Span(HOUR)))]}


def _creation(
    names: Names, turn: int, *, pending_max: int | None = None, **draft: Any
) -> inputs.CreatePayment:
    limits, terms = BrandLimits(pending_payments=pending_max), Terms(idempotency_window=Span(0))
    brand, token = builders.a_brand(id=names.brand, limits=limits), f"page-{names.fresh(turn)}"
    draft = {"merchant_reference": names.order(0), **draft}
    return builders.a_create_payment(
        names.fresh(turn), brand=brand, terms=terms, page_token=token, **draft
    )


def _reversal_request(names: Names) -> reversals.RequestReversal:
    return reversals.RequestReversal(
        names.payment,
        names.brand,
        amount=KES(50),
        reason="Paid twice.",
        user="amina",
        needs_approval=True,
    )


def _deposit(
    names: Names,
    turn: int,
    trust: DepositTrust = DepositTrust.CONFIRMED,
    *,
    payment: str | None = None,
) -> inputs.DepositNotified:
    return builders.a_deposit(
        provider_reference=names.receipt,
        gateway_reference=names.fresh(turn),
        brand=builders.a_brand(id=names.brand) if payment is None else None,
        amount=KES(150),
        trust=trust,
        payment=payment,
    )

"""What M-Pesa reports at a payment's own address, and answers, or does not answer, when it is
asked: cell by cell."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from attrs import Factory, define, evolve, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import ProviderHinted, ProviderReport, UnmatchedNotified
from mmo_sansio.messages.intents import PollEnded, PollProvider
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.stuck import is_stuck
from mmo_sansio.providers.common.interface import ExchangeFailed, drive
from mmo_sansio.providers.common.operations import with_poll_interval
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.mpesa_daraja.callback_url import MpesaCallbackKind
from mmo_sansio.testing.builders import KES, REFERENCE, START, ledger_with
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Moment, Span, later
from mmo_sansio.values.error_codes import EXPIRED_WITH_RECEIPT, ErrorCode
from mmo_sansio.values.model import ProviderData, Source, Stage, Status, Transaction
from tests.sansio.providers.mpesa_daraja.test_adapter import (
    TAKEN,
    TAKEN_PUSH,
    adapter,
    callback,
    payment,
    push_document,
    result_document,
    to,
)

RECEIPT = "SG632NMUAB"
DUMMY = "SIK0000000"
PAID = {"Key": "TransactionAmount", "Value": 150}

Answer = Callable[[], dict[str, Any] | None]
"""What a question is answered with; None: nothing."""


def silent() -> dict[str, Any] | None:
    return None


def told(code: object, **parameters: object) -> Answer:
    """An answer with this code, whose parameters are those of a transaction."""
    items = [{"Key": key, "Value": value} for key, value in parameters.items()]
    return lambda: result_document(code, items or None, TransactionID="SIM0000000")


def completed(receipt: str = RECEIPT, state: str = "Completed", **parameters: object) -> Answer:
    return told(0, TransactionStatus=state, ReceiptNo=receipt, Amount=150, **parameters)


REFUSED = {code: told(code) for code in ("21", "2001", "8006")}
UNANSWERED = {
    **REFUSED,
    "not found": told("2032"),
    "no such operator": told("SFC_IC0003"),
    "silent": silent,
}


@define
class Lab:
    """A payment at M-Pesa in virtual time."""

    kind: str
    by_conversation: Answer = silent
    by_receipt: Answer = silent
    prompt: tuple[int, object] = (
        500,
        {"errorCode": "500.001.1001", "errorMessage": "The transaction does not Exist"},
    )
    options: dict[str, Any] = Factory(dict)
    gateway: Gateway = Factory(Gateway)
    now: Instant = START
    questions: list[dict[str, Any]] = Factory(list)
    answers: list[HttpRequest] = Factory(list)
    """Callbacks with the states that were asked for."""
    daraja: DarajaProvider = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.daraja = adapter(**self.options)
        known_as = {"tax": "other-1", "payin": "ws_CO_1"}.get(self.kind)
        began = payment(
            self.kind,
            Stage.AWAITING_RESULT,
            provider_reference=known_as,
            wake_at=later(START, MINUTE),
        )
        self.gateway.ledger = ledger_with(began)

    @property
    def payment(self) -> Transaction:
        return self.gateway.transaction(REFERENCE)

    def report(self, document: object, kind: MpesaCallbackKind = MpesaCallbackKind.RESULT) -> None:
        """M-Pesa calls back at the payment's own address."""
        hint = self.daraja.read_notification(callback(to(kind), document))
        assert isinstance(hint, ProviderHinted)
        self.receive(hint)

    def report_paid(self, receipt: str = RECEIPT) -> None:
        if self.kind == "payin":
            items = (
                {"Name": "Amount", "Value": 150.00},
                {"Name": "MpesaReceiptNumber", "Value": receipt},
            )
            self.report(push_document(0, *items), MpesaCallbackKind.PUSH)
        else:
            self.report(result_document(0, PAID, TransactionID=receipt))

    def report_refused(self, code: object, receipt: str = DUMMY) -> None:
        self.report(result_document(code, TransactionID=receipt))

    def pass_time(self, span: int) -> None:
        until = later(self.now, Span(span))
        while (at := self.gateway.next_wake()) is not None and at <= until:
            self.now = max(self.now, at)
            self.gateway.wake(now=self.now)
            self.work()
        self.now = until

    def receive(self, input_: ProviderHinted | ProviderReport) -> None:
        self.gateway.receive(input_, now=self.now)
        self.work()

    def work(self) -> None:
        for intent in self.gateway.take_intents():
            if isinstance(intent, PollProvider | PollEnded):
                about = self.payment
                if isinstance(intent, PollEnded) and intent.hint is not None:
                    about = evolve(about, progress=evolve(about.progress, hint=intent.hint))
                report = drive(self.daraja.poll(about, now=Moment.at(self.now)), self._exchange)
                self.gateway.receive(
                    with_poll_interval(report, self.daraja.operations, about), now=self.now
                )
                answered, self.answers = self.answers, []
                for each in answered:
                    answer = self.daraja.read_notification(each)
                    assert not isinstance(answer, UnmatchedNotified)
                    self.gateway.receive(answer, now=later(self.now, SECOND))  # type: ignore[arg-type]

    def _exchange(self, request: HttpRequest) -> HttpResponse:
        asked = json.loads(request.body)
        self.questions.append(asked)
        if "CheckoutRequestID" in asked:
            status, document = self.prompt
            return HttpResponse(status, (), json.dumps(document).encode())
        answer = (self.by_receipt if "TransactionID" in asked else self.by_conversation)()
        if answer is None and self.kind == "tax":
            raise ExchangeFailed("No answer came in time.", may_have_arrived=True)
        if answer is not None:
            self.answers.append(callback(asked["ResultURL"], answer))
        return HttpResponse(200, (), json.dumps(TAKEN).encode())

    @property
    def suspense(self) -> list[tuple[SuspenseReason, str]]:
        return [
            (each.reason, json.loads(each.content)["providerReference"])
            for each in self.gateway.suspense
        ]


@pytest.mark.spec("S2")
@pytest.mark.parametrize("kind", ["payout", "tax"])
@pytest.mark.parametrize("answer", UNANSWERED)
def test_money_out_with_a_receipt_whose_question_nobody_answers_is_paid_after_ten_minutes(
    kind: str, answer: str
) -> None:
    lab = Lab(kind, by_conversation=UNANSWERED[answer], by_receipt=REFUSED.get(answer, silent))
    lab.pass_time(5 * SECOND)
    lab.report_paid()
    assert "TransactionID" in [*lab.questions[0], *lab.questions[1]]
    lab.pass_time(10 * MINUTE - SECOND)
    assert lab.payment.status is Status.PENDING
    lab.pass_time(SECOND)
    progress = lab.payment.progress
    assert (progress.stage, progress.provider_reference) == (Stage.SUCCEEDED, RECEIPT)
    assert (progress.completion_source, progress.final) == (Source.WEBHOOK, KES(150))
    assert lab.suspense == []


@pytest.mark.spec("S2")
@pytest.mark.parametrize("kind", ["payout", "tax"])
@pytest.mark.parametrize("asked", ["by_conversation", "by_receipt"])
def test_a_confirmation_of_either_question_settles_at_once_with_the_fee(
    kind: str, asked: str
) -> None:
    named = {
        "DebitPartyName": "600997 - TEST SHOP",
        "DebitPartyCharges": "Fee For B2C Payment|KES|22.40",
    }
    named["CreditPartyName"] = "572572 - KRA" if kind == "tax" else "254708374149 - JANE"
    lab = Lab(kind, told("2001"), told("2001"))
    setattr(lab, asked, completed(**named))
    lab.report_paid()
    progress = lab.payment.progress
    assert (progress.stage, progress.provider_reference) == (Stage.SUCCEEDED, RECEIPT)
    assert progress.provider_data is not None
    assert progress.provider_data.fee == KES("22.40")


@pytest.mark.parametrize(
    ("charges", "fee"),
    [
        ("Fee For B2C Payment|KES|22.40&Excise Duty|KES|3.36", "25.76"),
        ("Fee For B2C Payment|KES|22.40&Excise Duty|KES", None),
        ("Fee For B2C Payment|KES|22.40&Excise Duty|USD|3.36", None),
    ],
)
def test_joined_charges_are_added_and_one_that_cannot_be_read_makes_no_fee(
    charges: str, fee: str | None
) -> None:
    named = {"DebitPartyCharges": charges, "DebitPartyName": "600997 - TEST SHOP"}
    lab = Lab("payout", by_conversation=completed(**named))
    lab.report_paid()
    provider_data = lab.payment.progress.provider_data
    assert provider_data is not None
    assert provider_data.fee == (None if fee is None else KES(fee))


@pytest.mark.spec("S2", "E1")
@pytest.mark.parametrize("kind", ["payout", "tax"])
def test_a_failure_that_names_a_transaction_is_asked_about_by_that(kind: str) -> None:
    failed_one = completed(state="Failed", OriginatorConversationID=REFERENCE)
    lab = Lab(kind, by_conversation=told("2032"), by_receipt=failed_one)
    lab.report_refused(17, RECEIPT)
    assert any(asked.get("TransactionID") == RECEIPT for asked in lab.questions)
    progress = lab.payment.progress
    assert (progress.stage, progress.error_code) == (Stage.FAILED, ErrorCode.PROVIDER_UNAVAILABLE)
    assert progress.provider_data is not None
    assert progress.provider_data.error_code == "17"


@pytest.mark.spec("S5", "S6")
@pytest.mark.parametrize(
    "answer",
    [
        told("2032"),
        completed(state="Pending", OriginatorConversationID=REFERENCE),
        completed(state="Failed", OriginatorConversationID="another-1"),
    ],
    ids=["not found", "pending", "another payment"],
)
def test_a_failure_that_names_a_transaction_ends_nothing_without_an_answer_about_it(
    answer: Answer,
) -> None:
    lab = Lab("payout", by_conversation=told("2032"), by_receipt=answer)
    lab.report_refused(17, RECEIPT)
    lab.pass_time(HOUR)
    assert lab.payment.status is Status.PENDING


@pytest.mark.spec("S2")
def test_a_failure_that_names_a_completed_transaction_is_a_success() -> None:
    paid_one = completed(OriginatorConversationID=REFERENCE)
    lab = Lab("payout", by_conversation=told("2032"), by_receipt=paid_one)
    lab.report_refused(17, RECEIPT)
    assert lab.payment.progress.stage is Stage.SUCCEEDED


@pytest.mark.spec("S5", "S6")
@pytest.mark.parametrize(("kind", "conversation"), [("payout", REFERENCE), ("tax", "other-1")])
def test_an_answer_about_a_receipt_is_known_by_our_id_or_by_the_one_that_daraja_gave(
    kind: str, conversation: str
) -> None:
    answered = completed(OriginatorConversationID=conversation)
    lab = Lab(kind, by_conversation=told("2001"), by_receipt=answered)
    lab.report_paid()
    assert lab.payment.progress.stage is Stage.SUCCEEDED


CONTRADICTIONS = {
    "not found by receipt": (told("2001"), told("2032")),
    "failed": (completed(state="Failed"), silent),
    "receipt failed": (silent, completed(state="Failed")),
    "receipt of another party": (
        told("21"),
        completed(DebitPartyName="600997 - TEST SHOP", CreditPartyName="254700000001 - JOHN"),
    ),
    "receipt of another payment to the same party": (
        told("21"),
        completed(
            OriginatorConversationID="another-1",
            DebitPartyName="600997 - TEST SHOP",
            CreditPartyName="254708374149 - JANE",
        ),
    ),
    "receipt of money in": (
        told("21"),
        completed(DebitPartyName="254708374149", CreditPartyName="174379 - TEST SHOP"),
    ),
}


@pytest.mark.spec("S5")
@pytest.mark.parametrize("kind", ["payout", "tax"])
@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_asked_about_for_an_hour_and_then_stands_before_a_person(
    kind: str, name: str
) -> None:
    lab = Lab(kind, *CONTRADICTIONS[name])
    lab.report_paid()
    lab.pass_time(HOUR - MINUTE)
    assert (lab.payment.status, lab.suspense) == (Status.PENDING, [])
    assert len(lab.questions) > 8
    lab.pass_time(HOUR)
    assert lab.payment.status is Status.PENDING
    assert is_stuck(lab.payment, now=lab.now)
    assert lab.suspense == [(SuspenseReason.UNCONFIRMED_RECEIPT, RECEIPT)]
    lab.pass_time(3 * DAY)
    progress = lab.payment.progress
    assert (progress.error_code, progress.error_message) == (
        ErrorCode.TRANSACTION_EXPIRED,
        EXPIRED_WITH_RECEIPT,
    )
    assert lab.suspense == [(SuspenseReason.UNCONFIRMED_RECEIPT, RECEIPT)]


@pytest.mark.spec("S5")
def test_a_confirmation_after_the_contradiction_counts() -> None:
    lab = Lab("payout", told("2001"), told("2032"))
    lab.report_paid()
    lab.pass_time(30 * MINUTE)
    lab.by_receipt = completed(OriginatorConversationID=REFERENCE)
    lab.pass_time(HOUR)
    assert (lab.payment.status, lab.suspense) == (Status.SUCCESS, [])


@pytest.mark.spec("S5")
def test_two_receipts_at_one_address_settle_nothing_by_themselves() -> None:
    lab = Lab("payout", told("21"), told("21"))
    lab.report_paid()
    lab.report_paid("SG632NMUAC")
    lab.pass_time(DAY)
    assert lab.payment.status is Status.PENDING
    lab.pass_time(2 * DAY)
    assert (lab.payment.status, lab.suspense) == (
        Status.FAILED,
        [(SuspenseReason.UNCONFIRMED_RECEIPT, RECEIPT)],
    )


@pytest.mark.spec("S5")
@pytest.mark.parametrize("first", ["success", "refusal"])
def test_a_success_and_a_refusal_at_one_address_settle_nothing_by_themselves(first: str) -> None:
    lab = Lab("payout", told("21"), told("21"))
    if first == "refusal":
        lab.report_refused("1", receipt=RECEIPT)
    lab.report_paid()
    lab.report_refused("1", receipt=RECEIPT)
    lab.pass_time(DAY)
    assert lab.payment.status is Status.PENDING
    lab.pass_time(2 * DAY)
    assert (lab.payment.status, lab.suspense) == (
        Status.FAILED,
        [(SuspenseReason.UNCONFIRMED_RECEIPT, RECEIPT)],
    )


@pytest.mark.spec("S2")
def test_a_report_that_is_repeated_contradicts_nothing() -> None:
    lab = Lab("payout", told("21"), told("21"))
    for _ in range(3):
        lab.report_paid()
        lab.pass_time(MINUTE)
    lab.pass_time(10 * MINUTE)
    assert lab.payment.status is Status.SUCCESS


@pytest.mark.spec("S6")
def test_a_payout_that_waits_to_be_sent_again_is_not_once_its_receipt_is_known() -> None:
    lab = Lab("payout", told("2001"), told("2001"))
    lab.gateway.ledger = ledger_with(
        payment(
            "payout", Stage.CREATED, provider_data=ProviderData("kenya", "M-Pesa"), submissions=1
        )
    )
    lab.report_paid()
    assert lab.payment.progress.stage is Stage.AWAITING_RESULT
    lab.pass_time(11 * MINUTE)
    assert (lab.payment.status, lab.payment.progress.submissions) == (Status.SUCCESS, 1)


@pytest.mark.spec("S6")
def test_a_payout_with_a_receipt_is_never_sent_again() -> None:
    lab = Lab("payout", told("2032"), told("2001"))
    lab.gateway.ledger = ledger_with(
        payment("payout", Stage.SUBMITTING, wake_at=later(START, HOUR), polls=1)
    )
    lab.now = later(START, Span(HOUR + SECOND))
    lab.report_paid()
    assert lab.payment.progress.stage is Stage.SUBMITTING
    lab.pass_time(10 * MINUTE)
    assert lab.payment.status is Status.SUCCESS


@pytest.mark.spec("S2", "S6")
@pytest.mark.parametrize(
    "document",
    [
        result_document(0, PAID, TransactionID=DUMMY),
        result_document(0, PAID, TransactionID=""),
        result_document(0, PAID, TransactionID="two words"),
        result_document(0),
    ],
    ids=["dummy receipt", "no receipt", "no receipt's form", "no amount"],
)
def test_a_success_without_receipt_or_amount_is_no_evidence(document: object) -> None:
    lab = Lab("payout", told("21"), told("21"))
    lab.report(document)
    lab.pass_time(HOUR)
    assert (lab.payment.status, lab.payment.progress.evidence) == (Status.PENDING, None)
    assert lab.payment.progress.is_said_paid


# Refusals.


@pytest.mark.spec("E1")
@pytest.mark.parametrize("kind", ["payout", "tax"])
@pytest.mark.parametrize("code", ["2001", "21", "8006", "20", "2028", "2006", "11"])
@pytest.mark.parametrize("answer", ["same", "2032", "SFC_IC0003"])
def test_money_out_that_our_operator_was_refused_fails_within_minutes(
    kind: str, code: str, answer: str
) -> None:
    lab = Lab(kind, told(code if answer == "same" else answer))
    lab.report_refused(code)
    lab.pass_time(5 * MINUTE)
    progress = lab.payment.progress
    assert (progress.stage, progress.error_code) == (Stage.FAILED, ErrorCode.MERCHANT_MISCONFIGURED)
    assert progress.provider_data is not None
    assert progress.provider_data.error_code == code


@pytest.mark.spec("E1")
@pytest.mark.parametrize(
    ("code", "means"),
    [
        ("2040", ErrorCode.USER_NOT_FOUND),
        ("SFC_IC0003", ErrorCode.USER_NOT_FOUND),
        ("17", ErrorCode.PROVIDER_UNAVAILABLE),
        ("1", ErrorCode.MERCHANT_INSUFFICIENT_FUNDS),
    ],
)
def test_a_refusal_with_a_dummy_receipt_that_is_not_found_fails_within_minutes(
    code: str, means: ErrorCode
) -> None:
    lab = Lab("payout", told("2032"))
    lab.report_refused(code)
    lab.pass_time(MINUTE)
    assert lab.payment.status is Status.PENDING  # So early the question could miss the transaction.
    lab.pass_time(4 * MINUTE)
    assert lab.payment.progress.error_code is means


@pytest.mark.spec("S6")
def test_a_refusal_that_names_a_transaction_waits_for_its_state() -> None:
    lab = Lab("payout", told("2032"))
    lab.report_refused("1", receipt=RECEIPT)
    lab.pass_time(HOUR)
    assert lab.payment.status is Status.PENDING
    lab.by_conversation = completed(state="Failed")
    lab.pass_time(HOUR)
    assert lab.payment.progress.error_code is ErrorCode.MERCHANT_INSUFFICIENT_FUNDS


@pytest.mark.spec("S5")
def test_a_refusal_after_a_receipt_fails_nothing() -> None:
    lab = Lab("payout", told("2001"), told("2001"))
    lab.report_paid()
    lab.report_refused("2001")
    lab.pass_time(5 * MINUTE)
    assert lab.payment.status is Status.PENDING


# Prompts.

QUERIES: dict[str, tuple[int, object]] = {
    "1037": (200, {**TAKEN_PUSH, "ResultCode": "1037"}),
    "does not exist": (
        500,
        {"errorCode": "500.001.1001", "errorMessage": "The transaction does not Exist"},
    ),
    "500": (500, {}),
    "4999": (200, {**TAKEN_PUSH, "ResultCode": "4999"}),
}


@pytest.mark.spec("S5")
@pytest.mark.parametrize("query", QUERIES)
def test_a_prompt_with_a_receipt_is_never_failed_in_silence(query: str) -> None:
    lab = Lab("payin", by_receipt=told("21"), prompt=QUERIES[query])
    lab.pass_time(20 * SECOND)
    lab.report_paid()
    lab.pass_time(2 * HOUR)
    assert lab.payment.status is Status.PENDING
    assert is_stuck(lab.payment, now=lab.now)
    assert {each["Initiator"] for each in lab.questions if "TransactionID" in each} == {"testapi"}
    lab.pass_time(3 * DAY)
    assert lab.payment.progress.error_message == EXPIRED_WITH_RECEIPT
    assert lab.suspense == [(SuspenseReason.UNCONFIRMED_RECEIPT, RECEIPT)]


@pytest.mark.spec("S2")
@pytest.mark.parametrize("query", QUERIES)
def test_a_prompt_is_paid_when_its_receipt_is_confirmed(query: str) -> None:
    named = {"DebitPartyName": "254708374149 - JANE DOE", "CreditPartyName": "174379 - TEST SHOP"}
    lab = Lab("payin", by_receipt=completed(**named), prompt=QUERIES[query])
    lab.report_paid()
    assert (lab.payment.status, lab.payment.progress.provider_reference) == (
        Status.SUCCESS,
        RECEIPT,
    )


@pytest.mark.spec("S2")
@pytest.mark.parametrize(("query", "status"), [("500", Status.SUCCESS), ("1037", Status.PENDING)])
def test_an_account_may_trust_the_result_of_a_prompt_where_the_query_is_silent(
    query: str, status: Status
) -> None:
    lab = Lab("payin", by_receipt=told("21"), prompt=QUERIES[query], options={"results": "trust"})
    lab.report_paid()
    lab.pass_time(10 * MINUTE)
    assert lab.payment.status is status


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("source", "reason"),
    [(Source.POLL, SuspenseReason.CONFLICTING_RESULT), (Source.EXPIRY, SuspenseReason.LATE_RESULT)],
)
def test_a_receipt_after_the_failure_is_kept_whatever_the_query_says(
    source: Source, reason: SuspenseReason
) -> None:
    lab = Lab("payin", prompt=QUERIES["1037"])
    lab.gateway.ledger = ledger_with(
        payment("payin", Stage.FAILED, error_code=ErrorCode.USER_TIMEOUT, completion_source=source)
    )
    lab.report_paid()
    assert lab.payment.status is Status.FAILED
    assert (reason, RECEIPT) in lab.suspense


@pytest.mark.spec("S3")
def test_a_payment_with_a_receipt_is_asked_about_once_more_just_before_it_expires() -> None:
    lab = Lab("payout", told("2001"), told("2032"))
    lab.report_paid()
    lab.pass_time(3 * DAY - 10 * MINUTE - SECOND)
    before = len(lab.questions)
    lab.by_receipt = completed(OriginatorConversationID=REFERENCE)
    lab.pass_time(2 * SECOND)
    assert len(lab.questions) > before
    assert lab.payment.status is Status.SUCCESS

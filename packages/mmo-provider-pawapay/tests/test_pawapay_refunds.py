"""pawaPay's refunds: what is sent, what each answer comes to, and that what is unknown is no
refusal."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from mmo_provider_pawapay.codes import ACCOUNT_REFUSALS
from mmo_provider_pawapay.refunds import refund_id
from mmo_provider_pawapay.wire import PENDING_STATUSES, operation_id
from pawapay_samples import FAILURE_CODES, HOOKS_URL, NAME, a_payment, an_account
from tests.support.reversals import LOST, UNSENT, a_reversal, json_answer, reversal_report

from mmo_sansio import MINUTE, SECOND, Instant, Money, Source, later
from mmo_sansio.providers import (
    DIRECT_PAYIN,
    WEB_PAYIN,
    ExchangeFailed,
    HttpRequest,
    HttpResponse,
    ReversalAccepted,
    ReversalFailed,
    ReversalHinted,
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
    ReversalUnreachable,
    Span,
    Stage,
    UnmatchedNotified,
)
from mmo_sansio.testing import REFERENCE, START
from mmo_sansio.values.clock import Moment

ACCOUNT = an_account()
PAYMENT = a_payment(REFERENCE, stage=Stage.SUCCEEDED)
ID = f"{REFERENCE}-1"
REFUND_ID = refund_id(ID)
NOW = later(START, Span(10 * SECOND))


def sent(answer: HttpResponse | ExchangeFailed, **members: Any) -> ReversalReport:
    return reversal_report(
        ACCOUNT.reverse(a_reversal(PAYMENT, **members), PAYMENT, now=Moment.at(NOW)), answer
    )[0]


def asked(
    answer: HttpResponse | ExchangeFailed, *, now: Instant = NOW, **members: Any
) -> ReversalReport:
    return reversal_report(
        ACCOUNT.poll_reversal(a_reversal(PAYMENT, **members), PAYMENT, now=Moment.at(now)), answer
    )[0]


def a_refund(status: str, **members: Any) -> dict[str, Any]:
    """A refund as status checks and callbacks tell it."""
    account = {"phoneNumber": "260763456789", "provider": "MTN_MOMO_ZMB"}
    return {
        "refundId": REFUND_ID,
        "status": status,
        "amount": "15.00",
        "currency": "ZMW",
        "country": "ZMB",
        "recipient": {"type": "MMO", "accountDetails": account},
        "created": "2026-09-21T14:13:20Z",
        "metadata": {"reversal": ID},
        **members,
    }


def found(status: str, **members: Any) -> HttpResponse:
    return json_answer(200, {"status": "FOUND", "data": a_refund(status, **members)})


def test_a_refund_has_an_id_of_its_own_made_from_ours() -> None:
    part = a_reversal(PAYMENT, amount=Money(450, "ZMW"))
    answer = json_answer(200, {"refundId": REFUND_ID, "status": "ACCEPTED"})
    report, (request,) = reversal_report(ACCOUNT.reverse(part, PAYMENT, now=Moment.at(NOW)), answer)
    assert report == ReversalAccepted(ID, NAME, Source.POLL, version=1)
    assert (request.method, request.target) == ("POST", b"https://api.pawapay.io/v2/refunds")
    assert json.loads(request.body) == {
        "refundId": REFUND_ID,
        "depositId": operation_id(REFERENCE),
        "amount": "4.5",
        "currency": "ZMW",
        "clientReferenceId": ID,
        "metadata": [{"reversal": ID}],
    }
    assert uuid.UUID(REFUND_ID).version == 4
    assert len({REFUND_ID, refund_id(f"{REFERENCE}-2"), operation_id(REFERENCE)}) == 3


def test_refunds_of_deposits_are_offered_whole_or_in_parts() -> None:
    assert set(ACCOUNT.reversal_operations) == {DIRECT_PAYIN, WEB_PAYIN}
    assert all(
        each.can_be_partial and each.is_idempotent for each in ACCOUNT.reversal_operations.values()
    )


@pytest.mark.parametrize(
    ("status", "expected"), [("ACCEPTED", ReversalAccepted), ("REJECTED", ReversalFailed)]
)
def test_the_answer_of_the_guide_names_the_refund_as_a_payout(
    status: str, expected: type[ReversalReport]
) -> None:
    """The guide shows it with payoutId, the reference with refundId."""
    answer = {"payoutId": REFUND_ID, "status": status, "created": "2025-05-15T07:38:56Z"}
    assert isinstance(sent(json_answer(200, answer)), expected)
    other = json_answer(200, {**answer, "payoutId": operation_id(REFERENCE)})
    assert isinstance(sent(other), ReversalUnreachable)
    data = a_refund("COMPLETED", payoutId=REFUND_ID)
    del data["refundId"]
    assert isinstance(asked(json_answer(200, {"status": "FOUND", "data": data})), ReversalSucceeded)


def test_a_duplicate_is_asked_after() -> None:
    answer = json_answer(200, {"refundId": REFUND_ID, "status": "DUPLICATE_IGNORED"})
    assert sent(answer) == ReversalAccepted(ID, NAME, Source.POLL, version=1)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("code", sorted(ACCOUNT_REFUSALS))
def test_a_refusal_of_our_account_says_nothing_of_the_refund(code: str) -> None:
    answer = json_answer(403, {"failureReason": {"failureCode": code, "failureMessage": "Words."}})
    assert isinstance(sent(answer), ReversalNeverReceived)


@pytest.mark.parametrize(
    "code", [each for each in FAILURE_CODES if each not in {"UNKNOWN_ERROR", *ACCOUNT_REFUSALS}]
)
def test_a_rejection_says_why(code: str) -> None:
    reason = {"failureCode": code, "failureMessage": "Words."}
    report = sent(
        json_answer(200, {"refundId": REFUND_ID, "status": "REJECTED", "failureReason": reason})
    )
    assert isinstance(report, ReversalFailed)
    assert report.native_code == code
    assert report.reason.endswith("Words.")


@pytest.mark.parametrize(
    "answer",
    [
        LOST,
        json_answer(500, {"failureReason": {"failureCode": "UNKNOWN_ERROR"}}),
        json_answer(200, {"refundId": operation_id(REFERENCE), "status": "REJECTED"}),
        json_answer(200, {"refundId": REFUND_ID, "status": "SOMETHING_NEW"}),
        json_answer(404, None),
    ],
)
def test_what_is_not_clear_is_asked_after(answer: HttpResponse | ExchangeFailed) -> None:
    assert isinstance(sent(answer), ReversalUnreachable)


def test_a_new_code_for_a_repetition_is_asked_after() -> None:
    reason = {"failureCode": "A_NEW_CODE"}
    answer = json_answer(
        200, {"refundId": REFUND_ID, "status": "REJECTED", "failureReason": reason}
    )
    assert isinstance(sent(answer, submissions=2), ReversalUnreachable)
    assert isinstance(sent(answer), ReversalFailed)


@pytest.mark.parametrize("answer", [UNSENT, HttpResponse(429)])
def test_what_certainly_did_not_arrive_may_be_sent_again(
    answer: HttpResponse | ExchangeFailed,
) -> None:
    assert isinstance(sent(answer), ReversalNeverReceived)


class TestQuestions:
    def test_a_completed_refund_has_moved_the_money(self) -> None:
        expected = ReversalSucceeded(ID, NAME, Source.POLL, "12356789", Money(1500, "ZMW"))
        assert asked(found("COMPLETED", providerTransactionId="12356789")) == expected

    def test_a_failed_refund_has_not(self) -> None:
        report = asked(
            found("FAILED", failureReason={"failureCode": "PAWAPAY_WALLET_OUT_OF_FUNDS"})
        )
        assert isinstance(report, ReversalFailed)
        assert report.reason == "The account's wallet with pawaPay holds too little."
        assert report.lacks_float

    @pytest.mark.parametrize("status", sorted(PENDING_STATUSES))
    def test_a_pending_one_is_asked_after_again(self, status: str) -> None:
        assert asked(found(status)) == ReversalAccepted(ID, NAME, Source.POLL, version=1)

    @pytest.mark.parametrize(
        "answer",
        [
            LOST,
            UNSENT,
            HttpResponse(500),
            HttpResponse(200, (), b"[]"),
            found("SOMETHING_NEW"),
            found("COMPLETED", refundId=operation_id(REFERENCE)),
            json_answer(200, {"status": "FOUND"}),
            json_answer(200, {"status": "SOMETHING_NEW", "data": a_refund("COMPLETED")}),
        ],
    )
    def test_what_is_not_clear_stays_unknown(self, answer: HttpResponse | ExchangeFailed) -> None:
        assert isinstance(asked(answer), ReversalUnreachable)

    def test_not_found_is_final_after_a_quarter_of_an_hour_unless_it_was_accepted(self) -> None:
        answer, end = json_answer(200, {"status": "NOT_FOUND"}), later(START, Span(15 * MINUTE))
        assert isinstance(asked(answer), ReversalUnreachable)
        assert isinstance(asked(answer, now=end), ReversalNeverReceived)
        assert isinstance(asked(answer, now=end, is_accepted=True), ReversalUnreachable)


class TestCallbacks:
    def test_an_unsigned_one_is_a_reason_to_ask(self) -> None:
        request = HttpRequest(
            "POST", HOOKS_URL.encode(), (), json.dumps(a_refund("COMPLETED")).encode()
        )
        assert ACCOUNT.read_notification(request) == ReversalHinted(ID, NAME)

    @pytest.mark.parametrize(
        "metadata",
        [
            None,
            {},
            {"reversal": f"{REFERENCE}-2"},
            {"reversal": "x"},
            {"reversal": 7},
            [],
            {"orderId": "1"},
        ],
    )
    def test_one_that_names_no_refund_of_ours_is_kept_for_staff(self, metadata: object) -> None:
        body = json.dumps(a_refund("COMPLETED", metadata=metadata)).encode()
        assert isinstance(
            ACCOUNT.read_notification(HttpRequest("POST", b"/", (), body)), UnmatchedNotified
        )

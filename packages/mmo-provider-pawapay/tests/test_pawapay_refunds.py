"""pawaPay's refunds: what is sent, what each answer comes to, and that what is unknown is no
refusal."""

from __future__ import annotations

import json
import uuid

import pytest
from mmo_provider_pawapay.codes import ACCOUNT_REFUSALS
from mmo_provider_pawapay.refunds import refund_id
from mmo_provider_pawapay.wire import operation_id
from pawapay_samples import FAILURE_CODES, NAME, a_payment, an_account
from tests.support.reversals import a_reversal, json_answer, reversal_report

from mmo_sansio import SECOND, Money, Source, later
from mmo_sansio.providers import (
    DIRECT_PAYIN,
    WEB_PAYIN,
    HttpResponse,
    ReversalAccepted,
    ReversalFailed,
    ReversalReport,
    Span,
    Stage,
)
from mmo_sansio.testing import REFERENCE, START
from mmo_sansio.values.clock import Moment

ACCOUNT = an_account()
PAYMENT = a_payment(REFERENCE, stage=Stage.SUCCEEDED)
ID = f"{REFERENCE}-1"
REFUND_ID = refund_id(ID)
NOW = later(START, Span(10 * SECOND))


def sent(answer: HttpResponse) -> ReversalReport:
    conversation = ACCOUNT.reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(NOW))
    return reversal_report(conversation, answer)[0]


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

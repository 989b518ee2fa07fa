"""MTN's refunds: what is sent, what each answer comes to, and that nothing unknown is told as
refused."""

from __future__ import annotations

import json

import pytest

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import UnmatchedNotified
from mmo_sansio.messages.reversals import (
    ReversalAccepted,
    ReversalFailed,
    ReversalHinted,
)
from mmo_sansio.providers.common.operations import DIRECT_PAYIN, WEB_PAYIN
from mmo_sansio.providers.mtn_momo.adapter import reference_id
from mmo_sansio.providers.mtn_momo.codes import PENDING_REASONS, REASONS, to_error_code
from mmo_sansio.providers.mtn_momo.refunds import REFUSALS
from mmo_sansio.testing import REFERENCE, START
from mmo_sansio.values.clock import SECOND, Moment, Span, later
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Source, Stage, Type
from mmo_sansio.values.money import Money
from mmo_simulators.operators.mtn.sandbox_numbers import OUTCOMES_BY_NUMBER
from tests.sansio.providers.mtn_momo.test_adapter import (
    HOOKS,
    NO_COLLECTION,
    NO_DISBURSEMENT,
    a_payment,
    a_provider,
)
from tests.support.bodies import documented
from tests.support.reversals import a_reversal, json_answer, reversal_report

PAYMENT = a_payment(stage=Stage.SUCCEEDED)
ID = f"{REFERENCE}-1"
PROVIDER = a_provider()
NOW = later(START, Span(10 * SECOND))


@pytest.mark.spec("S6")
def test_a_refund_is_sent_and_asked_about_by_an_id_made_from_ours() -> None:
    part = a_reversal(PAYMENT, amount=Money(400, "UGX"))
    report, (request,) = reversal_report(
        PROVIDER.reverse(part, PAYMENT, now=Moment.at(NOW)), json_answer(202)
    )
    assert report == ReversalAccepted(ID, "mtn_ug", Source.POLL, version=1)
    assert (request.method, request.target) == (
        "POST",
        b"https://proxy.momoapi.mtn.com/disbursement/v1_0/refund",
    )
    assert dict(request.headers) == {
        b"x-reference-id": reference_id(ID).encode(),
        b"x-target-environment": b"mtnuganda",
        b"ocp-apim-subscription-key": b"SECRET-disbursement",
        b"x-callback-url": f"{HOOKS}/{ID}".encode(),
        b"content-type": b"application/json",
    }
    assert json.loads(request.body) == {
        "amount": "400",
        "currency": "UGX",
        "externalId": ID,
        "payerMessage": "Refund",
        "payeeNote": ID,
        "referenceIdToRefund": reference_id(REFERENCE),
    }
    assert PROVIDER.scope_of(request) == "disbursement"
    _, (question,) = reversal_report(
        PROVIDER.poll_reversal(part, PAYMENT, now=Moment.at(NOW)), json_answer(404)
    )
    assert question.target == request.target + b"/" + reference_id(ID).encode()
    assert len({reference_id(each) for each in (REFERENCE, ID, f"{REFERENCE}-2")}) == 3


def test_each_reason_of_the_sandbox_is_a_refusal_with_words_for_staff() -> None:
    reasons = set(OUTCOMES_BY_NUMBER["refund"].values()) - PENDING_REASONS
    assert reasons - {"TRANSACTION_NOT_FOUND"} <= REASONS.keys()
    for reason in reasons:
        failure = {"status": "FAILED", "+reason": {"code": reason, "message": "As told."}}
        answer = json_answer(200, documented("mtn_momo", "refund", **failure))
        conversation = PROVIDER.poll_reversal(a_reversal(PAYMENT), PAYMENT, now=Moment.at(NOW))
        report, _ = reversal_report(conversation, answer)
        words = (
            REFUSALS.get(reason) or EXPLANATIONS[to_error_code(reason, None, Type.PAYOUT)].meaning
        )
        code = to_error_code(reason, None, Type.PAYOUT)
        assert report == ReversalFailed(
            ID,
            "mtn_ug",
            Source.POLL,
            f"{words} As told.",
            reason,
            lacks_float=code is ErrorCode.MERCHANT_INSUFFICIENT_FUNDS,
            version=1,
        )


@pytest.mark.spec("S5")
def test_a_callback_about_a_refund_causes_a_question() -> None:
    body = json.dumps({"externalId": ID, "status": "SUCCESSFUL", "amount": "1000"}).encode()
    target = f"{HOOKS.removeprefix('https://gw.example')}/{ID}".encode()
    for method in ("PUT", "POST"):
        found = PROVIDER.read_notification(HttpRequest(method, target, (), body))
        assert found == ReversalHinted(ID, "mtn_ug")
    other = HttpRequest("PUT", target.replace(b"-1", b"-2"), (), body)
    assert isinstance(PROVIDER.read_notification(other), UnmatchedNotified)


def test_refunds_need_both_products() -> None:
    assert PROVIDER.reversal_operations.keys() == {DIRECT_PAYIN, WEB_PAYIN}
    assert all(
        each.can_be_partial and each.is_idempotent for each in PROVIDER.reversal_operations.values()
    )
    for lacking in (NO_COLLECTION, NO_DISBURSEMENT):
        provider = a_provider(**lacking)
        assert provider.reversal_operations == {}
    report, requests = reversal_report(
        provider.reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(NOW))
    )
    assert isinstance(report, ReversalFailed)
    assert requests == []

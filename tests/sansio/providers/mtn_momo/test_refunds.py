"""MTN's refunds: what is sent, what each answer comes to, and that nothing unknown is told as
refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import UnmatchedNotified
from mmo_sansio.messages.reversals import (
    ReversalAccepted,
    ReversalFailed,
    ReversalHinted,
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
    ReversalUnreachable,
)
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.common.operations import DIRECT_PAYIN, WEB_PAYIN
from mmo_sansio.providers.mtn_momo.adapter import reference_id
from mmo_sansio.providers.mtn_momo.codes import PENDING_REASONS, REASONS, to_error_code
from mmo_sansio.providers.mtn_momo.refunds import REFUSALS
from mmo_sansio.testing import REFERENCE, START
from mmo_sansio.values.clock import MINUTE, SECOND, Instant, Moment, Span, later
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Source, Stage, Type
from mmo_sansio.values.money import Money
from mmo_simulators.operators.mtn.sandbox_numbers import OUTCOMES_BY_NUMBER
from tests.sansio.providers.mtn_momo.test_adapter import HOOKS, a_payment, a_provider
from tests.support.reversals import LOST, UNSENT, a_reversal, json_answer, reversal_report

PAYMENT = a_payment(stage=Stage.SUCCEEDED)
ID = f"{REFERENCE}-1"
PROVIDER = a_provider()
NOW = later(START, Span(10 * SECOND))


def sent(answer: HttpResponse | ExchangeFailed) -> ReversalReport:
    return reversal_report(
        PROVIDER.reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(NOW)), answer
    )[0]


def asked(
    answer: HttpResponse | ExchangeFailed, *, now: Instant = NOW, **members: Any
) -> ReversalReport:
    return reversal_report(
        PROVIDER.poll_reversal(a_reversal(PAYMENT, **members), PAYMENT, now=Moment.at(now)), answer
    )[0]


def a_state(status: str, **members: Any) -> HttpResponse:
    """The published sample of a refund's state, about our refund."""
    payee = {"partyIdType": "MSISDN", "partyId": "256772123456"}
    document = {
        "externalId": ID,
        "amount": "1000",
        "currency": "UGX",
        "payee": payee,
        "status": status,
    }
    return json_answer(200, {**document, **members})


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


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (json_answer(202), ReversalAccepted),
        (json_answer(409, {"code": "RESOURCE_ALREADY_EXIST"}), ReversalAccepted),
        (json_answer(500, {"code": "RESOURCE_ALREADY_EXIST"}), ReversalAccepted),
        (json_answer(429), ReversalNeverReceived),
        (UNSENT, ReversalNeverReceived),
        (LOST, ReversalUnreachable),
        (json_answer(408), ReversalUnreachable),
        (json_answer(500, {"code": "INTERNAL_PROCESSING_ERROR"}), ReversalUnreachable),
        (json_answer(503, {"code": "SERVICE_UNAVAILABLE"}), ReversalUnreachable),
        (json_answer(500, {"code": "SOMETHING_NEW"}), ReversalUnreachable),
        (json_answer(200, {"status": "SUCCESSFUL"}), ReversalUnreachable),
        (HttpResponse(200, (), b"<html>Oops"), ReversalUnreachable),
        (HttpResponse(502, (), b"<html>Oops"), ReversalUnreachable),
        (json_answer(500, {"code": "NOT_ALLOWED"}), ReversalFailed),
        (json_answer(500, {"code": "TRANSACTION_NOT_FOUND"}), ReversalFailed),
        (
            json_answer(400, {"code": "VALIDATION_ERROR", "message": "unsupported amount"}),
            ReversalFailed,
        ),
        (json_answer(403), ReversalNeverReceived),
    ],
)
def test_an_answer_to_a_refund_is_read_as_that_to_any_submission(
    answer: HttpResponse | ExchangeFailed, expected: type
) -> None:
    assert isinstance(sent(answer), expected)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (a_state("PENDING"), ReversalAccepted),
        (a_state("FAILED", reason="PAYEE_DELAYED"), ReversalAccepted),
        (a_state("FAILED"), ReversalFailed),
        (a_state("FAILED", reason={"code": "SOMETHING_NEW", "message": "no"}), ReversalFailed),
        (a_state("SUCCESSFUL", externalId="other"), ReversalUnreachable),
        (a_state("REFUNDED"), ReversalUnreachable),
        (json_answer(404), ReversalUnreachable),
        (json_answer(404, {"code": "TRANSACTION_NOT_FOUND"}), ReversalUnreachable),
        (json_answer(500, {"code": "NOT_ALLOWED"}), ReversalUnreachable),
        (HttpResponse(200, (), b"<html>Oops"), ReversalUnreachable),
        (LOST, ReversalUnreachable),
        (UNSENT, ReversalUnreachable),
    ],
)
def test_a_refund_ends_by_its_own_state_only(
    answer: HttpResponse | ExchangeFailed, expected: type
) -> None:
    assert isinstance(asked(answer), expected)


def test_a_refund_that_was_paid_names_its_receipt_and_amount() -> None:
    told = a_state("SUCCESSFUL", amount="1000.00", financialTransactionId=1947913865)
    assert asked(told) == ReversalSucceeded(
        ID, "mtn_ug", Source.POLL, "1947913865", Money(1_000, "UGX"), version=1
    )


@pytest.mark.spec("S6")
def test_not_found_counts_once_the_refund_could_be_found_and_never_after_an_acceptance() -> None:
    unknown = json_answer(404, {"code": "RESOURCE_NOT_FOUND"})
    assert isinstance(asked(unknown), ReversalUnreachable)
    assert asked(unknown, now=later(START, MINUTE)) == ReversalNeverReceived(ID, "mtn_ug", 1)
    assert isinstance(
        asked(unknown, now=later(START, MINUTE), is_accepted=True), ReversalUnreachable
    )


def test_each_reason_of_the_sandbox_is_a_refusal_with_words_for_staff() -> None:
    reasons = set(OUTCOMES_BY_NUMBER["refund"].values()) - PENDING_REASONS
    assert reasons - {"TRANSACTION_NOT_FOUND"} <= REASONS.keys()
    for reason in reasons:
        report = asked(a_state("FAILED", reason={"code": reason, "message": "As told."}))
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
    keys = ("subscription_key", "api_user", "api_key")
    for product in ("collection", "disbursement"):
        provider = a_provider(**{f"{product}_{key}": None for key in keys})
        assert provider.reversal_operations == {}
    report, requests = reversal_report(
        provider.reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(NOW))
    )
    assert isinstance(report, ReversalFailed)
    assert requests == []

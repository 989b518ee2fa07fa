"""Airtel's refunds: what is sent, and what each code comes to, which nobody can be asked about."""

from __future__ import annotations

from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.reversals import (
    ReversalCannotTell,
    ReversalFailed,
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
    ReversalUnreachable,
)
from mmo_sansio.providers.airtel_money.codes import (
    ACCOUNT_REFUSALS,
    COLLECTION,
    ROUTER,
    AirtelOutcome,
)
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.common.operations import DIRECT_PAYIN, WEB_PAYIN
from mmo_sansio.testing import REFERENCE, START
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source
from tests.sansio.providers.airtel_money.test_adapter import HEADERS
from tests.support.airtel_conversation import a_payin, an_adapter, answer, key_answer
from tests.support.bodies import documented
from tests.support.reversals import LOST, a_reversal, json_answer, reversal_report

PAYMENT = a_payin(provider_reference="CI240101.1200.A00001")
ID = f"{REFERENCE}-1"
DONE = json_answer(200, documented("airtel_money", "refund"))


def sent(
    *answers: HttpResponse | ExchangeFailed, provider: Any = None, **options: Any
) -> tuple[ReversalReport, list[HttpRequest]]:
    refunding = provider or an_adapter(**options)
    conversation = refunding.reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(START))
    return reversal_report(conversation, *answers)


def test_a_refund_is_of_the_whole_payment_by_its_receipt() -> None:
    report, (request,) = sent(DONE)
    assert report == ReversalSucceeded(ID, "airtel_ug", Source.POLL, "CI29", version=1)
    assert request == HttpRequest(
        "POST",
        b"https://openapi.airtel.ug/standard/v1/payments/refund",
        HEADERS,
        b'{"transaction":{"airtel_money_id":"CI240101.1200.A00001"}}',
    )


def test_a_refund_of_version_2_is_signed() -> None:
    _, (_, request) = sent(key_answer(), DONE, collection_version=2)
    assert request.target.endswith(b"/standard/v2/payments/refund")
    assert {b"x-signature", b"x-key"} <= dict(request.headers).keys()


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "code", [*COLLECTION, *ROUTER], ids=lambda code: f"{code.native} {code.meaning}"
)
def test_each_documented_code_refuses_or_says_nothing(code: Any) -> None:
    state = {"airtel_money_id": "CI29", "status": "FAILED"}
    (report, _) = sent(
        answer(code.native, transaction=state, success=False, status=400, message=code.message)
    )
    if code.native in ACCOUNT_REFUSALS and code.error_code is ErrorCode.MERCHANT_MISCONFIGURED:
        assert isinstance(report, ReversalNeverReceived)
        return
    is_refusal = (
        code.outcome in (AirtelOutcome.REJECTED, AirtelOutcome.NOT_FOUND)
        or code.native == "DP00800001025"
    )
    assert isinstance(report, ReversalFailed if is_refusal else ReversalUnreachable)
    if isinstance(report, ReversalFailed):
        assert report.reason == f"Airtel has refused it: {code.meaning}."
        assert report.native_code == code.native


@pytest.mark.spec("S6")
def test_an_outdated_key_is_fetched_again_before_the_next_request() -> None:
    provider = an_adapter(collection_version=2)
    stale = answer("DP00800001026", success=False, status=400)
    unsent = ReversalNeverReceived(ID, "airtel_ug", 1)
    assert sent(key_answer(), stale, provider=provider)[0] == unsent
    assert isinstance(sent(key_answer(), LOST, provider=provider)[0], ReversalUnreachable)
    assert sent(stale, provider=provider)[0] == unsent


def test_nothing_is_sent_without_a_receipt() -> None:
    for known_as in (None, REFERENCE):
        payment = a_payin(provider_reference=known_as)
        report, requests = reversal_report(
            an_adapter().reverse(a_reversal(payment), payment, now=Moment.at(START))
        )
        assert isinstance(report, ReversalFailed)
        assert requests == []


@pytest.mark.spec("S6")
def test_nobody_can_be_asked_about_a_refund() -> None:
    provider = an_adapter()
    report, requests = reversal_report(
        provider.poll_reversal(a_reversal(PAYMENT), PAYMENT, now=Moment.at(START))
    )
    assert (report, requests) == (ReversalCannotTell(ID, "airtel_ug", version=1), [])
    operations = provider.reversal_operations
    assert operations.keys() == {DIRECT_PAYIN, WEB_PAYIN}
    assert not any(
        each.can_be_partial or each.can_be_polled or each.is_idempotent
        for each in operations.values()
    )

"""Airtel's refunds: what is sent, and what each answer comes to, which nobody can be asked
about."""

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
from tests.support.airtel_conversation import a_payin, an_adapter, answer, key_answer
from tests.support.reversals import LOST, UNSENT, a_reversal, json_answer, reversal_report

RECEIPT = "CI240101.1200.A00001"
PAYMENT = a_payin(provider_reference=RECEIPT)
ID = f"{REFERENCE}-1"


def sent(
    *answers: HttpResponse | ExchangeFailed, **options: Any
) -> tuple[ReversalReport, list[HttpRequest]]:
    return reversal_report(
        an_adapter(**options).reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(START)), *answers
    )


def told(state: str | None, code: str | None = None, **members: Any) -> HttpResponse:
    """An answer in the form of the portal's sample."""
    transaction = {"airtel_money_id": "CI29", **({} if state is None else {"status": state})}
    return answer(code, transaction=transaction, **members)


def test_a_refund_is_of_the_whole_payment_by_its_receipt() -> None:
    report, (request,) = sent(told("SUCCESS"))
    assert report == ReversalSucceeded(ID, "airtel_ug", Source.POLL, "CI29", version=1)
    assert request == HttpRequest(
        "POST",
        b"https://openapi.airtel.ug/standard/v1/payments/refund",
        (
            (b"content-type", b"application/json"),
            (b"accept", b"*/*"),
            (b"x-country", b"UG"),
            (b"x-currency", b"UGX"),
        ),
        b'{"transaction":{"airtel_money_id":"CI240101.1200.A00001"}}',
    )


def test_a_refund_of_version_2_is_signed() -> None:
    report, (_, request) = sent(key_answer(), told("SUCCESS"), collection_version=2)
    assert isinstance(report, ReversalSucceeded)
    assert request.target.endswith(b"/standard/v2/payments/refund")
    assert {b"x-signature", b"x-key"} <= dict(request.headers).keys()


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (told("SUCCESS", "DP00800001001"), ReversalSucceeded),
        (told("TS", "DP00800001001"), ReversalSucceeded),
        (
            told("SUCCESS", success=False),
            ReversalUnreachable,
        ),  # The portal's own sample, which says both.
        (told("SUCCESS", success="true"), ReversalUnreachable),
        (told("SUCCESS", success=None), ReversalUnreachable),
        (told("SUCCESS", status=500), ReversalUnreachable),
        (told("SUCCESS", "DP00800001008"), ReversalUnreachable),
        (told(None), ReversalUnreachable),
        (told("TIP", "DP00800001006"), ReversalUnreachable),
        (told("FAILED", "DP00800001000", success=False), ReversalUnreachable),
        (told("FAILED", "DP00800009999", success=False), ReversalUnreachable),
        (told("FAILED", "DP00800001008", success=False, status=500), ReversalUnreachable),
        (told("FAILED", "DP00800001008", success=True), ReversalUnreachable),
        (told("FAILED", "DP00800001007", success=False), ReversalFailed),
        (told("FAILED", "DP00800001008", success=False), ReversalFailed),
        (told(None, "DP00800001025", success=False, status=400), ReversalFailed),
        (told(None, "ESB000045", success=False), ReversalFailed),
        (json_answer(403), ReversalUnreachable),
        (json_answer(429), ReversalNeverReceived),
        (UNSENT, ReversalNeverReceived),
        (LOST, ReversalUnreachable),
        (HttpResponse(200, (), b"<html>Oops"), ReversalUnreachable),
        (HttpResponse(502, (), b"<html>Oops"), ReversalUnreachable),
    ],
)
def test_a_refund_is_done_or_refused_only_where_nothing_contradicts_it(
    given: HttpResponse | ExchangeFailed, expected: type
) -> None:
    assert isinstance(sent(given)[0], expected)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "code", [*COLLECTION, *ROUTER], ids=lambda code: f"{code.native} {code.meaning}"
)
def test_each_documented_code_refuses_or_says_nothing(code: Any) -> None:
    (report, _) = sent(told("FAILED", code.native, success=False, status=400, message=code.message))
    if code.native in ACCOUNT_REFUSALS and code.error_code is ErrorCode.MERCHANT_MISCONFIGURED:
        assert isinstance(report, ReversalNeverReceived)
        return
    is_refusal = (
        code.outcome in (AirtelOutcome.REJECTED, AirtelOutcome.NOT_FOUND)
        or code.native == "DP00800001025"
    )
    assert isinstance(report, ReversalFailed if is_refusal else ReversalUnreachable)
    if isinstance(report, ReversalFailed):
        assert (report.reason, report.native_code) == (
            f"Airtel has refused it: {code.meaning}.",
            code.native,
        )


@pytest.mark.spec("S6")
def test_an_outdated_key_is_fetched_again_before_the_next_request() -> None:
    provider, stale = (
        an_adapter(collection_version=2),
        told(None, "DP00800001026", success=False, status=400),
    )
    reversal = a_reversal(PAYMENT)
    first = reversal_report(
        provider.reverse(reversal, PAYMENT, now=Moment.at(START)), key_answer(), stale
    )[0]
    assert isinstance(first, ReversalNeverReceived)
    assert isinstance(
        reversal_report(
            provider.reverse(reversal, PAYMENT, now=Moment.at(START)), key_answer(), LOST
        )[0],
        ReversalUnreachable,
    )
    again = reversal_report(provider.reverse(reversal, PAYMENT, now=Moment.at(START)), stale)[0]
    assert again == ReversalNeverReceived(ID, "airtel_ug", 1)


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

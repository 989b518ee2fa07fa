"""The examples of Wave's documentation, member by member, and its signature, byte by byte, through
the adapter and the simulator."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import pytest
from mmo_provider_wave.signatures import HEADER, LIFETIME, verify
from mmo_provider_wave.wire import parse_refusal
from wave_samples import HOOKS_URL, a_payment, an_account, answering, ok, results

from mmo_sansio import (
    SECOND,
    ErrorCode,
    Instant,
    Moment,
    Money,
    ProviderAccepted,
    ProviderFailed,
    ProviderSucceeded,
    later,
)
from mmo_sansio.providers import (
    HttpRequest,
    HttpResponse,
    ProviderReport,
    Span,
    Type,
    UnmatchedNotified,
    drive,
)
from mmo_sansio.testing import REFERENCE, START
from mmo_simulators.operators.wave.signatures import sign as sign_as_simulated

# https://docs.wave.com/webhook: a secret, the body of an event, and its signature.
SECRET: Final = "wave_sn_WHS_xz4m6g8rjs9bshxy05xj4khcvjv7j3hcp4fbpvv6met0zdrjvezg"
EVENT: Final = (
    b'{"id": "AE_ijzo7oGgrlM7", "type": "checkout.session.completed", "data": {'
    b'"id": "cos-1b01sghpg100j", "amount": "100", "checkout_status": "complete", '
    b'"client_reference": null, "currency": "XOF", "error_url": "https://example.com/error", '
    b'"last_payment_error": null, "business_name": "Annas Apiaries", '
    b'"payment_status": "succeeded", "success_url": "https://example.com/success", '
    b'"wave_launch_url": '
    b'"https://pay.wave.com/c/cos-1b01sghpg100j?a=100&c=XOF&m=Annas%20Apiaries", '
    b'"when_completed": "2022-11-08T15:05:45Z", "when_created": "2022-11-08T15:05:32Z", '
    b'"when_expires": "2022-11-09T15:05:32Z", "transaction_id": "TCN4Y4ZC3FM"}}'
)
SIGNED_AT: Final = Instant(1_667_920_421_000_000)
SIGNATURE: Final = (
    b"t=1667920421,v1=53c971695230e9c51b1030d673eee76e70bbcdf8a7c5b8c1d44e0b8b1329647b"
)

# https://docs.wave.com/payout
PAID: Final = (
    b'{"id": "pt-185b5e4b8100c", "currency": "XOF", "receive_amount": "500", "fee": "5", '
    b'"mobile": "+221555110219", "name": "Fatou Ndiaye", "status": "succeeded", '
    b'"timestamp": "2022-06-20T17:17:11Z"}'
)
PROCESSED: Final = (
    b'{"id": "pt-185skxqa0100y", "currency": "XOF", "receive_amount": "1200", "fee": "10", '
    b'"mobile": "+221555110233", "name": "Moustapha Mbaye", "status": "processing", '
    b'"aggregated_merchant_id": "am-7lks22ap113t4", "timestamp": "2022-06-21T10:07:30Z"}'
)
OVER_LIMIT: Final = (
    b'{"id": "pt-185sw98jg1016", "currency": "XOF", "receive_amount": "16000", "fee": "160", '
    b'"mobile": "+221555144081", "name": "Mame Diop", "status": "failed", '
    b'"payout_error": {"error_code": "recipient-limit-exceeded", '
    b'"error_message": "The recipient has reached their monthly limit."}, '
    b'"timestamp": "2022-06-21T10:25:46Z"}'
)
REFUSALS: Final = {
    b'{"code": "request-validation-error", '
    b'"message": "An \'Idempotency-Key\' header is required for POST requests"}': (
        "request-validation-error"
    ),
    b'{"error": "request-validation-error", "message": "Invalid phone number."}': (
        "request-validation-error"
    ),
    b'{"code": "request-validation-error", "message": "Request invalid", "details": '
    b'[{"loc": ["currency"], "msg": "Unknown currency identifier: ABC. We require the currency to '
    b'be a three-letter ISO 4217 code.", "type": "value_error"}]}': "request-validation-error",
    b'{"error_code": "insufficient-funds", "error_message": "Insufficient funds in wallet."}': (
        "insufficient-funds"
    ),
}
"""The codes of the documentation's refusals, which have it under three names."""


def of_ours(payout: bytes) -> HttpResponse:
    """An example in whose request we had named the payment."""
    return ok(payout.replace(b"{", b'{"client_reference": "%b", ' % REFERENCE.encode(), 1))


def polled(answer: HttpResponse) -> ProviderReport:
    found = ok(results(answer.body))
    conversation = an_account().poll(a_payment(Type.PAYOUT), now=Moment.at(START))
    return drive(conversation, answering({"GET /search": found}))


def submitted(answer: HttpResponse) -> ProviderReport:
    conversation = an_account().submit(a_payment(Type.PAYOUT), now=Moment.at(START))
    return drive(conversation, answering({"POST /payout": answer}))


def test_the_documented_signature_is_right() -> None:
    webhook = HttpRequest("POST", HOOKS_URL.encode(), ((HEADER, SIGNATURE),), EVENT)
    assert verify(webhook, [SECRET]) == SIGNED_AT
    account = an_account(webhook_secret=SECRET)
    on_time, late = later(SIGNED_AT, LIFETIME), later(SIGNED_AT, Span(LIFETIME + SECOND))
    assert account.refuse_notification(webhook, now=Moment(START, on_time)) is None
    assert account.refuse_notification(webhook, now=Moment(START, late)) is not None
    assert isinstance(account.read_notification(webhook), UnmatchedNotified), "no payment of ours"


def test_the_simulator_signs_as_documented() -> None:
    assert sign_as_simulated(EVENT, [SECRET], now=SIGNED_AT) == SIGNATURE


def test_the_documented_event_pays_what_it_names() -> None:
    body = EVENT.replace(
        b'"client_reference": null', b'"client_reference": "%b"' % REFERENCE.encode()
    )
    webhook = HttpRequest(
        "POST",
        HOOKS_URL.encode(),
        ((HEADER, sign_as_simulated(body, [SECRET], now=SIGNED_AT)),),
        body,
    )
    report = an_account(webhook_secret=SECRET).read_notification(webhook)
    assert isinstance(report, ProviderSucceeded)
    assert (report.provider_reference, report.final) == ("TCN4Y4ZC3FM", Money(100, "XOF"))


@pytest.mark.parametrize("ask", [submitted, polled])
def test_the_documented_pay_outs_mean_what_they_say(
    ask: Callable[[HttpResponse], ProviderReport],
) -> None:
    paid = ask(of_ours(PAID))
    assert isinstance(paid, ProviderSucceeded)
    assert (paid.provider_reference, paid.final) == ("pt-185b5e4b8100c", Money(500, "XOF"))
    processed = ask(of_ours(PROCESSED))
    assert isinstance(processed, ProviderAccepted)
    assert processed.provider_reference == "pt-185skxqa0100y"
    over_limit = ask(of_ours(OVER_LIMIT))
    assert isinstance(over_limit, ProviderFailed)
    assert over_limit.error_code is ErrorCode.USER_LIMIT_EXCEEDED
    assert over_limit.native_message == "The recipient has reached their monthly limit."


@pytest.mark.parametrize(("body", "code"), REFUSALS.items())
def test_the_documented_refusals_fail_with_their_code(body: bytes, code: str) -> None:
    refusal = parse_refusal(body)
    assert refusal is not None
    told = json.loads(body)
    assert (refusal.code, refusal.message) == (code, told.get("message", told.get("error_message")))
    report = submitted(HttpResponse(400, (), body))
    assert isinstance(report, ProviderFailed)
    assert report.native_code == code

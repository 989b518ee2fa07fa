"""Every adapter of ours passes the public suite, which fails each adapter that breaks a promise."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from attrs import evolve, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderFailed,
    ProviderNeverReceived,
    ProviderSucceeded,
    UnmatchedNotified,
)
from mmo_sansio.providers.airtel_money import codes as airtel_codes
from mmo_sansio.providers.common.interface import (
    AccessToken,
    Conversation,
    ExchangeFailed,
    PaymentReports,
    Provider,
    SignIn,
)
from mmo_sansio.providers.mpesa_daraja import codes as mpesa_codes
from mmo_sansio.providers.mtn_momo import codes as mtn_codes
from mmo_sansio.providers.mtn_momo.account import MtnAccount, read_account
from mmo_sansio.providers.mtn_momo.adapter import MtnMomoProvider
from mmo_sansio.providers.registry import PROVIDER_KINDS
from mmo_sansio.providers.sandbox.wire import NATIVE_ERRORS
from mmo_sansio.testing import ADAPTER_CHECKS, AdapterCase, AdapterCheck, check_adapter
from mmo_sansio.testing import adapter_conformance as suite
from mmo_sansio.values.clock import SECOND, Instant, Moment, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.fields import TEXT, Field
from mmo_sansio.values.model import Source, Transaction
from mmo_sansio.values.money import Money

USER = "c72025f5-5cd1-4630-99e4-8ba4722fad56"
KEY = base64.b64encode(b"the operator's key").decode()


def airtel_key(request: HttpRequest) -> HttpResponse | None:
    """Airtel's answer to a request for its key, which encrypts the PIN."""
    if not request.target.endswith(b"/encryption-keys"):
        return None
    status = {"response_code": "DP02010001001", "success": True}
    document = {"data": {"key_id": 7, "key": KEY}, "status": status}
    return HttpResponse(200, (), json.dumps(document).encode())


def case(name: str, options: Mapping[str, Any], **market: Any) -> AdapterCase:
    return AdapterCase(PROVIDER_KINDS[name], options, **market)


UGANDA = {"country": "UG", "currency": "UGX", "msisdn": "+256752000000"}
CASES = {
    "sandbox": case("sandbox", {}),
    "mpesa_daraja": case(
        "mpesa_daraja",
        {
            "consumer_key": "SECRET-consumer-key",
            "consumer_secret": "SECRET-consumer-secret",
            "shortcode": "174379",
            "passkey": "SECRET-passkey",
            "payout_shortcode": "600997",
            "initiator": "testapi",
            "initiator_password": "SECRET-password",
            "deposit_initiator_password": "SECRET-deposit-password",
            "certificate": "a certificate",
            "merchant_name": "TEST SHOP",
        },
    ),
    "mtn_momo": case(
        "mtn_momo",
        {
            "market": "mtnuganda",
            "collection_subscription_key": "SECRET-collection",
            "collection_api_user": USER,
            "collection_api_key": "SECRET-collection-api",
            "disbursement_subscription_key": "SECRET-disbursement",
            "disbursement_api_user": USER,
            "disbursement_api_key": "SECRET-disbursement-api",
        },
        **UGANDA,
    ),
    "airtel_money": case(
        "airtel_money",
        {
            "base_url": "https://openapi.airtel.ug",
            "country": "UG",
            "client_id": "client",
            "client_secret": "SECRET-client",
            "pin": "SECRET-pin",
            "callback_key": "SECRET-callback",
        },
        prepare=airtel_key,
        **UGANDA,
    ),
}


def test_every_built_in_kind_is_checked() -> None:
    assert CASES.keys() == PROVIDER_KINDS.keys()


@pytest.mark.spec("S6", "A5")
@pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASES)
def test_an_adapter_keeps_the_promises_of_every_adapter(name: str, check: AdapterCheck) -> None:
    check(CASES[name])


@frozen
class SubmitsAgain(MtnMomoProvider):
    def submit(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        for _ in range(2):
            try:
                yield next(MtnMomoProvider.submit(self, transaction, now=now))
            except ExchangeFailed:
                continue
        return PaymentReports(transaction, self.name).unreachable("It is lost.")


@frozen
class BelievesAServerError(MtnMomoProvider):
    def submit(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        report = yield from MtnMomoProvider.submit(self, transaction, now=now)
        code = ErrorCode.TRANSACTION_DECLINED
        failed = ProviderFailed(transaction.reference, self.name, Source.POLL, code)
        return report if isinstance(report, ProviderNeverReceived) else failed


@frozen
class ForgetsALostSubmission(MtnMomoProvider):
    def submit(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        yield from MtnMomoProvider.submit(self, transaction, now=now)
        return PaymentReports(transaction, self.name).never_received()


@frozen
class IsUnsureOfAnUnsentSubmission(MtnMomoProvider):
    def submit(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        yield from MtnMomoProvider.submit(self, transaction, now=now)
        return PaymentReports(transaction, self.name).unreachable("It is lost.")


@frozen
class RoundsAmounts(MtnMomoProvider):
    def submit(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        order = transaction.order
        rounded = Money(order.requested.minor // 100 * 100, order.requested.currency)
        changed = evolve(transaction, order=evolve(order, requested=rounded))
        return (yield from MtnMomoProvider.submit(self, changed, now=now))


@frozen
class SubmitsInAPoll(MtnMomoProvider):
    def poll(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        return (yield from MtnMomoProvider.submit(self, transaction, now=now))


@frozen
class BelievesAPoll(MtnMomoProvider):
    def poll(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        yield from MtnMomoProvider.poll(self, transaction, now=now)
        final = transaction.order.requested
        return ProviderSucceeded(transaction.reference, self.name, Source.POLL, "R", final)


@frozen
class BelievesAPollByTheOperatorsId(MtnMomoProvider):
    def poll(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        report = yield from MtnMomoProvider.poll(self, transaction, now=now)
        if transaction.progress.provider_reference is None:
            return report
        return PaymentReports(transaction, self.name).failed(ErrorCode.TRANSACTION_DECLINED)


@frozen
class SubmitsAPromptAgainWithoutAQuestion(MtnMomoProvider):
    def poll(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        yield from ()
        return PaymentReports(transaction, self.name).never_received()


@frozen
class RaisesOnNotifications(MtnMomoProvider):
    def read_notification(self, request: HttpRequest) -> UnmatchedNotified:
        return UnmatchedNotified(self.name, json.loads(request.body)["id"])


@frozen
class KeepsNulCharacters(MtnMomoProvider):
    def read_notification(self, request: HttpRequest) -> UnmatchedNotified:
        return UnmatchedNotified(self.name, request.body.decode("utf-8", "replace"))


@frozen
class TakesAnyToken(MtnMomoProvider):
    def sign_in(self, scope: str, *, now: Moment | Instant) -> SignIn:
        now = Moment.at(now)
        answer = yield HttpRequest("POST", b"https://operator.example/token")
        return AccessToken(
            answer.body.decode("utf-8", "replace"), now.time, later(now.time, SECOND)
        )


@frozen
class ShowsItsSecrets(MtnMomoProvider):
    def __repr__(self) -> str:
        return f"{self.account.products['collection'].subscription_key}"


Open = Callable[[str, str, MtnAccount], Provider]


def broken(open_broken: Open) -> AdapterCase:
    """MTN's case with another adapter."""
    good = CASES["mtn_momo"]

    def factory(name: str, title: str, options: Mapping[str, Any], context: Any) -> Provider:
        return open_broken(name, title, read_account(options, hooks_url=context.hooks_url))

    return evolve(good, kind=evolve(good.kind, factory=factory))


@pytest.mark.parametrize(
    ("open_broken", "check"),
    [
        (SubmitsAgain, suite.check_submission_is_sent_once),
        (BelievesAServerError, suite.check_submission_is_sent_once),
        (ForgetsALostSubmission, suite.check_submission_is_sent_once),
        (IsUnsureOfAnUnsentSubmission, suite.check_unsent_submission),
        (RoundsAmounts, suite.check_amounts),
        (SubmitsInAPoll, suite.check_polls),
        (BelievesAPoll, suite.check_polls),
        (BelievesAPollByTheOperatorsId, suite.check_polls),
        (SubmitsAPromptAgainWithoutAQuestion, suite.check_polls),
        (RaisesOnNotifications, suite.check_notifications),
        (KeepsNulCharacters, suite.check_notifications),
        (TakesAnyToken, suite.check_sign_in),
        (ShowsItsSecrets, suite.check_secrets),
    ],
)
def test_a_broken_promise_is_found(open_broken: Open, check: AdapterCheck) -> None:
    good = CASES["mtn_momo"]
    check(good)
    with pytest.raises((AssertionError, ValueError, TypeError, KeyError)):
        check(broken(open_broken))


def test_an_option_that_is_not_declared_is_found() -> None:
    good = CASES["mtn_momo"]
    for options in (
        good.kind.options[1:],
        (*good.kind.options, Field("never_read", TEXT, None, "")),
    ):
        with pytest.raises(AssertionError, match="declared, or read"):
            suite.check_options(evolve(good, kind=evolve(good.kind, options=options)))


def test_the_whole_suite_runs_at_once() -> None:
    check_adapter(CASES["mtn_momo"])


@pytest.mark.spec("S3", "E1")
def test_no_adapter_reports_the_code_of_the_gateways_own_time_limit() -> None:
    """An operator that reports its own expiry has given a final result: no money moved."""
    expired = ErrorCode.TRANSACTION_EXPIRED
    tables: dict[str, list[ErrorCode | None]] = {
        "mpesa_daraja results": [
            c for each in mpesa_codes.RESULT_CODES.values() for c in (each.payin, each.payout)
        ],
        "mpesa_daraja states": list(mpesa_codes.TRANSACTION_FAILURES.values()),
        "mtn_momo": [c for each in mtn_codes.REASONS.values() for c in (each.payin, each.payout)],
        "airtel_money": [
            each.error_code
            for each in (*airtel_codes.COLLECTION, *airtel_codes.DISBURSEMENT, *airtel_codes.ROUTER)
        ],
        "sandbox": list(NATIVE_ERRORS),
    }
    assert [name for name, codes in tables.items() if expired in codes] == []
    result, reason = mpesa_codes.RESULT_CODES["1019"], mtn_codes.REASONS["EXPIRED"]
    for payin, payout in ((result.payin, result.payout), (reason.payin, reason.payout)):
        assert (payin, payout) == (ErrorCode.USER_TIMEOUT, ErrorCode.PROVIDER_TIMEOUT)
    assert mpesa_codes.TRANSACTION_FAILURES["expired"] is ErrorCode.PROVIDER_TIMEOUT

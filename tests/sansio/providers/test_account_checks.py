"""What each operator's captured answer says about our account: what is wrong, and who mends it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderFailed, ProviderUnreachable
from mmo_sansio.providers.common.interface import (
    AccountFinding,
    AccountState,
    ChecksAccount,
    CredentialStopped,
    ExchangeFailed,
    drive,
)
from mmo_sansio.providers.common.redaction import RedactingProvider
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.mpesa_daraja.callback_url import MpesaCallbackKind
from mmo_sansio.providers.mpesa_daraja.hints import MpesaHint
from mmo_sansio.testing import START
from mmo_sansio.values.clock import DAY, HOUR, Moment, Span, from_datetime, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Type
from tests.sansio.providers.mpesa_daraja.test_adapter import (
    adapter,
    callback,
    payment,
    push_document,
    to,
)
from tests.sansio.providers.mtn_momo.test_adapter import a_provider
from tests.support.airtel_conversation import an_adapter

ACCEPTED = {"ConversationID": "AG_1", "OriginatorConversationID": "1", "ResponseCode": "0"}
NO_PROMPT = {
    "requestId": "1",
    "errorCode": "500.001.1001",
    "errorMessage": "The transaction does not Exist",
}
WRONG_PASSKEY = {**NO_PROMPT, "errorMessage": "Wrong credentials"}
INVALID_TOKEN = {
    "requestId": "1",
    "errorCode": "401.002.01",
    "errorMessage": "Error Occurred - Invalid Access Token",
}
FIREWALL = (
    b"<html><head><META NAME='robots' CONTENT='noindex,nofollow'></head><body>Incapsula "
    b"incident</body></html>"
)

NOT_FOUND = {
    "ResultType": 0,
    "ResultCode": 2032,
    "ResultDesc": "The transaction receipt number does not exist.",
}
LOCKED = {
    "ResultType": 0,
    "ResultCode": 8006,
    "ResultDesc": "The security credential is locked.",
    "ResultParameters": {
        "ResultParameter": [{"Key": "ErrorMsg", "Value": "API Password is locked. "}]
    },
}
NO_ROLE = {
    "ResultType": 0,
    "ResultCode": 21,
    "ResultDesc": "The initiator is not allowed to initiate this request.",
}
WRONG_PASSWORD = {
    "ResultType": 0,
    "ResultCode": 2001,
    "ResultDesc": "The initiator information is invalid.",
}

MTN_NOT_FOUND = {"code": "RESOURCE_NOT_FOUND", "message": "Requested resource was not found."}
MTN_WRONG_KEY = {"statusCode": 401, "message": "Access denied due to invalid subscription key."}
MTN_FORBIDDEN = {"statusCode": 403, "message": "Forbidden IP"}
BALANCE = {"availableBalance": "2000", "currency": "UGX"}


def airtel(code: str, message: str, *, success: bool = False) -> dict[str, Any]:
    return {
        "status": {"code": "200", "success": success, "response_code": code, "message": message}
    }


def checked(
    provider: ChecksAccount, *answers: tuple[int, object] | ExchangeFailed
) -> dict[str, AccountFinding]:
    """The findings by their part, where the questions are answered so, one after the other."""
    left = list(answers)

    def exchange(request: HttpRequest) -> HttpResponse:
        answer = left.pop(0)
        if isinstance(answer, ExchangeFailed):
            raise answer
        status, document = answer
        return HttpResponse(
            status, (), document if isinstance(document, bytes) else json.dumps(document).encode()
        )

    found = drive(provider.check_account(now=Moment.at(START)), exchange)
    assert left == []
    return {each.part: each for each in found}


def check_answer(
    result: Mapping[str, Any], kind: MpesaCallbackKind = MpesaCallbackKind.CHECK_RESULT
) -> HttpRequest:
    """M-Pesa's callback about the API operator."""
    (operator,) = adapter().account.operators
    document = {
        "OriginatorConversationID": "1",
        "ConversationID": "AG_1",
        "TransactionID": "SIK0000000",
        **result,
    }
    return callback(to(kind, credential=operator.credential), {"Result": document})


@pytest.mark.parametrize(
    ("result", "state", "stops", "words"),
    [
        (NOT_FOUND, AccountState.WORKS, False, "accepts the API operator"),
        (NO_ROLE, AccountState.REFUSED, False, "adds it in M-Pesa's portal"),
        (WRONG_PASSWORD, AccountState.REFUSED, True, "older than 90 days"),
        (LOCKED, AccountState.REFUSED, True, "unlocks it in M-Pesa's portal"),
        ({"ResultCode": "SFC_IC0003"}, AccountState.REFUSED, False, "no such API operator"),
        ({"ResultCode": 26}, AccountState.UNKNOWN, False, "no answer that says anything"),
    ],
)
def test_m_pesas_answer_about_an_unknown_receipt_says_what_is_wrong_and_who_mends_it(
    result: Mapping[str, Any], state: AccountState, stops: bool, words: str
) -> None:
    provider = RedactingProvider(adapter())
    finding = provider.read_notification(check_answer(result))
    assert isinstance(finding, AccountFinding)
    assert finding == provider.read_finding(check_answer(result))
    assert (finding.part, finding.state, finding.code) == (
        "initiator",
        state,
        str(result["ResultCode"]),
    )
    assert (finding.stopped_credential != "") is stops
    assert words in finding.words
    assert ("Nothing asks with this password" in finding.words) is stops


def test_m_pesas_callback_answers_the_questions_of_its_operators() -> None:
    found = checked(adapter(), (200, ACCEPTED), (500, NO_PROMPT))
    assert {part: each.state for part, each in found.items()} == {
        "sign-in": "works",
        "passkey": "works",
    }


@pytest.mark.parametrize("message", ["Wrong credentials", "Merchant does not exist"])
def test_a_passkey_that_is_not_that_of_the_shortcode_is_named(message: str) -> None:
    found = checked(
        adapter(initiator=None, initiator_password=None, certificate=None, merchant_name=None),
        (500, {**NO_PROMPT, "errorMessage": message}),
    )
    assert (found["passkey"].state, "compares it and the shortcode" in found["passkey"].words) == (
        "refused",
        True,
    )


def test_m_pesas_refused_requests_are_named() -> None:
    found = checked(adapter(), (401, INVALID_TOKEN), (500, WRONG_PASSKEY))
    assert found["sign-in"].state is AccountState.WORKS
    assert (found["initiator"].state, found["initiator"].code) == ("refused", "401.002.01")
    assert "does not have this product" in found["initiator"].words
    assert (found["passkey"].state, found["passkey"].code) == ("refused", "500.001.1001")


@pytest.mark.parametrize(
    ("status", "state", "words"),
    [
        (503, AccountState.UNKNOWN, "firewall"),
        (400, AccountState.REFUSED, "compares them with the settings"),
    ],
)
def test_a_token_that_is_not_given_ends_the_questions(
    status: int, state: AccountState, words: str
) -> None:
    refused = ExchangeFailed(
        "Signing in was refused.", may_have_arrived=False, sign_in_status=status
    )
    for provider in (adapter(), a_provider(), an_adapter()):
        (finding,) = checked(provider, refused).values()
        assert (finding.part, finding.state, finding.code) == ("sign-in", state, f"HTTP {status}")
        assert words in finding.words


def test_an_html_page_in_place_of_an_answer_says_nothing() -> None:
    found = checked(adapter(), (503, FIREWALL), ExchangeFailed("Reset.", may_have_arrived=True))
    assert [(each.state, each.code) for part, each in found.items() if part != "sign-in"] == [
        ("unknown", "HTTP 503"),
        ("unknown", ""),
    ]


@pytest.mark.parametrize(
    ("answers", "state", "words"),
    [
        (((404, MTN_NOT_FOUND), (200, BALANCE)), AccountState.WORKS, "answers questions"),
        (((404, MTN_NOT_FOUND), (404, {})), AccountState.WORKS, "answers questions"),
        (
            ((404, MTN_NOT_FOUND), (403, MTN_FORBIDDEN)),
            AccountState.REFUSED,
            "refuses this gateway's address",
        ),
        (
            ((403, b"<html>Request Rejected</html>"), (200, BALANCE)),
            AccountState.REFUSED,
            "firewall",
        ),
        (((401, MTN_WRONG_KEY), (401, MTN_WRONG_KEY)), AccountState.REFUSED, "compares both keys"),
        (
            ((500, {"code": "NOT_ALLOWED_TARGET_ENVIRONMENT"}), (500, {})),
            AccountState.REFUSED,
            "market or product",
        ),
        (((404, {}), (404, {})), AccountState.UNKNOWN, "no answer that says anything"),
    ],
)
def test_mtns_answers_say_what_is_wrong_and_who_mends_it(
    answers: tuple[tuple[int, object], ...], state: AccountState, words: str
) -> None:
    provider = a_provider(
        disbursement_subscription_key=None, disbursement_api_user=None, disbursement_api_key=None
    )
    finding = checked(provider, *answers)["collection"]
    assert finding.state is state
    assert words in finding.words


@pytest.mark.parametrize(
    ("answers", "state", "words"),
    [
        (
            ((200, airtel("ESB000045", "No such")), (200, {})),
            AccountState.WORKS,
            "answers questions",
        ),
        (
            ((200, airtel("DP00800001025", "Not found")), (404, {})),
            AccountState.WORKS,
            "answers questions",
        ),
        (
            ((200, airtel("ROUTER001", "Wallet is not configured")), (200, {})),
            AccountState.REFUSED,
            "no wallet",
        ),
        (
            ((200, airtel("ESB000045", "")), (200, airtel("ROUTER007", ""))),
            AccountState.REFUSED,
            "not provisioned",
        ),
        (((403, {}), (403, {})), AccountState.REFUSED, "no permission"),
        (
            ((200, airtel("DP00800001000", "")), (200, {})),
            AccountState.UNKNOWN,
            "no answer that says anything",
        ),
    ],
)
def test_airtels_answers_say_what_is_wrong_and_who_mends_it(
    answers: tuple[tuple[int, object], ...], state: AccountState, words: str
) -> None:
    finding = checked(an_adapter(), *answers)["client_id"]
    assert finding.state is state
    assert words in finding.words


@pytest.mark.parametrize(
    ("days", "state"), [(75, AccountState.WORKS), (76, AccountState.WARNED), (91, "warned")]
)
def test_an_m_pesa_password_is_warned_of_fourteen_days_before_its_end(
    days: int, state: AccountState
) -> None:
    provider = adapter(password_set_on="2026-09-01", passkey=None)
    now = later(from_datetime(datetime(2026, 9, 1, tzinfo=UTC)), Span(days * DAY))
    conversation = provider.check_account(now=Moment.at(now))
    found = drive(conversation, lambda _: HttpResponse(200, (), json.dumps(ACCEPTED).encode()))
    (finding,) = (each for each in found if each.part == "password_set_on")
    assert (finding.state, finding.code) == (state, "2026-11-30")


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("kind", "part", "held", "holds_reversals"),
    [
        (MpesaCallbackKind.RESULT, "payouts", {Type.PAYOUT}, False),
        (MpesaCallbackKind.TAX_RESULT, "taxes", {Type.TAX}, False),
        (MpesaCallbackKind.REVERSAL_RESULT, "reversals", set(), True),
    ],
)
def test_a_refused_result_raises_the_alarm_holds_what_follows_and_stops_no_question(
    kind: MpesaCallbackKind, part: str, held: set[Type], holds_reversals: bool
) -> None:
    """A refused password holds all that it sends, a missing role only what needs that."""
    for result in (WRONG_PASSWORD, NO_ROLE, LOCKED):
        finding = adapter().read_finding(check_answer(result, kind))
        assert finding is not None
        assert (finding.part, finding.state) == (part, "refused")
        assert finding.stopped_credential == ""
        if result is NO_ROLE:
            assert (set(finding.held), finding.holds_reversals) == (held, holds_reversals)
        else:
            assert (set(finding.held), finding.holds_reversals) == ({Type.PAYOUT, Type.TAX}, True)
    busy = adapter().read_finding(check_answer({"ResultCode": 26}, kind))
    assert busy is not None
    assert (busy.state, set(busy.held)) == ("warned", held)
    paid = adapter().read_finding(check_answer({"ResultCode": 0}, kind))
    assert paid is not None
    assert (paid.part, paid.state, paid.holds_back) == (part, "works", False)


@pytest.mark.spec("S5")
def test_a_question_with_a_refused_password_holds_what_the_same_operator_sends() -> None:
    for result in (WRONG_PASSWORD, LOCKED):
        finding = adapter().read_finding(check_answer(result, MpesaCallbackKind.POLL_RESULT))
        assert finding is not None
        assert set(finding.held) == {Type.PAYOUT, Type.TAX}
        assert adapter().uses_credential(finding.stopped_credential)
        assert not adapter(initiator_password="another").uses_credential(finding.stopped_credential)


def test_the_result_of_a_payment_that_is_refused_itself_says_nothing_of_the_account() -> None:
    assert (
        adapter().read_finding(check_answer({"ResultCode": 2040}, MpesaCallbackKind.RESULT)) is None
    )
    wrong_pin = callback(to(MpesaCallbackKind.PUSH), push_document(2001))
    assert adapter().read_finding(wrong_pin) is None


def test_an_answer_about_an_earlier_password_says_nothing() -> None:
    provider = adapter(initiator_password="another")
    assert provider.read_finding(check_answer(WRONG_PASSWORD)) is None
    assert provider.read_finding(callback("https://gw.example/hooks/kenya/token/00", {})) is None


@pytest.mark.spec("E1", "S6")
@pytest.mark.parametrize("age", [Span(0), HOUR])
def test_a_refused_payment_ends_without_a_question_that_would_lock_the_operator(age: Span) -> None:
    """Its own refusal and the known refusal of the question are what a question would have told."""
    hint = MpesaHint(code="2001", refused="2001").to_text()
    report = _polled_while_stopped(adapter(), hint, age)
    if age:
        assert isinstance(report, ProviderFailed)
        assert (report.error_code, report.native_code) == (ErrorCode.MERCHANT_MISCONFIGURED, "2001")
    else:
        assert isinstance(report, ProviderUnreachable)
    assert isinstance(_polled_while_stopped(adapter(), None, HOUR), ProviderUnreachable)


def _polled_while_stopped(provider: DarajaProvider, hint: str | None, age: Span) -> object:
    def stop(request: HttpRequest) -> HttpResponse:
        assert provider.credential_of(request)
        raise CredentialStopped("stopped", may_have_arrived=False)

    return drive(
        provider.poll(payment("payout", hint=hint), now=Moment.at(later(START, age))), stop
    )


def test_only_questions_of_an_api_operator_show_its_credential() -> None:
    prompt = next(
        adapter().poll(payment("payin", provider_reference="ws_CO_1"), now=Moment.at(START))
    )
    assert adapter().credential_of(prompt) == ""


def test_only_what_works_ends_the_stop_of_a_credential() -> None:
    refused = AccountFinding(
        "kenya", "initiator", AccountState.REFUSED, "2001", "It is wrong.", "digest"
    )
    nothing = evolve(refused, state=AccountState.UNKNOWN, code="", stopped_credential="")
    no_role = evolve(refused, code="21", stopped_credential="")
    works = evolve(refused, state=AccountState.WORKS, code="2032", stopped_credential="")
    assert nothing.after(refused) == refused
    assert no_role.after(refused) == evolve(no_role, stopped_credential="digest")
    assert works.after(refused) == works
    assert nothing.after(works) == nothing.after(None) == nothing
    assert refused.after(works) == refused

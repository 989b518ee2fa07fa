"""Wave's adapter: what it sends, what it makes of each answer of the documentation, and that what
is unknown stays unknown."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import mmo_provider_wave
import pytest
from mmo_provider_wave import WAVE
from mmo_provider_wave.checkout import ENDS_BEFORE_EXPIRY, SETTLES_WITHIN
from mmo_provider_wave.signatures import HEADER, sign
from tests.sansio.structure.test_exports import imports_beside_faces
from tests.support.answer_rows import Played, Row, read_rows
from wave_samples import (
    API_KEY,
    CREATED_AT,
    EXPIRES_AT,
    HOOKS_URL,
    LAUNCH_URL,
    MSISDN,
    NAME,
    PAYOUT,
    REFUSED_KEY,
    SESSION,
    SESSION_ID,
    WEBHOOK_SECRET,
    Answer,
    a_payment,
    a_payout,
    a_session,
    an_account,
    answering,
    ok,
    results,
)

from mmo_sansio import (
    MINUTE,
    SECOND,
    ErrorCode,
    Instant,
    Moment,
    Money,
    ProviderAccepted,
    ProviderFailed,
    ProviderSucceeded,
    ProviderUnreachable,
    Transaction,
    later,
)
from mmo_sansio.providers import (
    AdapterContext,
    ExchangeFailed,
    GatewaySettingError,
    HttpRequest,
    HttpResponse,
    OpenUrl,
    ProviderReport,
    SettingsError,
    Span,
    Stage,
    Type,
    drive,
    earlier,
)
from mmo_sansio.testing import (
    ADAPTER_CHECKS,
    REFERENCE,
    START,
    AdapterCase,
    AdapterCheck,
    TransparentCiphers,
)

NOW = Moment(time=START, utc=CREATED_AT)
"""The moment at which the documentation's session is created; our own time is apart from it."""
LOST = ExchangeFailed("The connection broke.", may_have_arrived=True)
UNSENT = ExchangeFailed("No connection.", may_have_arrived=False)
OPERATIONS: Mapping[str, tuple[Type, dict[str, Any]]] = {
    "session": (Type.PAYIN, {}),
    "payout": (Type.PAYOUT, {}),
    "known_session": (Type.PAYIN, {"provider_reference": SESSION_ID}),
    "known_payout": (Type.PAYOUT, {"provider_reference": "pt-185b5e4b8100c"}),
    "paid": (Type.PAYIN, {"provider_reference": "T1"}),
}


def of_row(operation: str, **members: Any) -> Transaction:
    type, usual = OPERATIONS[operation]
    return a_payment(type, **{**usual, **members})


def answer_of(row: Row, answer: Answer) -> Callable[[HttpRequest], HttpResponse]:
    """The answer to each request; what is found by a search is in its list."""
    paid = ok(results(a_session("complete", "succeeded", transaction_id="T1")))
    found = answer
    if row.stage == "search" and isinstance(answer, HttpResponse):
        found = ok(results(answer.body))
    if row.stage == "refund":
        found = paid
    return answering({"GET /search": found, "GET ": answer, "POST ": answer})


def webhook_of(row: Row, body: bytes) -> HttpRequest:
    event = b'{"id":"EV_1","type":"checkout.session.completed","data":%b}' % body
    header = (HEADER, sign(WEBHOOK_SECRET, event, now=CREATED_AT))
    return HttpRequest("POST", HOOKS_URL.encode(), (header,), event)


PLAYED = Played(
    NAME,
    an_account,
    of_row,
    exchange=answer_of,
    notify=webhook_of,
    payee=(MSISDN, "Fatou Ndiaye"),
    moment=lambda at: after(at - START),
    is_always_versioned=False,
)
ANSWERS = Path(__file__).with_name("answers.txt")
ABOUT_TO_EXPIRE = later(START, Span(90 * SECOND))
CASE = AdapterCase(
    WAVE,
    {
        "base_url": "https://wave.example",
        "api_key": API_KEY,
        "signing_secret": "wave_sn_AKS_SECRET",
        "webhook_secret": WEBHOOK_SECRET,
        "restrict_payer": True,
    },
    country="SN",
    currency="XOF",
    msisdn=MSISDN,
)


def after(span: int) -> Moment:
    """The moment this long after NOW."""
    return Moment(later(NOW.time, Span(span)), later(NOW.utc, Span(span)))


def submitted(
    answer: Answer, type: Type = Type.PAYIN, sent: list[HttpRequest] | None = None, **members: Any
) -> ProviderReport:
    """What the answer to a submission is taken for."""
    account = an_account(**members.pop("options", {}))
    answers = {"POST /v1/checkout/sessions": answer, "POST /v1/payout": answer}
    payment = a_payment(type, **members)
    return drive(account.submit(payment, now=NOW), answering(answers, sent))


def polled(
    answers: Mapping[str, Any],
    type: Type = Type.PAYIN,
    *,
    now: Moment = NOW,
    sent: list[HttpRequest] | None = None,
    **members: Any,
) -> ProviderReport:
    """What the answers to a poll are taken for."""
    payment = a_payment(type, **members)
    return drive(an_account().poll(payment, now=now), answering(answers, sent))


def about_session(body: bytes, **members: Any) -> ProviderReport:
    """What a session that Wave tells of is taken for."""
    answers = {"GET /cos-18qq25rgr100a": ok(body)}
    return polled(answers, provider_reference=SESSION_ID, **members)


@pytest.mark.parametrize("row", read_rows(ANSWERS))
def test_answers(row: Row) -> None:
    PLAYED.check(row)


@pytest.mark.parametrize("check", ADAPTER_CHECKS)
def test_the_adapter_keeps_the_promises_of_every_adapter(check: AdapterCheck) -> None:
    check(CASE)


@pytest.mark.parametrize(
    "module",
    sorted(Path(mmo_provider_wave.__file__).parent.glob("*.py")),
    ids=lambda path: path.name,
)
def test_the_package_uses_what_the_gateway_exports_and_nothing_else(module: Path) -> None:
    found = imports_beside_faces(module.read_text(encoding="utf-8"))
    assert [each for each in found if not each.startswith("mmo_provider_wave.")] == []


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "key"),
        [
            ({"api_key": "two words"}, "api_key"),
            ({"base_url": "http://wave.example"}, "base_url"),
            ({"restrict_payer": "maybe"}, "restrict_payer"),
        ],
    )
    def test_what_can_not_be_used_is_named(self, options: dict[str, Any], key: str) -> None:
        with pytest.raises(SettingsError) as error:
            an_account(**options)
        assert error.value.location == key

    def test_payment_pages_without_https_are_refused_as_wave_refuses_them(self) -> None:
        for base_url, is_refused in (("https://api.wave.com", True), ("http://127.0.0.1:1", False)):
            options = {"api_key": "key", "base_url": base_url}
            context = AdapterContext(
                HOOKS_URL, TransparentCiphers(), pages_url="http://pay.example"
            )
            with pytest.raises(GatewaySettingError) if is_refused else nullcontext() as refusal:
                WAVE.open_adapter("wave", "Wave", options, context)
            assert refusal is None or refusal.value.location == "gateway.hpp_url"

    def test_payers_are_sent_to_wave_or_to_a_simulator_on_this_machine(self) -> None:
        assert tuple(an_account().payer_hosts) == ("pay.wave.com",)
        local = an_account(base_url="http://127.0.0.1:8090")
        assert tuple(local.payer_hosts) == ("127.0.0.1",)
        assert WAVE.confirms_elsewhere({})


class TestSessions:
    def test_a_session_is_asked_for_with_our_reference_and_returns(self) -> None:
        sent: list[HttpRequest] = []
        report = submitted(ok(SESSION), sent=sent)
        (request,) = sent
        body = json.loads(request.body)
        back = body.pop("success_url")
        assert body.pop("error_url") == back
        assert back.startswith(f"https://pay.example/pay/{REFERENCE}.")
        assert b"token-of-the-page" not in request.body
        assert body == {
            "amount": "1000",
            "currency": "XOF",
            "client_reference": REFERENCE,
            "restrict_payer_mobile": MSISDN,
        }
        assert request.target == b"https://api.wave.com/v1/checkout/sessions"
        assert request.value(b"authorization") == b"Bearer " + API_KEY.encode()
        assert request.value(HEADER) is None
        page = OpenUrl(LAUNCH_URL, later(START, Span(30 * MINUTE)))
        assert isinstance(report, ProviderAccepted)
        assert (report.provider_reference, report.payer_action) == (SESSION_ID, page)

    def test_anybody_may_pay_where_the_account_says_so(self) -> None:
        sent: list[HttpRequest] = []
        submitted(ok(SESSION), sent=sent, options={"restrict_payer": False})
        submitted(ok(SESSION), sent=sent, msisdn="")
        assert all("restrict_payer_mobile" not in json.loads(each.body) for each in sent)

    def test_requests_are_signed_where_the_account_has_a_secret(self) -> None:
        sent: list[HttpRequest] = []
        submitted(ok(SESSION), sent=sent, options={"signing_secret": "S"})
        assert (sent[0].value(HEADER) or b"").startswith(b"t=1768471984,v1=")

    @pytest.mark.parametrize(
        ("amount", "text"),
        [(Money(1000, "XOF"), "1000"), (Money(1250, "GMD"), "12.50"), (Money(1200, "GMD"), "12")],
    )
    def test_an_amount_is_text_without_needless_decimals(self, amount: Money, text: str) -> None:
        sent: list[HttpRequest] = []
        submitted(LOST, sent=sent, amount=amount)
        assert json.loads(sent[0].body)["amount"] == text

    def test_the_page_ends_before_the_payment_expires(self) -> None:
        expires_at = later(START, Span(10 * MINUTE))
        report = submitted(ok(SESSION), expires_at=expires_at)
        assert isinstance(report, ProviderAccepted)
        assert isinstance(report.payer_action, OpenUrl)
        assert report.payer_action.ends_at == earlier(expires_at, ENDS_BEFORE_EXPIRY)

    @pytest.mark.spec("S6")
    def test_a_session_that_may_exist_is_searched_before_another_is_made(self) -> None:
        sent: list[HttpRequest] = []
        answers = {"GET /search": ok(results(SESSION))}
        payment = a_payment(submissions=2)
        report = drive(an_account().submit(payment, now=NOW), answering(answers, sent))
        assert isinstance(report, ProviderAccepted)
        assert report.provider_reference == SESSION_ID
        assert [each.method for each in sent] == ["GET"]

    @pytest.mark.spec("S6")
    def test_another_is_made_once_there_is_none(self) -> None:
        answers = {"GET /search": ok(results()), "POST /sessions": ok(SESSION)}
        payment = a_payment(submissions=2)
        report = drive(an_account().submit(payment, now=NOW), answering(answers))
        assert isinstance(report, ProviderAccepted)

    @pytest.mark.spec("S6")
    @pytest.mark.parametrize(
        ("older", "report"),
        [
            (a_session("complete", id="cos-older"), ProviderAccepted),
            (
                a_session("complete", "cancelled", id="cos-older", transaction_id="T_1"),
                ProviderUnreachable,
            ),
        ],
    )
    def test_a_failed_session_says_nothing_beside_one_that_may_be_paid(
        self, older: bytes, report: type
    ) -> None:
        newer = a_session("complete", "cancelled", when_created="2026-01-15T10:20:00Z")
        answers = {"GET /search": ok(results(older, newer))}
        assert isinstance(polled(answers), report)

    def test_of_several_sessions_one_counts_and_the_others_are_ended(self) -> None:
        sent: list[HttpRequest] = []
        older = a_session(id="cos-older", when_created="2026-01-15T10:12:00Z")
        answers = {"GET /search": ok(results(older, SESSION)), "POST /expire": ok(b"")}
        report = polled(answers, sent=sent)
        assert isinstance(report, ProviderAccepted)
        assert report.provider_reference == SESSION_ID
        assert [each.target.rpartition(b"sessions/")[2] for each in sent][1:] == [
            b"cos-older/expire"
        ]

    def test_a_paid_session_counts_before_a_newer_one(self) -> None:
        paid = a_session("complete", "succeeded", id="cos-older", transaction_id="T1")
        answers = {"GET /search": ok(results(paid, SESSION)), "POST /expire": LOST}
        report = polled(answers)
        assert isinstance(report, ProviderSucceeded)
        assert report.provider_reference == "T1"


class TestSubmissions:
    @pytest.mark.parametrize(
        "path",
        ["/v1/checkout/sessions", "/v1/payout", f"/v1/checkout/sessions/{SESSION_ID}/refund"],
    )
    def test_what_is_taken_ends_the_refusal(self, path: str) -> None:
        request = HttpRequest("POST", f"https://api.wave.com{path}".encode())
        refused = an_account().judge_answer(request, HttpResponse(401, (), REFUSED_KEY))
        taken = an_account().judge_answer(request, ok(b""))
        assert refused is not None
        assert taken is not None
        assert (taken.part, taken.state, taken.held) == (refused.part, "works", ())
        assert taken.holds_reversals is False

    def test_a_session_that_is_ended_says_nothing_of_the_account(self) -> None:
        request = HttpRequest("POST", b"https://api.wave.com/v1/checkout/sessions/cos-1/expire")
        assert an_account().judge_answer(request, HttpResponse(401, (), REFUSED_KEY)) is None


class TestSessionsOfPolls:
    @pytest.mark.spec("S5")
    def test_money_counts_whatever_the_session_is_called(self) -> None:
        report = about_session(a_session("open", "succeeded"))
        assert isinstance(report, ProviderSucceeded)
        assert report.lacks_receipt

    @pytest.mark.spec("S5")
    def test_an_attempt_under_way_at_the_end_is_waited_for(self) -> None:
        session = a_session("expired", "processing", when_completed="2026-01-15T10:43:04Z")
        ended = elapsed_since_creation()
        soon, late = after(ended), after(ended + SETTLES_WITHIN)
        assert isinstance(about_session(session, now=soon), ProviderAccepted)
        assert isinstance(about_session(session, now=late), ProviderFailed)

    def test_a_known_page_is_not_told_again(self) -> None:
        report = about_session(SESSION, payer_action=OpenUrl(LAUNCH_URL))
        assert isinstance(report, ProviderAccepted)
        assert report.payer_action is None


def elapsed_since_creation() -> int:
    """How long after its creation the documentation's session ends."""
    return EXPIRES_AT - CREATED_AT


class TestEnds:
    """The payment is about to expire, or has ended, while its session is open."""

    def answers(self, ended: Answer, expire: Answer | None = None) -> Mapping[str, Any]:
        known = f"GET /{SESSION_ID}"
        return {known: [ok(SESSION), ended], "POST /expire": expire or ok(b"")}

    @pytest.mark.spec("S3")
    @pytest.mark.parametrize("expire", [None, LOST, HttpResponse(409)])
    def test_the_session_is_ended_first(self, expire: Answer | None) -> None:
        sent: list[HttpRequest] = []
        answers = self.answers(ok(a_session("expired", "cancelled")), expire)
        report = polled(
            answers, sent=sent, provider_reference=SESSION_ID, expires_at=ABOUT_TO_EXPIRE
        )
        assert isinstance(report, ProviderFailed)
        assert [each.method for each in sent] == ["GET", "POST", "GET"]

    @pytest.mark.spec("S3", "S5")
    def test_one_that_was_paid_meanwhile_is_paid(self) -> None:
        paid = ok(a_session("complete", "succeeded", transaction_id="T1"))
        answers = self.answers(paid, HttpResponse(409))
        report = polled(answers, provider_reference=SESSION_ID, expires_at=ABOUT_TO_EXPIRE)
        assert isinstance(report, ProviderSucceeded)

    @pytest.mark.parametrize("again", [ok(SESSION), LOST, HttpResponse(500)])
    def test_one_that_could_not_be_ended_is_unknown(self, again: Answer) -> None:
        answers = self.answers(again)
        report = polled(answers, provider_reference=SESSION_ID, expires_at=ABOUT_TO_EXPIRE)
        assert isinstance(report, ProviderUnreachable)

    @pytest.mark.spec("S3")
    def test_a_payment_that_has_ended_leaves_no_session_open(self) -> None:
        sent: list[HttpRequest] = []
        polled(
            self.answers(ok(a_session("expired", "cancelled"))),
            sent=sent,
            provider_reference=SESSION_ID,
            stage=Stage.FAILED,
            error_code=ErrorCode.TRANSACTION_EXPIRED,
        )
        assert [each.method for each in sent] == ["GET", "POST", "GET"]

    def test_before_that_nothing_is_ended(self) -> None:
        sent: list[HttpRequest] = []
        late = later(START, Span(ENDS_BEFORE_EXPIRY + SECOND))
        polled(self.answers(LOST), sent=sent, provider_reference=SESSION_ID, expires_at=late)
        assert [each.method for each in sent] == ["GET"]

    def test_polls_are_frequent_enough_for_that(self) -> None:
        operation = an_account().operations[Type.PAYIN, a_payment().order.flow]
        asked_at = Instant(0)
        for polls in range(100):
            interval = operation.poll_interval(polls)
            if asked_at < 30 * MINUTE:
                assert interval < ENDS_BEFORE_EXPIRY
            asked_at = later(asked_at, interval)


class TestPayouts:
    @pytest.mark.spec("S6")
    def test_a_pay_out_has_the_same_key_and_body_each_time(self) -> None:
        sent: list[HttpRequest] = []
        submitted(LOST, Type.PAYOUT, sent)
        submitted(LOST, Type.PAYOUT, sent, submissions=2)
        first, second = sent
        assert first == second
        assert first.target == b"https://api.wave.com/v1/payout"
        assert first.value(b"idempotency-key") == REFERENCE.encode()
        assert json.loads(first.body) == {
            "currency": "XOF",
            "receive_amount": "1000",
            "mobile": MSISDN,
            "client_reference": REFERENCE,
        }

    @pytest.mark.parametrize("msisdn", [MSISDN, MSISDN.removeprefix("+")])
    def test_a_number_goes_out_with_its_plus(self, msisdn: str) -> None:
        sent: list[HttpRequest] = []
        submitted(LOST, Type.PAYOUT, sent, msisdn=msisdn)
        submitted(LOST, Type.PAYIN, sent, msisdn=msisdn)
        pay_out, session = (json.loads(request.body) for request in sent)
        assert (pay_out["mobile"], session["restrict_payer_mobile"]) == (MSISDN, MSISDN)

    def test_a_pay_out_is_told_when_it_is_asked_after(self) -> None:
        report = submitted(ok(PAYOUT), Type.PAYOUT)
        assert isinstance(report, ProviderAccepted)
        assert report.is_told_when_asked, "Wave sends no webhooks about pay-outs"

    @pytest.mark.spec("S6")
    @pytest.mark.parametrize("is_first", [True, False])
    @pytest.mark.parametrize(
        ("status", "report"),
        [
            ("processing", ProviderAccepted),
            ("reversed", ProviderUnreachable),
            ("a-new-status", ProviderUnreachable),
        ],
    )
    def test_a_failed_one_says_nothing_beside_another_that_may_be_paid(
        self, is_first: bool, status: str, report: type
    ) -> None:
        both = (a_payout("failed"), a_payout(status, id="pt-2"))
        found = {"GET /payouts/search": ok(results(*(both if is_first else both[::-1])))}
        assert isinstance(polled(found, Type.PAYOUT), report)


class TestAccount:
    def test_a_balance_is_as_of_now(self) -> None:
        answers = {"GET /v1/balance": ok(b'{"amount": "10245", "currency": "XOF"}')}
        (balance,) = drive(an_account().ask_balances(now=NOW), answering(answers)).balances
        assert (balance.amount, balance.at) == (Money(10245, "XOF"), START)

"""pawaPay's adapter: what it sends, what it makes of each answer of the documentation, and that
what is unknown stays unknown."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mmo_provider_pawapay
import pytest
from attrs import evolve
from mmo_provider_pawapay import PAWAPAY
from mmo_provider_pawapay.adapter import NOT_FOUND_IS_FINAL_AFTER
from mmo_provider_pawapay.codes import ACCOUNT_REFUSALS, FAILURES, INCONCLUSIVE, find_failure
from mmo_provider_pawapay.wire import PENDING_STATUSES, gateway_reference, operation_id
from pawapay_samples import (
    ACCEPTED,
    ACTIVE_CONFIGURATION,
    AUTHENTICATION_ERROR,
    AVAILABILITY,
    DEPOSIT_COMPLETED,
    DEPOSIT_FAILED,
    DEPOSIT_REQUEST,
    DUPLICATE_IGNORED,
    EC_PRIVATE_PEM,
    FAILURE_CODES,
    FOUND_ID,
    INITIATED_ID,
    INVALID_INPUT,
    NAME,
    NOT_FOUND,
    PAYOUT_COMPLETED,
    PAYOUT_REQUEST,
    REJECTED,
    TOKEN,
    UNKNOWN_ERROR,
    a_payment,
    an_account,
    answering,
    public_pem,
)
from pawapay_samples import EC_KEY as KEY
from tests.sansio.structure.test_exports import imports_beside_faces

from mmo_sansio import (
    MINUTE,
    ErrorCode,
    Instant,
    Money,
    ProviderAccepted,
    ProviderFailed,
    ProviderSucceeded,
    ProviderUnreachable,
    Source,
    later,
)
from mmo_sansio.providers import (
    AccountFinding,
    BalanceReport,
    ExchangeFailed,
    HttpRequest,
    HttpResponse,
    OptionError,
    ProviderNeverReceived,
    ProviderReport,
    ReportsAvailability,
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
    numbered_reference,
)
from mmo_sansio.testing.adapter_conformance import check_options, check_secrets
from mmo_sansio.values.clock import Moment


def reference_of(id: str) -> str:
    """The gatewayReference whose payment has this id at pawaPay."""
    found = gateway_reference(id)
    assert found is not None
    return found


def submitted(
    answer: HttpResponse | Exception, type: Type = Type.PAYIN, **members: Any
) -> ProviderReport:
    """What the answer to the submission of the documentation's payment is taken for."""
    payment = a_payment(reference_of(INITIATED_ID), type, **members)
    return drive(an_account().submit(payment, now=Moment.at(START)), answering(answer, []))


def polled(
    body: bytes, type: Type = Type.PAYIN, *, status: int = 200, now: Instant = START, **members: Any
) -> ProviderReport:
    """What the answer to a poll about the documentation's payment is taken for."""
    payment = a_payment(reference_of(FOUND_ID), type, **members)
    return drive(
        an_account().poll(payment, now=Moment.at(now)),
        answering(HttpResponse(status, (), body), []),
    )


@pytest.mark.parametrize(
    ("written", "instead"),
    [(FOUND_ID.encode(), b"another"), (b'"amount"', b'"amount": ["x"], "was"')],
    ids=["about another payment", "amount that can't be read"],
)
def test_a_completed_payment_of_which_something_cannot_be_used_is_evidence(
    written: bytes, instead: bytes
) -> None:
    assert written in DEPOSIT_COMPLETED
    report = polled(DEPOSIT_COMPLETED.replace(written, instead))
    assert isinstance(report, ProviderUnreachable)
    assert report.evidence is not None
    assert report.evidence.code == "COMPLETED"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("The PIN you have entered is incorrect.", ErrorCode.USER_WRONG_PIN),
        ("Customer entered a wrong PIN", ErrorCode.USER_WRONG_PIN),
        ("Customer did not enter the PIN in time.", ErrorCode.USER_TIMEOUT),
        ("Wrong shopping basket", ErrorCode.USER_TIMEOUT),
    ],
)
def test_a_payment_that_was_not_approved_tells_a_wrong_pin_from_no_answer(
    message: str, reason: ErrorCode
) -> None:
    failure = find_failure("PAYMENT_NOT_APPROVED", message)
    assert failure.error_code(Type.PAYIN) is reason


HELD_WHERE_NOT_PERMITTED: dict[bytes, set[Type]] = {
    b"https://api.pawapay.io/v2/deposits": {Type.PAYIN},
    b"https://api.pawapay.io/v2/payouts": {Type.PAYOUT},
    b"https://api.pawapay.io/v2/refunds": set(),
}
"""What a submission to this address holds back that the API token does not permit."""

CASE = AdapterCase(
    PAWAPAY,
    {
        "market": "MTN_MOMO_ZMB",
        "base_url": "https://api.sandbox.pawapay.io",
        "api_token": TOKEN,
        "signing_key": EC_PRIVATE_PEM,
        "signing_key_id": "OURS:1",
        "callback_keys": public_pem(KEY),
        "callbacks_of": "AIRTEL_OAPI_ZMB=airtel_zm",
        "customer_message": "Thank you",
    },
    country="ZM",
    currency="ZMW",
    msisdn="+260763456789",
)


@pytest.mark.parametrize("check", ADAPTER_CHECKS)
def test_the_adapter_keeps_the_promises_of_every_adapter(check: AdapterCheck) -> None:
    check(CASE)


@pytest.mark.parametrize(
    "check", [each for each in ADAPTER_CHECKS if each not in (check_options, check_secrets)]
)
def test_it_keeps_them_without_keys(check: AdapterCheck) -> None:
    check(evolve(CASE, options={key: CASE.options[key] for key in ("market", "api_token")}))


@pytest.mark.parametrize(
    "module",
    sorted(Path(mmo_provider_pawapay.__file__).parent.glob("*.py")),
    ids=lambda path: path.name,
)
def test_the_package_uses_what_the_gateway_exports_and_nothing_else(module: Path) -> None:
    found = imports_beside_faces(module.read_text(encoding="utf-8"))
    assert [each for each in found if not each.startswith("mmo_provider_pawapay.")] == []


class TestIds:
    def test_the_id_is_a_uuid_of_version_4_and_the_reference_in_another_form(self) -> None:
        for reference in (
            REFERENCE,
            "00000000000000000000000000",
            "01ZZZZZZZZZZZZZZZZZZZZZZZZ",
            numbered_reference(7),
        ):
            found = uuid.UUID(operation_id(reference))
            assert (found.version, found.variant) == (4, uuid.RFC_4122)
            assert str(found) == operation_id(reference)
            assert gateway_reference(str(found)) == reference

    def test_every_id_of_version_4_is_one_reference(self) -> None:
        for _ in range(200):
            id = str(uuid.uuid4())
            assert operation_id(reference_of(id)) == id

    @pytest.mark.parametrize(
        "text",
        ["", "no-uuid", FOUND_ID.upper(), f"{FOUND_ID}\n", "c232ab00-9414-11ec-b3c8-9f68deced846"],
    )
    def test_another_text_is_no_reference(self, text: str) -> None:
        assert gateway_reference(text) is None

    @pytest.mark.parametrize(
        "reference", ["", "order-1", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01K5TESTTESTTESTTESTTESTIL"]
    )
    def test_what_is_no_reference_has_no_id(self, reference: str) -> None:
        with pytest.raises(ValueError, match=r"ULID|year"):
            operation_id(reference)


class TestSubmissions:
    @pytest.mark.parametrize(
        ("type", "documented", "path"),
        [(Type.PAYIN, DEPOSIT_REQUEST, "deposits"), (Type.PAYOUT, PAYOUT_REQUEST, "payouts")],
    )
    def test_a_submission_is_the_documentations_with_our_reference(
        self, type: Type, documented: str, path: str
    ) -> None:
        example = json.loads(documented)
        reference = reference_of(example.get("depositId") or example["payoutId"])
        sent: list[HttpRequest] = []
        payment = a_payment(reference, type, Money(100, "RWF"), msisdn="+250783456789")
        account = an_account(market="MTN_MOMO_RWA", base_url="https://api.sandbox.pawapay.io")
        drive(account.submit(payment, now=Moment.at(START)), answering(HttpResponse(500), sent))
        (request,) = sent
        assert json.loads(request.body) == {**example, "clientReferenceId": reference}
        assert request.target == f"https://api.sandbox.pawapay.io/v2/{path}".encode()
        assert request.method == "POST"
        assert request.value(b"authorization") == b"Bearer " + TOKEN.encode()
        assert request.value(b"content-type") == b"application/json"

    @pytest.mark.parametrize(
        ("minor", "text"),
        [(1500, "15"), (1550, "15.5"), (1555, "15.55"), (10, "0.1"), (100_000, "1000")],
    )
    def test_an_amount_has_no_zeros_at_its_end(self, minor: int, text: str) -> None:
        sent: list[HttpRequest] = []
        payment = a_payment(REFERENCE, amount=Money(minor, "ZMW"))
        drive(
            an_account().submit(payment, now=Moment.at(START)), answering(HttpResponse(500), sent)
        )
        assert json.loads(sent[0].body)["amount"] == text

    def test_a_message_for_the_customer_is_sent_where_one_is_set(self) -> None:
        sent: list[HttpRequest] = []
        account = an_account(customer_message="Note of 4 to 22 chars")
        drive(
            account.submit(a_payment(REFERENCE), now=Moment.at(START)),
            answering(HttpResponse(500), sent),
        )
        assert json.loads(sent[0].body)["customerMessage"] == "Note of 4 to 22 chars"

    @pytest.mark.parametrize("body", [ACCEPTED, DUPLICATE_IGNORED])
    def test_accepted_and_duplicate_are_asked_after(self, body: bytes) -> None:
        assert submitted(HttpResponse(200, (), body)) == ProviderAccepted(
            reference_of(INITIATED_ID), NAME, Source.POLL, version=2
        )

    def test_a_rejection_fails_with_pawapays_words(self) -> None:
        report = submitted(HttpResponse(200, (), REJECTED))
        assert isinstance(report, ProviderFailed)
        assert (report.error_code, report.native_code) == (
            ErrorCode.USER_NOT_FOUND,
            "INVALID_PHONE_NUMBER",
        )
        assert report.native_message == (
            "The phone number '2607634' seems to be invalid for the provider 'MTN_MOMO_ZMB'."
        )

    @pytest.mark.parametrize(
        ("status", "body"),
        [(400, INVALID_INPUT), (403, INVALID_INPUT)],
    )
    def test_a_fault_of_ours_fails_as_misconfigured(self, status: int, body: bytes) -> None:
        report = submitted(HttpResponse(status, (), body))
        assert isinstance(report, ProviderFailed)
        assert report.error_code is ErrorCode.MERCHANT_MISCONFIGURED

    @pytest.mark.spec("S6")
    @pytest.mark.parametrize("code", sorted(ACCOUNT_REFUSALS))
    @pytest.mark.parametrize("status", [200, 401, 403])
    def test_a_refusal_of_our_account_says_nothing_of_the_payment(
        self, code: str, status: int
    ) -> None:
        """It is sent once the account is in order: those of its kind wait, and staff are told."""
        body = AUTHENTICATION_ERROR.replace(b"AUTHENTICATION_ERROR", code.encode())
        for type in (Type.PAYIN, Type.PAYOUT):
            refused = HttpResponse(status, (), body)
            assert isinstance(submitted(refused, type), ProviderNeverReceived)
        for path, held in HELD_WHERE_NOT_PERMITTED.items():
            finding = an_account().judge_answer(HttpRequest("POST", path), refused)
            assert finding is not None
            assert finding.part.endswith("_submissions")
            assert (finding.state, finding.code) == ("refused", code)
            is_of_operation = code == "AUTHORISATION_ERROR"
            assert set(finding.held) == (held if is_of_operation else {Type.PAYIN, Type.PAYOUT})
            assert finding.holds_reversals is (not is_of_operation or path.endswith(b"/refunds"))

    @pytest.mark.spec("S6")
    @pytest.mark.parametrize("status", [401, 403])
    @pytest.mark.parametrize("body", [b"", b"<html>", b'{"message":"Forbidden"}'])
    def test_a_firewall_in_front_of_pawapay_holds_back_all_and_fails_none(
        self, body: bytes, status: int
    ) -> None:
        turned_away = HttpResponse(status, (), body)
        for type in (Type.PAYIN, Type.PAYOUT):
            assert isinstance(submitted(turned_away, type), ProviderNeverReceived)
        for path in HELD_WHERE_NOT_PERMITTED:
            finding = an_account().judge_answer(HttpRequest("POST", path), turned_away)
            assert finding is not None
            assert (finding.state, finding.code) == ("refused", f"HTTP {status}")
            assert (set(finding.held), finding.holds_reversals) == ({Type.PAYIN, Type.PAYOUT}, True)

    @pytest.mark.parametrize("body", [ACCEPTED, REJECTED, DUPLICATE_IGNORED])
    def test_what_is_taken_ends_the_refusal(self, body: bytes) -> None:
        for path in HELD_WHERE_NOT_PERMITTED:
            refusal = HttpResponse(401, (), AUTHENTICATION_ERROR)
            refused = an_account().judge_answer(HttpRequest("POST", path), refusal)
            taken = HttpResponse(200, (), body)
            finding = an_account().judge_answer(HttpRequest("POST", path), taken)
            assert finding is not None
            assert refused is not None
            assert (finding.part, finding.state, finding.held) == (refused.part, "works", ())

    @pytest.mark.parametrize(
        "answer",
        [
            HttpResponse(500, (), UNKNOWN_ERROR),
            HttpResponse(400, (), INVALID_INPUT),
            HttpResponse(403, (), INVALID_INPUT),
            HttpResponse(404, (), b"<html>"),
        ],
    )
    def test_other_faults_say_nothing_of_the_account(self, answer: HttpResponse) -> None:
        for path in (*HELD_WHERE_NOT_PERMITTED, b"https://api.pawapay.io/other"):
            assert an_account().judge_answer(HttpRequest("POST", path), answer) is None

    @pytest.mark.parametrize(
        "answer",
        [
            HttpResponse(500, (), UNKNOWN_ERROR),
            HttpResponse(200, (), UNKNOWN_ERROR),
            HttpResponse(400, (), UNKNOWN_ERROR),
            HttpResponse(500, (), REJECTED),
            HttpResponse(200, (), ACCEPTED.replace(b"ACCEPTED", b"SOMETHING_NEW")),
            HttpResponse(200, (), ACCEPTED.replace(b"f4401bd2", b"f4401bd3")),
            HttpResponse(200, (), REJECTED.replace(b"f4401bd2", b"f4401bd3")),
            HttpResponse(200, (), b'{"failureReason":{"failureCode":"INVALID_INPUT"}}'),
            HttpResponse(200, (), b'{"status":"ACCEPTED"}'),
            HttpResponse(404, (), b'{"status":"REJECTED"}'),
            HttpResponse(404, (), b"<html>"),
            HttpResponse(408),
            HttpResponse(302),
            ExchangeFailed("The connection broke.", may_have_arrived=True),
        ],
    )
    def test_what_is_not_clear_is_asked_after(self, answer: HttpResponse | Exception) -> None:
        assert isinstance(submitted(answer), ProviderUnreachable)

    @pytest.mark.parametrize(
        "answer", [HttpResponse(429), ExchangeFailed("No connection.", may_have_arrived=False)]
    )
    def test_what_certainly_did_not_arrive_is_sent_again(
        self, answer: HttpResponse | Exception
    ) -> None:
        assert isinstance(submitted(answer), ProviderNeverReceived)

    @pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT])
    @pytest.mark.parametrize("code", [*FAILURE_CODES, "A_NEW_CODE"])
    def test_each_failure_code_of_a_rejection_has_a_meaning(self, code: str, type: Type) -> None:
        body = REJECTED.replace(b"INVALID_PHONE_NUMBER", code.encode())
        if type is Type.PAYOUT:
            body = body.replace(b"depositId", b"payoutId")
        report = submitted(HttpResponse(200, (), body), type)
        if code in INCONCLUSIVE:
            assert isinstance(report, ProviderUnreachable)
        elif code in ACCOUNT_REFUSALS:
            assert isinstance(report, ProviderNeverReceived)
        else:
            assert isinstance(report, ProviderFailed)
            assert report.native_code == code
            known = FAILURES.get(code)
            assert report.error_code == (
                known.error_code(type) if known else ErrorCode.TRANSACTION_DECLINED
            )

    def test_a_new_code_for_a_resubmission_is_asked_after(self) -> None:
        body = REJECTED.replace(b"INVALID_PHONE_NUMBER", b"A_NEW_CODE")
        assert isinstance(
            submitted(HttpResponse(200, (), body), submissions=2), ProviderUnreachable
        )


class TestCodes:
    def test_every_documented_code_is_in_the_table_with_a_reason(self) -> None:
        assert set(FAILURE_CODES) == set(FAILURES)
        for code, failure in FAILURES.items():
            assert failure.reason.endswith("."), code
            assert ErrorCode.TRANSACTION_EXPIRED not in (failure.payin, failure.payout), code

    def test_the_meanings_that_lead_to_different_steps(self) -> None:
        meanings = {code: (each.payin, each.payout) for code, each in FAILURES.items()}
        assert meanings["INSUFFICIENT_BALANCE"][0] is ErrorCode.USER_INSUFFICIENT_FUNDS
        assert meanings["PAWAPAY_WALLET_OUT_OF_FUNDS"][1] is ErrorCode.MERCHANT_INSUFFICIENT_FUNDS
        assert meanings["PAYMENT_NOT_APPROVED"][0] is ErrorCode.USER_TIMEOUT
        assert meanings["PAYMENT_IN_PROGRESS"][0] is ErrorCode.USER_BUSY
        assert meanings["RECIPIENT_NOT_FOUND"][1] is ErrorCode.USER_NOT_FOUND
        assert meanings["WALLET_LIMIT_REACHED"][1] is ErrorCode.USER_LIMIT_EXCEEDED
        assert meanings["PROVIDER_TEMPORARILY_UNAVAILABLE"][0] is ErrorCode.PROVIDER_UNAVAILABLE
        assert meanings["INVALID_AMOUNT"][0] is ErrorCode.AMOUNT_OUT_OF_RANGE
        assert meanings["AUTHENTICATION_ERROR"][0] is ErrorCode.MERCHANT_MISCONFIGURED


class TestPolls:
    @pytest.mark.parametrize(("type", "path"), [(Type.PAYIN, "deposits"), (Type.PAYOUT, "payouts")])
    def test_a_poll_asks_after_the_id(self, type: Type, path: str) -> None:
        sent: list[HttpRequest] = []
        payment = a_payment(reference_of(FOUND_ID), type)
        drive(
            an_account().poll(payment, now=Moment.at(START)),
            answering(HttpResponse(200, (), NOT_FOUND), sent),
        )
        (request,) = sent
        assert (request.method, request.target) == (
            "GET",
            f"https://api.pawapay.io/v2/{path}/{FOUND_ID}".encode(),
        )
        assert request.value(b"authorization") == b"Bearer " + TOKEN.encode()

    @pytest.mark.parametrize(
        ("body", "type"), [(DEPOSIT_COMPLETED, Type.PAYIN), (PAYOUT_COMPLETED, Type.PAYOUT)]
    )
    def test_a_completed_payment_succeeds_with_its_receipt(self, body: bytes, type: Type) -> None:
        assert polled(body, type) == ProviderSucceeded(
            reference_of(FOUND_ID), NAME, Source.POLL, "12356789", final=Money(12_300, "ZMW")
        )

    def test_a_failed_payment_fails_with_pawapays_words(self) -> None:
        assert polled(DEPOSIT_FAILED) == ProviderFailed(
            reference_of(FOUND_ID),
            NAME,
            Source.POLL,
            ErrorCode.USER_TIMEOUT,
            native_code="PAYMENT_NOT_APPROVED",
            native_message="The customer did not approve the authorisation for this payment",
        )

    @pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT])
    @pytest.mark.parametrize("code", [*FAILURE_CODES, "A_NEW_CODE"])
    def test_a_failed_payment_is_final_whatever_its_code(self, code: str, type: Type) -> None:
        body = DEPOSIT_FAILED.replace(b"PAYMENT_NOT_APPROVED", code.encode())
        if type is Type.PAYOUT:
            body = body.replace(b"depositId", b"payoutId")
        report = polled(body, type)
        assert isinstance(report, ProviderFailed)
        assert report.native_code == code

    def test_a_failure_without_a_reason_is_declined(self) -> None:
        body = (
            b'{"status":"FOUND","data":{"depositId":"%s","status":"FAILED","failureReason":null}}'
        )
        report = polled(body % FOUND_ID.encode())
        assert isinstance(report, ProviderFailed)
        assert (report.error_code, report.native_code) == (ErrorCode.TRANSACTION_DECLINED, None)

    @pytest.mark.parametrize("status", sorted(PENDING_STATUSES))
    def test_a_pending_payment_is_asked_after_again(self, status: str) -> None:
        body = DEPOSIT_COMPLETED.replace(b"COMPLETED", status.encode())
        assert polled(body) == ProviderAccepted(
            reference_of(FOUND_ID), NAME, Source.POLL, version=2
        )

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (500, UNKNOWN_ERROR),
            (401, AUTHENTICATION_ERROR),
            (404, NOT_FOUND),
            (200, DEPOSIT_COMPLETED.replace(b"COMPLETED", b"SOMETHING_NEW")),
            (200, DEPOSIT_COMPLETED.replace(b"FOUND", b"SOMETHING_NEW")),
            (200, DEPOSIT_COMPLETED.replace(b"8917c345", b"8917c346")),
            (200, DEPOSIT_COMPLETED.replace(b"depositId", b"payoutId")),
            (200, DEPOSIT_COMPLETED.replace(b'"123.00"', b'"-123.00"')),
            (200, DEPOSIT_COMPLETED.replace(b'"ZMW"', b'"XYZ"')),
            (200, b'{"status":"FOUND"}'),
            (200, b'{"status":"FOUND","data":[]}'),
            (200, b"[]"),
        ],
    )
    def test_what_is_not_clear_stays_unknown(self, status: int, body: bytes) -> None:
        assert isinstance(polled(body, status=status), ProviderUnreachable)

    def test_not_found_is_final_after_a_quarter_of_an_hour(self) -> None:
        end = later(START, NOT_FOUND_IS_FINAL_AFTER)
        assert isinstance(polled(NOT_FOUND, now=earlier(end, MINUTE)), ProviderUnreachable)
        assert isinstance(polled(NOT_FOUND, now=end), ProviderNeverReceived)

    def test_what_was_accepted_is_never_sent_again(self) -> None:
        end = later(START, NOT_FOUND_IS_FINAL_AFTER)
        report = polled(NOT_FOUND, now=end, stage=Stage.AWAITING_RESULT)
        assert isinstance(report, ProviderUnreachable)


class TestAmountsOfTheMarket:
    def submit(
        self, amount: Money, configuration: HttpResponse, type: Type = Type.PAYIN
    ) -> tuple[Any, int]:
        account, posts = an_account(market="MTN_MOMO_BEN"), []

        def exchange(request: HttpRequest) -> HttpResponse:
            if request.method == "GET":
                assert request.target == b"https://api.pawapay.io/v2/active-conf?country=BEN"
                return configuration
            posts.append(request)
            return HttpResponse(500)

        return drive(
            account.submit(a_payment(REFERENCE, type, amount), now=Moment.at(START)), exchange
        ), len(posts)

    @pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT])
    @pytest.mark.parametrize(("minor", "is_sent"), [(1, True), (1000, True), (1001, False)])
    def test_an_amount_beyond_the_limits_is_not_sent(
        self, minor: int, is_sent: bool, type: Type
    ) -> None:
        report, posts = self.submit(
            Money(minor, "XOF"), HttpResponse(200, (), ACTIVE_CONFIGURATION), type
        )
        assert posts == is_sent
        if not is_sent:
            assert report.error_code is ErrorCode.AMOUNT_OUT_OF_RANGE
            assert report.native_message == "The market takes 1000 XOF or less."

    @pytest.mark.parametrize(
        "configuration",
        [
            # The form of the schema, and of the API itself.
            b'{"countries":[{"providers":[{"provider":"MTN_MOMO_BEN","currencies":[{"currency":"USD","operationTypes":'
            b'{"DEPOSIT":{"minAmount":"2","maxAmount":"9","decimalsInAmount":"NONE"}}}]}]}]}',
            ACTIVE_CONFIGURATION.replace(b"XOF", b"USD").replace(b'"1"', b'"2"'),
        ],
    )
    def test_decimals_and_minimum(self, configuration: bytes) -> None:
        answer = HttpResponse(200, (), configuration)
        assert (
            self.submit(Money(250, "USD"), answer)[0].native_message
            == "The market takes no decimals."
        )
        assert (
            self.submit(Money(100, "USD"), answer)[0].native_message
            == "The market takes 2 USD or more."
        )
        assert self.submit(Money(200, "USD"), answer)[1] == 1

    @pytest.mark.parametrize(
        "answer",
        [
            HttpResponse(200, (), b"{}"),
            HttpResponse(200, (), b'{"countries":7}'),
            HttpResponse(200, (), b"<html>"),
            HttpResponse(403, (), AUTHENTICATION_ERROR),
            HttpResponse(200, (), ACTIVE_CONFIGURATION.replace(b"MTN_MOMO_BEN", b"MOOV_BEN")),
        ],
    )
    def test_without_a_configuration_pawapay_itself_judges(self, answer: HttpResponse) -> None:
        assert self.submit(Money(1001, "XOF"), answer)[1] == 1

    def test_the_configuration_is_asked_for_every_ten_minutes_and_the_last_one_stays(self) -> None:
        account, asked = an_account(market="MTN_MOMO_BEN"), []
        answers = [HttpResponse(200, (), ACTIVE_CONFIGURATION), HttpResponse(503)]

        def exchange(request: HttpRequest) -> HttpResponse:
            if request.method == "GET":
                asked.append(request)
                return answers.pop(0)
            return HttpResponse(500)

        payment = a_payment(REFERENCE, amount=Money(1001, "XOF"))
        for minutes, questions in ((0, 1), (9, 1), (10, 2)):
            now = later(START, Span(minutes * MINUTE))
            report = drive(account.submit(payment, now=Moment.at(now)), exchange)
            assert isinstance(report, ProviderFailed)
            assert len(asked) == questions


class TestAvailability:
    """https://docs.pawapay.io/v2/api-reference/toolkit/availability, with the documentation's
    example."""

    def ask(
        self, answer: HttpResponse, market: str = "MTN_MOMO_ZMB"
    ) -> Mapping[str, AccountFinding]:
        provider = an_account(market=market)
        assert isinstance(provider, ReportsAvailability)
        return {
            each.part: each
            for each in drive(
                provider.ask_availability(now=Moment.at(START)), answering(answer, [])
            )
        }

    def test_what_the_operator_does_not_process_is_held(self) -> None:
        found = self.ask(HttpResponse(200, (), AVAILABILITY))
        assert (found["deposit"].code, found["deposit"].held) == ("CLOSED", (Type.PAYIN,))
        assert (found["payout"].code, found["payout"].held) == ("OPERATIONAL", ())
        assert not found["payout"].holds_reversals

    def test_what_is_only_delayed_is_sent_and_shown(self) -> None:
        found = self.ask(HttpResponse(200, (), AVAILABILITY), "AIRTEL_OAPI_ZMB")
        assert (found["payout"].state, found["payout"].code, found["payout"].held) == (
            "warned",
            "DELAYED",
            (),
        )

    @pytest.mark.parametrize(
        "answer",
        [
            HttpResponse(503),
            HttpResponse(200),
            HttpResponse(200, (), b"[]"),
            HttpResponse(200, (), b"[7]"),
        ],
    )
    def test_what_says_nothing_holds_nothing(self, answer: HttpResponse) -> None:
        found = self.ask(answer)
        assert [(found[part].state, found[part].held) for part in ("deposit", "payout")] == [
            ("unknown", ())
        ] * 2


WALLETS = """{"balances": [
    {"country": "ZMB", "balance": "21798.03", "currency": "ZMW", "provider": ""},
    {"country": "UGA", "balance": "10798.03", "currency": "UGX", "provider": ""}
]}"""
"""https://docs.pawapay.io/v2/api-reference/finances/wallet-balances"""


class TestBalances:
    def test_the_wallet_of_the_country_is_the_float(self) -> None:
        asked: list[HttpRequest] = []
        provider = an_account()
        report = drive(
            provider.ask_balances(now=Moment.at(START)),
            answering(HttpResponse(200, (), WALLETS.encode()), asked),
        )
        assert [each.target for each in asked] == [
            b"https://api.pawapay.io/v2/wallet-balances?country=ZMB"
        ]
        [wallet] = report.balances
        assert (wallet.account, str(wallet.amount), wallet.is_float, wallet.at) == (
            "ZMB/ZMW",
            "21798.03 ZMW",
            True,
            START,
        )

    def test_a_wallet_that_can_not_be_read_hides_no_other(self) -> None:
        document = json.loads(WALLETS)
        for strange in ({"country": "ZMB", "balance": "?", "currency": "ZMW"}, 7, {"country": 7}):
            body = json.dumps({"balances": [strange, *document["balances"]]}).encode()
            report = drive(
                an_account().ask_balances(now=Moment.at(START)),
                answering(HttpResponse(200, (), body), []),
            )
            assert [each.account for each in report.balances] == ["ZMB/ZMW"]

    @pytest.mark.parametrize(
        ("own", "accounts"), [("MTN_MOMO_ZMB", ["ZMB/ZMW/MTN_MOMO_ZMB"]), ("AIRTEL_OAPI_ZMB", [])]
    )
    def test_a_wallet_of_one_operator_is_that_operator_s(
        self, own: str, accounts: list[str]
    ) -> None:
        body = WALLETS.replace('"provider": ""', f'"provider": "{own}"').encode()
        report = drive(
            an_account().ask_balances(now=Moment.at(START)),
            answering(HttpResponse(200, (), body), []),
        )
        assert [each.account for each in report.balances] == accounts

    @pytest.mark.parametrize(
        "answer",
        [
            ExchangeFailed("Lost.", may_have_arrived=True),
            *(
                HttpResponse(200, (), body)
                for body in (b"", b"[]", b"{}", b'{"balances": [7]}', b'{"balances": 7}')
            ),
            HttpResponse(200, (), WALLETS.replace("21798.03", "x").encode()),
        ],
    )
    def test_what_says_nothing_is_no_balance(self, answer: HttpResponse | ExchangeFailed) -> None:
        assert (
            drive(an_account().ask_balances(now=Moment.at(START)), answering(answer, []))
            == BalanceReport()
        )


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "key"),
        [
            ({"market": "rwanda"}, "market"),
            ({"market": "MTN_MOMO"}, "market"),
            ({"api_token": "with space"}, "api_token"),
            ({"customer_message": "abc"}, "customer_message"),
            ({"customer_message": "What's more?"}, "customer_message"),
            ({"callback_keys": "HTTP_EC_P256_KEY:1"}, "callback_keys"),
            ({"callbacks_of": "MTN_MOMO_UGA"}, "callbacks_of"),
            ({"callbacks_of": "MTN_MOMO_UGA=a MTN_MOMO_UGA=b"}, "callbacks_of"),
            ({"signing_key": EC_PRIVATE_PEM}, "signing_key_id"),
            ({"signing_key_id": "A:1"}, "signing_key"),
            ({"signing_key": "no key", "signing_key_id": "A:1"}, "signing_key"),
            ({"signing_key": public_pem(KEY), "signing_key_id": "A:1"}, "signing_key"),
            ({"signing_key": EC_PRIVATE_PEM, "signing_key_id": 'A"1'}, "signing_key_id"),
            ({"base_url": "http://api.pawapay.io"}, "base_url"),
        ],
    )
    def test_an_unusable_option_is_named(self, options: dict[str, Any], key: str) -> None:
        with pytest.raises(OptionError) as caught:
            an_account(**options)
        assert caught.value.key == key

    def test_the_country_is_the_end_of_the_market(self) -> None:
        assert an_account(market="VODACOM_MPESA_COD").account.country == "COD"

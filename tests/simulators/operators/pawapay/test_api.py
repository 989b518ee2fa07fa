"""The simulated pawaPay: as strict and as forgetful as the real one, and right to the unit."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from attrs import define, evolve
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.testing import START
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Instant, Span, later
from mmo_simulators.common.controls import handle_control_request
from mmo_simulators.common.faults import (
    CallBack,
    DroppedConnection,
    EndAfter,
    EndWith,
    Fault,
    LoseAnswer,
    LoseRequest,
    PlannedFault,
    PollWith,
)
from mmo_simulators.operators.pawapay.accounts import WRONG_CODE
from mmo_simulators.operators.pawapay.api import API_TOKEN, PawapaySimulator, open_pawapay
from mmo_simulators.operators.pawapay.markets import (
    COUNTRIES,
    PROVIDERS,
    STUCK,
    Authorisation,
    OperationType,
    SimulatedProvider,
)
from mmo_simulators.operators.pawapay.signatures import sign_callback
from tests.support.answer_rows import Row, check_answer, read_rows
from tests.support.bodies import changed_body, documented, read_bodies

HOOK = "https://gw.example:8443/hooks/pawapay/token"
ID = "afb57b93-7849-49aa-babb-4c3ccbfe3d79"
OTHER_ID = "f7232951-ab27-4175-bb63-6e15a9516df6"
DEPOSIT, PAYOUT, REFUND = OperationType.DEPOSIT, OperationType.PAYOUT, OperationType.REFUND
DEPOSITED = documented("pawapay", "deposit_request")
SUBMISSIONS: Mapping[OperationType, Any] = {
    DEPOSIT: DEPOSITED,
    PAYOUT: documented("pawapay", "payout_request"),
    REFUND: {"refundId": OTHER_ID, "depositId": ID},
}
BOTH = pytest.mark.parametrize("operation", [DEPOSIT, PAYOUT])


@define
class Merchant:
    """Sends requests with the account's token."""

    simulator: PawapaySimulator
    now: Instant = START

    def send(
        self,
        method: str,
        path: str,
        document: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        return self.receive(request_to(method, path, document, headers))

    def receive(self, request: HttpRequest) -> HttpResponse:
        answer = self.simulator.handle_request(request, now=self.now)
        assert isinstance(answer, HttpResponse)
        return answer

    def ask(self, method: str, path: str, document: object = None) -> Any:
        answer = self.send(method, path, document)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def submit(self, operation: OperationType, /, **members: Any) -> Any:
        """Send the guide's example with these members changed."""
        return self.ask("POST", path_of(operation), {**SUBMISSIONS[operation], **members})

    def status(self, operation: OperationType, id: str = ID) -> Any:
        return self.ask("GET", f"{path_of(operation)}/{id}")

    def data(self, operation: OperationType = DEPOSIT, id: str = ID) -> Any:
        """What a status check tells of a payment."""
        return self.status(operation, id)["data"]

    def failure(self, operation: OperationType, /, **members: Any) -> str:
        """The failure code of a submission that is rejected."""
        answer = self.submit(operation, **members)
        assert answer["status"] == "REJECTED", answer
        return str(answer["failureReason"]["failureCode"])

    def wait(self, span: Span = MINUTE) -> list[HttpRequest]:
        """The callbacks of a minute."""
        self.now = later(self.now, span)
        return list(self.simulator.take_due_callbacks(now=self.now))

    def approve(self, id: str = ID, *, decision: str = "approve") -> HttpResponse:
        """Say this at the operator's page, as a payer's browser does."""
        self.now = later(self.now, Span(SECOND))
        return self.send("POST", f"/approve/{id}", f"decision={decision}".encode())

    def plan(self, at: str, *faults: Fault) -> None:
        self.simulator.faults.plan([PlannedFault(at, each) for each in faults])

    def open(self, account: str, **members: Any) -> None:
        self.simulator.open_accounts([{"account": account, **members}])

    def balances(self) -> dict[str, str]:
        return {each["account"]: each["balance"] for each in self.simulator.snapshot()["accounts"]}

    def payments(self) -> Any:
        return self.simulator.snapshot()["payments"]


def a_merchant(**members: Any) -> Merchant:
    merchant = Merchant(open_pawapay())
    merchant.open("merchant", **{"callback_url": HOOK, **members})
    return merchant


def request_to(
    method: str, path: str, document: object = None, headers: Mapping[str, str] | None = None
) -> HttpRequest:
    fields = {
        "Authorization": f"Bearer {API_TOKEN}",
        "Content-Type": "application/json",
        "Host": "paw.example",
        **(headers or {}),
    }
    named = tuple((name.lower().encode(), value.encode()) for name, value in fields.items())
    if document is None:
        body = b""
    elif isinstance(document, bytes):
        body = document
    else:
        body = json.dumps(document).encode()
    return HttpRequest(method, path.encode(), named, body)


def with_code(operation: OperationType, provider: SimulatedProvider) -> dict[str, str]:
    """The code of a deposit with a provider that needs one."""
    needs_code = operation is DEPOSIT and provider.authorisation is Authorisation.PREAUTH
    return {"preAuthorisationCode": "123456"} if needs_code else {}


def path_of(operation: OperationType) -> str:
    return f"/v2/{operation.lower()}s"


def to(operation: OperationType, msisdn: str, provider: str) -> dict[str, Any]:
    account = {"phoneNumber": msisdn, "provider": provider}
    return {operation.party_member: {"type": "MMO", "accountDetails": account}}


def told(callback: HttpRequest) -> Any:
    return json.loads(callback.body)


PATHS = {"number": "/v2/predict-provider"}


@pytest.mark.parametrize("row", read_rows(Path(__file__).with_name("requests.txt")))
def test_requests(row: Row) -> None:
    merchant = a_merchant()
    path = PATHS.get(row.operation, f"/v2/{row.operation}s")
    body = changed_body(read_bodies("pawapay"), row.answer, {})
    check_answer(row, merchant.send("POST", path, body))
    assert merchant.payments() == []


@BOTH
def test_the_id_of_a_rejected_submission_may_be_used_again(operation: OperationType) -> None:
    merchant = a_merchant()
    assert merchant.submit(operation, amount="99")[operation.id_member] == ID
    assert merchant.status(operation) == {"status": "NOT_FOUND"}
    assert merchant.submit(operation)["status"] == "ACCEPTED"


@BOTH
def test_a_payment_moves_money_and_calls_back_once(operation: OperationType) -> None:
    merchant = a_merchant()
    accepted = merchant.submit(operation, clientReferenceId="01K5REFERENCE")
    assert {**accepted, "nextStep": "FINAL_STATUS"} == {
        operation.id_member: ID,
        "status": "ACCEPTED",
        "created": "2026-09-21T14:13:20Z",
        "nextStep": "FINAL_STATUS",
    }
    assert merchant.data(operation)["status"] == "PROCESSING"
    [callback] = merchant.wait()
    assert (callback.method, callback.target.decode()) == ("POST", HOOK)
    receipt = told(callback)["providerTransactionId"]
    assert told(callback) == {
        operation.id_member: ID,
        "status": "COMPLETED",
        "amount": "100",
        "currency": "RWF",
        "country": "RWA",
        **to(operation, "250783456789", "MTN_MOMO_RWA"),
        "created": "2026-09-21T14:13:20Z",
        "providerTransactionId": receipt,
    }
    data = {**told(callback), "clientReferenceId": "01K5REFERENCE"}
    assert merchant.status(operation) == {"status": "FOUND", "data": data}
    merchant.simulator.on_callback_response(callback, HttpResponse(200), now=merchant.now)
    assert merchant.wait(HOUR) == []
    change = 100 if operation is DEPOSIT else -100
    assert merchant.balances()["RWA/RWF"] == str(10_000_000 + change)
    assert merchant.balances()["250783456789/RWF"] == str(10_000_000 - change)
    [payment] = merchant.payments()
    assert payment == {
        "kind": operation.lower(),
        "reference": "01K5REFERENCE",
        "receipt": receipt,
        "account": "250783456789",
        "amount": "100",
        "currency": "RWF",
        "result": "success",
        "told": 1,
    }


def test_five_countries_and_more_take_both_ways_in_their_own_currency() -> None:
    merchant = a_merchant()
    assert len(COUNTRIES) >= 5
    for number, (code, (country, provider)) in enumerate(PROVIDERS.items()):
        currency, (least, _) = next(iter(country.limits.items()))
        for operation in (DEPOSIT, PAYOUT):
            id = f"afb57b93-7849-49aa-babb-4c3ccbfe3d{number:02d}"
            members = {operation.id_member: id, "amount": least, "currency": currency}
            members |= to(operation, f"{provider.numbers}789", code)
            merchant.submit(operation, **members, **with_code(operation, provider))
            merchant.approve(id)
            merchant.wait()
            data = merchant.data(operation, id)
            assert (data["status"], data["country"]) == ("COMPLETED", country.code)
    opening = {f"{each.code}/{currency}" for each in COUNTRIES for currency in each.limits}
    assert {merchant.balances()[name].removesuffix(".00") for name in opening} == {"10000000"}


@pytest.mark.parametrize(
    ("operation", "provider", "msisdn", "ending"),
    [
        (operation, code, msisdn, ending)
        for operation in (DEPOSIT, PAYOUT)
        for code, (_, provider) in PROVIDERS.items()
        for msisdn, ending in provider.test_outcomes(operation).items()
    ],
)
def test_each_published_number_ends_as_it_does_there(
    operation: OperationType, provider: str, msisdn: str, ending: str
) -> None:
    merchant, (country, simulated) = a_merchant(), PROVIDERS[provider]
    currency, (least, _) = next(iter(country.limits.items()))
    members = {**to(operation, msisdn, provider), "amount": least, "currency": currency}
    accepted = merchant.submit(operation, **members, **with_code(operation, simulated))
    assert accepted["status"] == "ACCEPTED"
    merchant.approve()
    callbacks, data = merchant.wait(), merchant.data(operation)
    if ending == STUCK:
        assert (data["status"], callbacks) == ("PROCESSING", [])
    else:
        assert (data["status"], data["failureReason"]["failureCode"]) == ("FAILED", ending)
        assert told(callbacks[0]) == data
    assert set(merchant.balances().values()) == {"10000000", "10000000.00"}


def test_the_numbers_of_the_documentation_are_among_them() -> None:
    assert PROVIDERS["MTN_MOMO_BEN"][1].test_outcomes(DEPOSIT) == {
        "22951345029": "PAYER_NOT_FOUND",
        "22951345039": "PAYMENT_NOT_APPROVED",
        "22951345069": "UNSPECIFIED_FAILURE",
        "22951345129": STUCK,
    }
    assert PROVIDERS["MPESA_KEN"][1].test_outcomes(PAYOUT) == {
        "254703456089": "RECIPIENT_NOT_FOUND",
        "254703456099": "WALLET_LIMIT_REACHED",
        "254703456109": "RECIPIENT_LIMIT_REACHED",
        "254703456119": "UNSPECIFIED_FAILURE",
        "254703456129": STUCK,
    }


@BOTH
def test_a_repeated_id_is_a_duplicate_that_moves_nothing(operation: OperationType) -> None:
    merchant = a_merchant()
    created = merchant.submit(operation)["created"]
    merchant.wait()
    again = merchant.submit(operation, amount="200")
    assert again == {operation.id_member: ID, "status": "DUPLICATE_IGNORED", "created": created}
    assert merchant.wait() == []
    assert len(merchant.payments()) == 1


def test_the_token_is_checked_everywhere() -> None:
    merchant = a_merchant()
    paths = ("POST", "/v2/deposits"), ("GET", "/v2/active-conf"), ("GET", f"/v2/payouts/{ID}")
    for method, path in paths:
        for authorization, status, code in (
            ("", 401, "NO_AUTHENTICATION"),
            ("Bearer x", 403, "AUTHENTICATION_ERROR"),
        ):
            answer = merchant.send(method, path, DEPOSITED, {"Authorization": authorization})
            assert (answer.status, code.encode() in answer.body) == (status, True)
    assert merchant.payments() == []


def test_metadata_and_the_message_come_back_flat() -> None:
    merchant = a_merchant()
    full = documented("pawapay", "full_deposit_request")
    merchant.submit(DEPOSIT, metadata=full["metadata"], customerMessage=full["customerMessage"])
    data = merchant.data()
    assert data["metadata"] == {"orderId": "ORD-123456789", "customerId": "customer@email.com"}
    assert data["customerMessage"] == "Note of 4 to 22 chars"


# Callbacks and their signatures.


def verify(request: HttpRequest, key: EllipticCurvePublicKey) -> None:
    """Check a callback's signature as the documentation says, by its published base."""
    headers = {name.decode(): value.decode() for name, value in request.headers}
    target = urlsplit(request.target.decode())
    covered = {"@method": request.method, "@authority": target.netloc, "@path": target.path}
    covered |= {
        name: headers[name] for name in ("signature-date", "content-digest", "content-type")
    }
    covered["@signature-params"] = headers["signature-input"].removeprefix("sig-pp=")
    base = "\n".join(f'"{name}": {value}' for name, value in covered.items())
    signature = base64.b64decode(headers["signature"].removeprefix("sig-pp=:").removesuffix(":"))
    key.verify(signature, base.encode(), ECDSA(SHA256()))


def test_a_callback_is_signed_over_its_digest_and_for_a_minute() -> None:
    merchant = a_merchant()
    merchant.submit(DEPOSIT)
    [callback] = merchant.wait()
    [entry] = merchant.ask("GET", "/v2/public-key/http")
    key = load_pem_public_key(entry["key"].encode())
    assert isinstance(key, EllipticCurvePublicKey)
    headers = {name.decode(): value.decode() for name, value in callback.headers}
    assert headers["content-type"] == "application/json; charset=UTF-8"
    digest = base64.b64encode(hashlib.sha512(callback.body).digest()).decode()
    assert headers["content-digest"] == f"sha-512=:{digest}:"
    created = merchant.now // SECOND
    assert headers["signature-input"] == (
        'sig-pp=("@method" "@authority" "@path" "signature-date" "content-digest" "content-type")'
        f';alg="ecdsa-p256-sha256";keyid="{entry["id"]}";created={created};expires={created + 60}'
    )
    verify(callback, key)
    with pytest.raises(InvalidSignature):
        verify(evolve(callback, target=callback.target + b"x"), key)


def test_a_callback_is_signed_only_when_asked_to_and_sent_only_where_there_is_a_url() -> None:
    merchant = a_merchant(signs_callbacks=False)
    merchant.submit(DEPOSIT)
    [callback] = merchant.wait()
    assert [name for name, _ in callback.headers] == [b"content-type"]
    signing = merchant.ask("GET", "/v2/active-conf")["signatureConfiguration"]
    assert signing["signedCallbacks"] is False
    silent = a_merchant(callback_url=None)
    silent.submit(DEPOSIT)
    assert silent.wait() == []


def test_a_callback_without_a_200_is_repeated_for_15_minutes_and_signed_anew() -> None:
    merchant, signatures, waited = a_merchant(), set(), []
    merchant.submit(DEPOSIT)
    for minute in range(60):
        for callback in merchant.wait():
            waited.append(minute)
            signatures.add(callback.value(b"signature-input"))
            response = HttpResponse(503) if len(waited) % 2 else None
            merchant.simulator.on_callback_response(callback, response, now=merchant.now)
    assert waited == [0, 1, 3, 7, 15]
    assert len(signatures) == 5


KEY, OTHER_KEY = generate_private_key(SECP256R1()), generate_private_key(SECP256R1())
PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def signed(key: Any = KEY, now: Instant = START) -> HttpRequest:
    """A submission as the merchant signs it."""
    return sign_callback(
        request_to("POST", "https://paw.example/v2/deposits", DEPOSITED), key, now=now
    )


@pytest.mark.parametrize(
    "origin", ["https://paw.example:443", "https://PAW.example", "http://paw.example:80"]
)
def test_a_signature_of_a_merchant_leaves_the_own_port_of_the_scheme_out(origin: str) -> None:
    request = evolve(signed(), target=f"{origin}/v2/deposits".encode())
    assert b'"ACCEPTED"' in a_merchant(request_key=PEM).receive(request).body


def test_an_account_that_only_takes_signed_requests_refuses_all_others() -> None:
    merchant, good = a_merchant(request_key=PEM), signed()
    bad = {
        "unsigned": request_to("POST", "/v2/deposits", DEPOSITED),
        "another key": signed(OTHER_KEY),
        "another body": evolve(good, body=json.dumps({**DEPOSITED, "amount": "200"}).encode()),
        "another path": evolve(good, target=b"https://paw.example/v2/payouts"),
        "another host": evolve(good, target=b"https://other.example/v2/deposits"),
        "old": signed(now=Instant(START - 61 * SECOND)),
        "of the future": signed(now=later(START, Span(2 * MINUTE))),
    }
    for what, request in bad.items():
        answer = merchant.receive(request)
        assert (answer.status, b'"HTTP_SIGNATURE_ERROR"' in answer.body) == (403, True), what
    assert merchant.payments() == []
    assert b'"ACCEPTED"' in merchant.receive(good).body
    signing = merchant.ask("GET", "/v2/active-conf")["signatureConfiguration"]
    assert signing["signedRequestsOnly"] is True


# Refunds.


def a_paid_deposit() -> Merchant:
    merchant = a_merchant()
    merchant.submit(DEPOSIT)
    merchant.wait()
    return merchant


def test_a_refund_gives_back_the_whole_deposit_unless_it_names_a_part() -> None:
    merchant = a_paid_deposit()
    assert merchant.submit(REFUND, amount="100", currency="RWF")["status"] == "ACCEPTED"
    [callback] = merchant.wait()
    refunded = told(callback)
    assert (refunded["refundId"], refunded["status"]) == (OTHER_ID, "COMPLETED")
    assert (refunded["amount"], refunded["currency"]) == ("100", "RWF")
    assert refunded["recipient"]["accountDetails"]["phoneNumber"] == "250783456789"
    assert merchant.balances()["RWA/RWF"] == "10000000"
    assert merchant.failure(REFUND, refundId=ID) == "DEPOSIT_ALREADY_REFUNDED"
    whole = a_paid_deposit()
    whole.submit(REFUND)
    whole.wait()
    assert whole.data(REFUND, OTHER_ID)["amount"] == "100"


def test_no_more_than_the_deposit_is_refunded_and_one_refund_at_a_time() -> None:
    merchant = a_merchant()
    merchant.submit(DEPOSIT, amount="300")
    assert merchant.failure(REFUND) == "INVALID_STATE"
    merchant.wait()
    assert merchant.failure(REFUND, amount="301", currency="RWF") == "AMOUNT_TOO_LARGE"
    assert merchant.failure(REFUND, amount="100", currency="KES") == "INVALID_CURRENCY"
    merchant.submit(REFUND, amount="200", currency="RWF")
    assert merchant.failure(REFUND, refundId=ID) == "REFUND_IN_PROGRESS"
    merchant.wait()
    assert merchant.failure(REFUND, refundId=ID, amount="101") == "AMOUNT_TOO_LARGE"
    merchant.submit(REFUND, refundId=ID)
    merchant.wait()
    assert merchant.balances()["RWA/RWF"] == "10000000"


# The account.


def test_a_wallet_that_runs_dry_rejects_pay_outs() -> None:
    merchant = a_merchant()
    merchant.open("RWA/RWF", balance="150")
    merchant.submit(PAYOUT)
    merchant.submit(PAYOUT, payoutId=OTHER_ID)  # Both are accepted while the money is there.
    merchant.wait()
    assert merchant.data(PAYOUT)["status"] == "COMPLETED"
    lacking = "PAWAPAY_WALLET_OUT_OF_FUNDS"
    assert merchant.data(PAYOUT, OTHER_ID)["failureReason"]["failureCode"] == lacking
    assert merchant.failure(PAYOUT, payoutId="f02b543c-541c-4f21-bbea-20d2d56063d6") == lacking
    wallet = {"country": "RWA", "balance": "50", "currency": "RWF", "provider": ""}
    assert merchant.ask("GET", "/v2/wallet-balances?country=RWA") == {"balances": [wallet]}


def test_a_payer_who_lacks_money_fails() -> None:
    merchant = a_merchant()
    merchant.open("250783456789/RWF", balance="99")
    merchant.submit(DEPOSIT)
    merchant.wait()
    assert merchant.data()["failureReason"]["failureCode"] == "INSUFFICIENT_BALANCE"


def test_a_delayed_provider_enqueues_pay_outs_and_takes_no_deposits() -> None:
    merchant = a_merchant()
    merchant.open("MTN_MOMO_RWA", DEPOSIT="DELAYED", PAYOUT="DELAYED")
    assert merchant.failure(DEPOSIT) == "PROVIDER_TEMPORARILY_UNAVAILABLE"
    merchant.submit(PAYOUT)
    assert merchant.wait(HOUR) == []
    assert merchant.data(PAYOUT)["status"] == "ENQUEUED"
    merchant.open("MTN_MOMO_RWA", DEPOSIT="DELAYED", PAYOUT="OPERATIONAL")
    assert merchant.data(PAYOUT)["status"] == "PROCESSING"
    assert len(merchant.wait()) == 1


def test_a_closed_provider_takes_nothing() -> None:
    merchant = a_merchant()
    merchant.open("MTN_MOMO_RWA", PAYOUT="CLOSED")
    assert merchant.failure(PAYOUT) == "PROVIDER_TEMPORARILY_UNAVAILABLE"
    [country] = merchant.ask("GET", "/v2/availability?country=RWA&operationType=PAYOUT")
    states = [("MTN_MOMO_RWA", "CLOSED"), ("AIRTEL_RWA", "OPERATIONAL")]
    assert country == {
        "country": "RWA",
        "providers": [
            {"provider": name, "operationTypes": [{"operationType": "PAYOUT", "status": state}]}
            for name, state in states
        ],
    }


def test_the_active_configuration_names_limits_decimals_and_state() -> None:
    merchant = a_merchant()
    configuration = merchant.ask("GET", "/v2/active-conf?country=KEN&operationType=PAYOUT")
    [country] = configuration["countries"]
    [provider] = country["providers"]
    assert (country["country"], country["prefix"]) == ("KEN", "254")
    assert provider["provider"] == "MPESA_KEN"
    terms = {
        "minAmount": "1",
        "maxAmount": "250000",
        "decimalsInAmount": "TWO_PLACES",
        "status": "OPERATIONAL",
        "callbackUrl": HOOK,
    }
    shillings = {"currency": "KES", "displayName": "KES", "operationTypes": {"PAYOUT": terms}}
    assert provider["currencies"] == [shillings]
    assert len(merchant.ask("GET", "/v2/active-conf")["countries"]) == len(COUNTRIES)


# Faults.


@BOTH
def test_a_script_decides_the_end_and_the_callbacks(operation: OperationType) -> None:
    merchant = a_merchant()
    end = EndWith("SOMETHING_NEW", "no")
    merchant.plan(operation.lower(), end, EndAfter(MINUTE), CallBack((Span(0), MINUTE)))
    merchant.submit(operation)
    assert merchant.wait(Span(59 * SECOND)) == []
    assert [len(merchant.wait()) for _ in range(3)] == [1, 1, 0]
    reason = {"failureCode": "SOMETHING_NEW", "failureMessage": "no"}
    assert merchant.data(operation)["failureReason"] == reason


@BOTH
def test_a_status_check_may_contradict_what_was_paid(operation: OperationType) -> None:
    merchant = a_merchant()
    merchant.plan(operation.lower(), PollWith("UNSPECIFIED_FAILURE"))
    merchant.submit(operation)
    [callback] = merchant.wait()
    assert told(callback)["status"] == "COMPLETED"
    assert merchant.data(operation)["status"] == "FAILED"


@BOTH
@pytest.mark.parametrize(
    ("fault", "state"), [(LoseRequest(), "NOT_FOUND"), (LoseAnswer(), "FOUND")]
)
def test_a_request_or_its_answer_may_be_lost(
    fault: Fault, state: str, operation: OperationType
) -> None:
    merchant = a_merchant()
    merchant.plan(operation.lower(), fault)
    request = request_to("POST", path_of(operation), SUBMISSIONS[operation])
    assert isinstance(merchant.simulator.handle_request(request, now=START), DroppedConnection)
    assert merchant.status(operation)["status"] == state


@pytest.mark.parametrize(
    "account",
    [
        {"account": "RWA/XXX", "balance": "1"},
        {"account": "RWA/RWF", "balance": "1.5"},
        {"account": "RWA/RWF", "balance": 1},
        {"account": "merchant", "callback_url": 1},
        {"account": "merchant", "unknown": "x"},
        {"account": "merchant", "request_key": "no key"},
        {"account": "MTN_MOMO_RWA", "PAYOUT": "BROKEN"},
        {"account": "MTN_MOMO_RWA", "NOTHING": "CLOSED"},
    ],
)
def test_invalid_accounts_are_refused(account: dict[str, Any]) -> None:
    request = request_to(
        "POST", "/_simulator/accounts", {"accounts": [account]}, {"Host": "localhost"}
    )
    answer = handle_control_request(open_pawapay(), request)
    assert answer is not None
    assert answer.status == 400


def test_another_path_is_not_there() -> None:
    assert a_merchant().send("GET", "/v1/deposits").status == 404


# Markets whose payers approve at a page, or with a code.

BACK, BACK_UNPAID = "https://pages.example/pay/key/back", "https://pages.example/pay/key/back?x=1"
WAVE = {
    **to(DEPOSIT, "221773456789", "WAVE_SEN"),
    "currency": "XOF",
    "successfulUrl": BACK,
    "failedUrl": BACK_UNPAID,
}


def test_a_deposit_of_wave_has_its_page_a_moment_after_the_acceptance() -> None:
    merchant = a_merchant()
    assert merchant.submit(DEPOSIT, **WAVE)["nextStep"] == "GET_AUTH_URL"
    assert "authorizationUrl" not in merchant.data()
    merchant.wait(Span(SECOND))
    data = merchant.data()
    assert (data["status"], data["nextStep"]) == ("PROCESSING", "REDIRECT_TO_AUTH_URL")
    assert data["authorizationUrl"] == f"http://paw.example/approve/{ID}"
    page = merchant.send("GET", f"/approve/{ID}").body
    assert all(words in page for words in (b"Approve", b"221773456789"))


@pytest.mark.parametrize(
    ("decision", "back", "status", "balance"),
    [
        ("approve", BACK, "COMPLETED", "10000100"),
        ("decline", BACK_UNPAID, "FAILED", "10000000"),
    ],
)
def test_what_a_payer_says_there_counts_once_and_leads_back(
    decision: str, back: str, status: str, balance: str
) -> None:
    merchant = a_merchant()
    merchant.submit(DEPOSIT, **WAVE)
    said = merchant.approve(decision=decision)
    assert (said.status, said.value(b"location")) == (303, back.encode())
    merchant.wait()
    for again in ("approve", "decline"):
        assert merchant.approve(decision=again).status == 303
    data = merchant.data()
    assert (data["status"], "authorizationUrl" in data) == (status, False)
    assert b"<button" not in merchant.send("GET", f"/approve/{ID}").body
    assert merchant.balances()["SEN/XOF"] == balance


def test_a_deposit_that_nobody_approves_fails_after_a_quarter_of_an_hour() -> None:
    merchant = a_merchant()
    merchant.submit(DEPOSIT, **WAVE)
    merchant.wait(Span(14 * MINUTE))
    assert merchant.data()["status"] == "PROCESSING"
    merchant.wait(Span(2 * MINUTE))
    assert merchant.data()["failureReason"]["failureCode"] == "PAYMENT_NOT_APPROVED"


def test_what_takes_long_after_the_approval_does_not_end_with_the_page() -> None:
    merchant = a_merchant()
    merchant.plan("deposit", EndAfter(HOUR))
    merchant.submit(DEPOSIT, **WAVE)
    merchant.approve()
    merchant.wait(Span(30 * MINUTE))
    assert merchant.data()["status"] == "PROCESSING"
    merchant.wait(Span(31 * MINUTE))
    assert merchant.data()["status"] == "COMPLETED"


def test_there_is_no_page_of_another_payment() -> None:
    merchant = a_merchant()
    assert merchant.send("GET", f"/approve/{ID}").status == 404
    merchant.submit(DEPOSIT)
    assert merchant.approve().status == 404


def test_a_deposit_of_orange_in_burkina_faso_needs_a_code_that_is_right() -> None:
    merchant = a_merchant()
    orange = {**to(DEPOSIT, "22607345789", "ORANGE_BFA"), "currency": "XOF"}
    refused = merchant.send("POST", path_of(DEPOSIT), {**DEPOSITED, **orange})
    assert (refused.status, b"MISSING_PARAMETER" in refused.body) == (400, True)
    merchant.submit(DEPOSIT, **orange, preAuthorisationCode=WRONG_CODE)
    merchant.wait()
    assert merchant.data()["failureReason"]["failureCode"] == "PAYMENT_NOT_APPROVED"


def test_the_active_configuration_says_how_payers_approve() -> None:
    deposits = {
        provider["provider"]: provider["currencies"][0]["operationTypes"]["DEPOSIT"]
        for country in a_merchant().ask("GET", "/v2/active-conf")["countries"]
        for provider in country["providers"]
    }
    assert deposits["WAVE_SEN"]["authType"] == "REDIRECT_AUTH"
    assert deposits["MTN_MOMO_RWA"]["authType"] == "PROVIDER_AUTH"
    assert deposits["ORANGE_BFA"]["authType"] == "PREAUTH"
    [channel] = deposits["ORANGE_BFA"]["authTokenInstructions"]["channels"]
    assert set(channel["instructions"]) == {"en", "fr"}

"""The simulated pawaPay: as strict and as forgetful as the real one, and right to the unit."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
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

HOOK = "https://gw.example:8443/hooks/pawapay/token"
ID = "afb57b93-7849-49aa-babb-4c3ccbfe3d79"
OTHER_ID = "f7232951-ab27-4175-bb63-6e15a9516df6"
DEPOSIT = {
    "depositId": ID,
    "amount": "100",
    "currency": "RWF",
    "payer": {
        "type": "MMO",
        "accountDetails": {"phoneNumber": "250783456789", "provider": "MTN_MOMO_RWA"},
    },
}
"""The first example of the documentation's guide to deposits."""
PAYOUT = {
    "payoutId": ID,
    "amount": "100",
    "currency": "RWF",
    "recipient": {
        "type": "MMO",
        "accountDetails": {"phoneNumber": "250783456789", "provider": "MTN_MOMO_RWA"},
    },
}
"""The first example of its guide to pay-outs."""
SUBMISSIONS = {OperationType.DEPOSIT: DEPOSIT, OperationType.PAYOUT: PAYOUT}
BOTH = pytest.mark.parametrize("operation", SUBMISSIONS)


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
        answer = self.simulator.handle_request(
            request_to(method, path, document, headers), now=self.now
        )
        assert isinstance(answer, HttpResponse)
        return answer

    def ask(self, method: str, path: str, document: object = None) -> Any:
        answer = self.send(method, path, document)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def submit(self, operation: OperationType, document: object) -> Any:
        return self.ask("POST", path_of(operation), document)

    def status(self, operation: OperationType, id: str = ID) -> Any:
        return self.ask("GET", f"{path_of(operation)}/{id}")

    def failure(self, operation: OperationType, document: object) -> str:
        """The failure code of a submission that is rejected."""
        answer = self.submit(operation, document)
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

    def balances(self) -> dict[str, str]:
        return {each["account"]: each["balance"] for each in self.simulator.snapshot()["accounts"]}


def a_merchant(**members: Any) -> Merchant:
    simulator = open_pawapay()
    simulator.open_accounts([{"account": "merchant", "callback_url": HOOK, **members}])
    return Merchant(simulator)


def request_to(
    method: str, path: str, document: object = None, headers: Mapping[str, str] | None = None
) -> HttpRequest:
    fields = {
        "Authorization": f"Bearer {API_TOKEN}",
        "Content-Type": "application/json",
        "Host": "paw.example",
    }
    fields |= headers or {}
    body = (
        document
        if isinstance(document, bytes)
        else b""
        if document is None
        else json.dumps(document).encode()
    )
    return HttpRequest(
        method,
        path.encode(),
        tuple((k.lower().encode(), v.encode()) for k, v in fields.items()),
        body,
    )


def with_code(operation: OperationType, provider: SimulatedProvider) -> dict[str, str]:
    """The code of a deposit with a provider that needs one."""
    needs_code = provider.authorisation is Authorisation.PREAUTH
    is_deposit = operation is OperationType.DEPOSIT
    return {"preAuthorisationCode": "123456"} if is_deposit and needs_code else {}


def path_of(operation: OperationType) -> str:
    return f"/v2/{operation.lower()}s"


def a_submission(operation: OperationType, **members: Any) -> dict[str, Any]:
    return {**SUBMISSIONS[operation], **members}


def to(operation: OperationType, msisdn: str, provider: str) -> dict[str, Any]:
    return {
        operation.party_member: {
            "type": "MMO",
            "accountDetails": {"phoneNumber": msisdn, "provider": provider},
        }
    }


def verify(request: HttpRequest, key: EllipticCurvePublicKey) -> None:
    """Check a callback's signature as the documentation says, by its published base."""
    headers = {name.decode(): value.decode() for name, value in request.headers}
    parameters = headers["signature-input"].removeprefix("sig-pp=")
    target = urlsplit(request.target.decode())
    base = "\n".join(
        [
            f'"@method": {request.method}',
            f'"@authority": {target.netloc}',
            f'"@path": {target.path}',
            f'"signature-date": {headers["signature-date"]}',
            f'"content-digest": {headers["content-digest"]}',
            f'"content-type": {headers["content-type"]}',
            f'"@signature-params": {parameters}',
        ]
    )
    signature = base64.b64decode(headers["signature"].removeprefix("sig-pp=:").removesuffix(":"))
    key.verify(signature, base.encode(), ECDSA(SHA256()))


@BOTH
def test_a_payment_moves_money_and_calls_back_once(operation: OperationType) -> None:
    merchant = a_merchant()
    accepted = merchant.submit(
        operation, a_submission(operation, clientReferenceId="01K5REFERENCE")
    )
    assert {**accepted, "nextStep": "FINAL_STATUS"} == {
        operation.id_member: ID,
        "status": "ACCEPTED",
        "created": "2026-09-21T14:13:20Z",
        "nextStep": "FINAL_STATUS",
    }
    assert merchant.status(operation)["data"]["status"] == "PROCESSING"
    [callback] = merchant.wait()
    assert (callback.method, callback.target.decode()) == ("POST", HOOK)
    found = merchant.status(operation)
    assert found["status"] == "FOUND"
    told = json.loads(callback.body)
    assert found["data"] == {**told, "clientReferenceId": "01K5REFERENCE"}
    assert told == {
        operation.id_member: ID,
        "status": "COMPLETED",
        "amount": "100",
        "currency": "RWF",
        "country": "RWA",
        **to(operation, "250783456789", "MTN_MOMO_RWA"),
        "created": "2026-09-21T14:13:20Z",
        "providerTransactionId": told["providerTransactionId"],
    }
    merchant.simulator.on_callback_response(callback, HttpResponse(200), now=merchant.now)
    assert merchant.wait(Span(60 * MINUTE)) == []
    change = 100 if operation is OperationType.DEPOSIT else -100
    assert merchant.balances()["RWA/RWF"] == str(10_000_000 + change)
    assert merchant.balances()["250783456789/RWF"] == str(10_000_000 - change)
    assert merchant.simulator.snapshot()["payments"] == [
        {
            "kind": operation.lower(),
            "reference": "01K5REFERENCE",
            "receipt": told["providerTransactionId"],
            "account": "250783456789",
            "amount": "100",
            "currency": "RWF",
            "result": "success",
            "told": 1,
        }
    ]


def test_five_countries_and_more_take_both_ways_in_their_own_currency() -> None:
    merchant = a_merchant()
    assert len(COUNTRIES) >= 5
    for number, (code, (country, provider)) in enumerate(PROVIDERS.items()):
        currency, (least, _) = next(iter(country.limits.items()))
        for operation in SUBMISSIONS:
            id = f"afb57b93-7849-49aa-babb-4c3ccbfe3d{number:02d}"
            members = {
                **to(operation, f"{provider.numbers}789", code),
                "amount": least,
                "currency": currency,
            }
            members |= with_code(operation, provider)
            merchant.submit(
                operation, a_submission(operation, **members) | {operation.id_member: id}
            )
            merchant.approve(id)
            merchant.wait()
            data = merchant.status(operation, id)["data"]
            assert (data["status"], data["country"]) == ("COMPLETED", country.code)
    opening = {
        f"{country.code}/{each}": "10000000" for country in COUNTRIES for each in country.limits
    }
    assert {name: merchant.balances()[name].removesuffix(".00") for name in opening} == opening


@pytest.mark.parametrize(
    ("operation", "provider", "msisdn", "ending"),
    [
        (operation, code, msisdn, ending)
        for operation in SUBMISSIONS
        for code, (_, provider) in PROVIDERS.items()
        for msisdn, ending in provider.test_outcomes(operation).items()
    ],
)
def test_each_published_number_ends_as_it_does_there(
    operation: OperationType, provider: str, msisdn: str, ending: str
) -> None:
    merchant, (country, _) = a_merchant(), PROVIDERS[provider]
    currency, (least, _) = next(iter(country.limits.items()))
    members = {**to(operation, msisdn, provider), "amount": least, "currency": currency}
    members |= with_code(operation, PROVIDERS[provider][1])
    assert merchant.submit(operation, a_submission(operation, **members))["status"] == "ACCEPTED"
    merchant.approve()
    callbacks = merchant.wait()
    data = merchant.status(operation)["data"]
    if ending == STUCK:
        assert (data["status"], callbacks) == ("PROCESSING", [])
    else:
        assert (data["status"], data["failureReason"]["failureCode"]) == ("FAILED", ending)
        assert json.loads(callbacks[0].body) == data
    assert set(merchant.balances().values()) == {"10000000", "10000000.00"}


def test_the_numbers_of_the_documentation_are_among_them() -> None:
    outcomes = {
        **PROVIDERS["MTN_MOMO_BEN"][1].test_outcomes(OperationType.DEPOSIT),
        **PROVIDERS["MPESA_KEN"][1].test_outcomes(OperationType.PAYOUT),
    }
    assert outcomes == {
        "22951345029": "PAYER_NOT_FOUND",
        "22951345039": "PAYMENT_NOT_APPROVED",
        "22951345069": "UNSPECIFIED_FAILURE",
        "22951345129": STUCK,
        "254703456089": "RECIPIENT_NOT_FOUND",
        "254703456099": "WALLET_LIMIT_REACHED",
        "254703456109": "RECIPIENT_LIMIT_REACHED",
        "254703456119": "UNSPECIFIED_FAILURE",
        "254703456129": STUCK,
    }


@BOTH
def test_a_repeated_id_is_a_duplicate_that_moves_nothing(operation: OperationType) -> None:
    merchant = a_merchant()
    created = merchant.submit(operation, SUBMISSIONS[operation])["created"]
    merchant.wait()
    again = merchant.submit(operation, a_submission(operation, amount="200"))
    assert again == {operation.id_member: ID, "status": "DUPLICATE_IGNORED", "created": created}
    assert merchant.wait() == []
    assert len(merchant.simulator.snapshot()["payments"]) == 1


@BOTH
@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"amount": "100.5"}, "INVALID_AMOUNT"),
        ({"amount": "99"}, "AMOUNT_OUT_OF_BOUNDS"),
        ({"amount": "2000001"}, "AMOUNT_OUT_OF_BOUNDS"),
        ({"currency": "KES"}, "INVALID_CURRENCY"),
        ({"provider": "MTN_MOMO_XXX"}, "INVALID_PROVIDER"),
        ({"phoneNumber": "2547034567"}, "INVALID_PHONE_NUMBER"),
        ({"phoneNumber": "+250783456789"}, "INVALID_PHONE_NUMBER"),
    ],
)
def test_what_cannot_be_paid_is_rejected_and_its_id_may_be_used_again(
    members: dict[str, str], code: str, operation: OperationType
) -> None:
    merchant = a_merchant()
    account = {"phoneNumber": "250783456789", "provider": "MTN_MOMO_RWA"} | members
    party = to(operation, account.pop("phoneNumber"), account.pop("provider"))
    wrong = a_submission(operation, **party, **account)
    assert merchant.failure(operation, wrong) == code
    assert merchant.submit(operation, wrong)[operation.id_member] == ID
    assert merchant.status(operation) == {"status": "NOT_FOUND"}
    assert merchant.submit(operation, SUBMISSIONS[operation])["status"] == "ACCEPTED"


@BOTH
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (b"{", "INVALID_INPUT"),
        ({"amount": None}, "MISSING_PARAMETER"),
        ({"customer": "x"}, "UNSUPPORTED_PARAMETER"),
        ({"amount": "00.5"}, "INVALID_PARAMETER"),
        ({"amount": 100}, "INVALID_PARAMETER"),
        ({"customerMessage": "No!"}, "INVALID_PARAMETER"),
        ({"metadata": {"a": "b"}}, "INVALID_PARAMETER"),
        ({"metadata": [{"a": ["b"]}]}, "INVALID_PARAMETER"),
    ],
)
def test_what_has_another_form_is_a_400(change: Any, code: str, operation: OperationType) -> None:
    document: Any = change
    if isinstance(change, dict):
        document = {
            name: value
            for name, value in a_submission(operation, **change).items()
            if value is not None
        }
    answer = a_merchant().send("POST", path_of(operation), document)
    assert answer.status == 400
    assert json.loads(answer.body)["failureReason"]["failureCode"] == code


def test_the_token_is_checked_everywhere() -> None:
    merchant = a_merchant()
    for method, path in (
        ("POST", "/v2/deposits"),
        ("GET", "/v2/active-conf"),
        ("GET", f"/v2/payouts/{ID}"),
    ):
        none = merchant.send(method, path, DEPOSIT, {"Authorization": ""})
        assert (none.status, json.loads(none.body)["failureReason"]["failureCode"]) == (
            401,
            "NO_AUTHENTICATION",
        )
        wrong = merchant.send(method, path, DEPOSIT, {"Authorization": "Bearer x"})
        assert (wrong.status, json.loads(wrong.body)["failureReason"]["failureCode"]) == (
            403,
            "AUTHENTICATION_ERROR",
        )
    assert merchant.simulator.snapshot()["payments"] == []


def test_metadata_and_the_message_come_back_flat() -> None:
    merchant = a_merchant()
    metadata = [{"orderId": "ORD-123456789"}, {"customerId": "customer@email.com", "isPII": True}]
    document = {**DEPOSIT, "customerMessage": "Note of 4 to 22 chars", "metadata": metadata}
    merchant.submit(OperationType.DEPOSIT, document)
    data = merchant.status(OperationType.DEPOSIT)["data"]
    assert data["metadata"] == {"orderId": "ORD-123456789", "customerId": "customer@email.com"}
    assert data["customerMessage"] == "Note of 4 to 22 chars"


# Callbacks and their signatures.


def test_a_callback_is_signed_over_its_digest_and_for_a_minute() -> None:
    merchant = a_merchant()
    merchant.submit(OperationType.DEPOSIT, DEPOSIT)
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


def test_a_callback_is_signed_only_when_asked_to() -> None:
    merchant = a_merchant(signs_callbacks=False)
    merchant.submit(OperationType.DEPOSIT, DEPOSIT)
    [callback] = merchant.wait()
    assert [name for name, _ in callback.headers] == [b"content-type"]
    assert (
        merchant.ask("GET", "/v2/active-conf")["signatureConfiguration"]["signedCallbacks"] is False
    )


def test_a_callback_without_a_200_is_repeated_for_15_minutes_and_signed_anew() -> None:
    merchant, signatures, waited = a_merchant(), set(), []
    merchant.submit(OperationType.DEPOSIT, DEPOSIT)
    for minute in range(60):
        for callback in merchant.wait():
            waited.append(minute)
            signatures.add(callback.value(b"signature-input"))
            response = HttpResponse(503) if len(waited) % 2 else None
            merchant.simulator.on_callback_response(callback, response, now=merchant.now)
    assert waited == [0, 1, 3, 7, 15]
    assert len(signatures) == 5


def test_nothing_is_called_back_without_a_url() -> None:
    merchant = a_merchant(callback_url=None)
    merchant.submit(OperationType.DEPOSIT, DEPOSIT)
    assert merchant.wait() == []


def signed(document: object, key: Any, now: Instant, **headers: str) -> HttpRequest:
    """A submission as the merchant signs it."""
    request = request_to("POST", "https://paw.example/v2/deposits", document)
    return sign_callback(request, key, now=now)


@pytest.mark.parametrize(
    "origin", ["https://paw.example:443", "https://PAW.example", "http://paw.example:80"]
)
def test_a_signature_of_a_merchant_leaves_the_own_port_of_the_scheme_out(origin: str) -> None:
    key = generate_private_key(SECP256R1())
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    merchant = a_merchant(request_key=pem)
    request = evolve(signed(DEPOSIT, key, START), target=f"{origin}/v2/deposits".encode())
    answer = merchant.simulator.handle_request(request, now=START)
    assert isinstance(answer, HttpResponse)
    assert json.loads(answer.body)["status"] == "ACCEPTED"


def test_an_account_that_only_takes_signed_requests_refuses_all_others() -> None:
    key, other = generate_private_key(SECP256R1()), generate_private_key(SECP256R1())
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    merchant = a_merchant(request_key=pem)
    good = signed(DEPOSIT, key, START)
    bad = {
        "unsigned": request_to("POST", "/v2/deposits", DEPOSIT),
        "another key": signed(DEPOSIT, other, START),
        "another body": evolve(good, body=json.dumps({**DEPOSIT, "amount": "200"}).encode()),
        "another path": evolve(good, target=b"https://paw.example/v2/payouts"),
        "another host": evolve(good, target=b"https://other.example/v2/deposits"),
        "old": signed(DEPOSIT, key, Instant(START - 61 * SECOND)),
        "of the future": signed(DEPOSIT, key, later(START, Span(2 * MINUTE))),
    }
    for what, request in bad.items():
        answer = merchant.simulator.handle_request(request, now=START)
        assert isinstance(answer, HttpResponse)
        assert answer.status == 403, what
        assert json.loads(answer.body)["failureReason"]["failureCode"] == "HTTP_SIGNATURE_ERROR"
    assert merchant.simulator.snapshot()["payments"] == []
    answer = merchant.simulator.handle_request(good, now=START)
    assert isinstance(answer, HttpResponse)
    assert json.loads(answer.body)["status"] == "ACCEPTED"
    assert (
        merchant.ask("GET", "/v2/active-conf")["signatureConfiguration"]["signedRequestsOnly"]
        is True
    )


# Refunds.


def refund(**members: str) -> dict[str, str]:
    return {"refundId": OTHER_ID, "depositId": ID, **members}


def a_paid_deposit() -> Merchant:
    merchant = a_merchant()
    merchant.submit(OperationType.DEPOSIT, DEPOSIT)
    merchant.wait()
    return merchant


def test_a_refund_gives_back_the_whole_deposit_unless_it_names_a_part() -> None:
    merchant = a_paid_deposit()
    assert (
        merchant.submit(OperationType.REFUND, refund(amount="100", currency="RWF"))["status"]
        == "ACCEPTED"
    )
    [callback] = merchant.wait()
    told = json.loads(callback.body)
    assert (told["refundId"], told["status"], told["amount"]) == (OTHER_ID, "COMPLETED", "100")
    assert told["recipient"]["accountDetails"]["phoneNumber"] == "250783456789"
    assert merchant.balances()["RWA/RWF"] == "10000000"
    assert merchant.failure(OperationType.REFUND, refund(refundId=ID)) == "DEPOSIT_ALREADY_REFUNDED"
    whole = a_paid_deposit()
    whole.submit(OperationType.REFUND, refund())
    whole.wait()
    assert whole.status(OperationType.REFUND, OTHER_ID)["data"]["amount"] == "100"


def test_no_more_than_the_deposit_is_refunded_and_one_refund_at_a_time() -> None:
    merchant = a_merchant()
    assert merchant.failure(OperationType.REFUND, refund()) == "NOT_FOUND"
    merchant.submit(OperationType.DEPOSIT, {**DEPOSIT, "amount": "300"})
    assert merchant.failure(OperationType.REFUND, refund()) == "INVALID_STATE"
    merchant.wait()
    assert (
        merchant.failure(OperationType.REFUND, refund(amount="301", currency="RWF"))
        == "AMOUNT_TOO_LARGE"
    )
    assert (
        merchant.failure(OperationType.REFUND, refund(amount="100", currency="KES"))
        == "INVALID_CURRENCY"
    )
    merchant.submit(OperationType.REFUND, refund(amount="200", currency="RWF"))
    assert merchant.failure(OperationType.REFUND, refund(refundId=ID)) == "REFUND_IN_PROGRESS"
    merchant.wait()
    assert (
        merchant.failure(OperationType.REFUND, refund(refundId=ID, amount="101"))
        == "AMOUNT_TOO_LARGE"
    )
    merchant.submit(OperationType.REFUND, refund(refundId=ID))
    merchant.wait()
    assert merchant.balances()["RWA/RWF"] == "10000000"


# The account.


def test_a_wallet_that_runs_dry_rejects_pay_outs() -> None:
    merchant = a_merchant()
    merchant.simulator.open_accounts([{"account": "RWA/RWF", "balance": "150"}])
    second = {**PAYOUT, "payoutId": OTHER_ID}
    merchant.submit(OperationType.PAYOUT, PAYOUT)
    merchant.submit(OperationType.PAYOUT, second)  # Both are accepted while the money is there.
    merchant.wait()
    assert merchant.status(OperationType.PAYOUT)["data"]["status"] == "COMPLETED"
    failed = merchant.status(OperationType.PAYOUT, OTHER_ID)["data"]["failureReason"]["failureCode"]
    assert failed == "PAWAPAY_WALLET_OUT_OF_FUNDS"
    third = {**PAYOUT, "payoutId": "f02b543c-541c-4f21-bbea-20d2d56063d6"}
    assert merchant.failure(OperationType.PAYOUT, third) == "PAWAPAY_WALLET_OUT_OF_FUNDS"
    balances = merchant.ask("GET", "/v2/wallet-balances?country=RWA")
    assert balances == {
        "balances": [{"country": "RWA", "balance": "50", "currency": "RWF", "provider": ""}]
    }


def test_a_payer_who_lacks_money_fails() -> None:
    merchant = a_merchant()
    merchant.simulator.open_accounts([{"account": "250783456789/RWF", "balance": "99"}])
    merchant.submit(OperationType.DEPOSIT, DEPOSIT)
    merchant.wait()
    data = merchant.status(OperationType.DEPOSIT)["data"]
    assert data["failureReason"]["failureCode"] == "INSUFFICIENT_BALANCE"


def test_a_delayed_provider_enqueues_pay_outs_and_takes_no_deposits() -> None:
    merchant = a_merchant()
    delayed = {"account": "MTN_MOMO_RWA", "DEPOSIT": "DELAYED", "PAYOUT": "DELAYED"}
    merchant.simulator.open_accounts([delayed])
    assert merchant.failure(OperationType.DEPOSIT, DEPOSIT) == "PROVIDER_TEMPORARILY_UNAVAILABLE"
    merchant.submit(OperationType.PAYOUT, PAYOUT)
    assert merchant.wait(Span(60 * MINUTE)) == []
    assert merchant.status(OperationType.PAYOUT)["data"]["status"] == "ENQUEUED"
    merchant.simulator.open_accounts([{**delayed, "PAYOUT": "OPERATIONAL"}])
    assert merchant.status(OperationType.PAYOUT)["data"]["status"] == "PROCESSING"
    assert len(merchant.wait()) == 1


def test_a_closed_provider_takes_nothing() -> None:
    merchant = a_merchant()
    merchant.simulator.open_accounts([{"account": "MTN_MOMO_RWA", "PAYOUT": "CLOSED"}])
    assert merchant.failure(OperationType.PAYOUT, PAYOUT) == "PROVIDER_TEMPORARILY_UNAVAILABLE"
    [country] = merchant.ask("GET", "/v2/availability?country=RWA&operationType=PAYOUT")
    assert country == {
        "country": "RWA",
        "providers": [
            {
                "provider": "MTN_MOMO_RWA",
                "operationTypes": [{"operationType": "PAYOUT", "status": "CLOSED"}],
            },
            {
                "provider": "AIRTEL_RWA",
                "operationTypes": [{"operationType": "PAYOUT", "status": "OPERATIONAL"}],
            },
        ],
    }


def test_the_active_configuration_names_limits_decimals_and_state() -> None:
    merchant = a_merchant()
    configuration = merchant.ask("GET", "/v2/active-conf?country=KEN&operationType=PAYOUT")
    [country] = configuration["countries"]
    [provider] = country["providers"]
    assert (country["country"], country["prefix"], provider["provider"]) == (
        "KEN",
        "254",
        "MPESA_KEN",
    )
    assert provider["currencies"] == [
        {
            "currency": "KES",
            "displayName": "KES",
            "operationTypes": {
                "PAYOUT": {
                    "minAmount": "1",
                    "maxAmount": "250000",
                    "decimalsInAmount": "TWO_PLACES",
                    "status": "OPERATIONAL",
                    "callbackUrl": HOOK,
                }
            },
        }
    ]
    assert len(merchant.ask("GET", "/v2/active-conf")["countries"]) == len(COUNTRIES)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("+260 763-456789", "MTN_MOMO_ZMB"),
        ("260973456789", "AIRTEL_OAPI_ZMB"),
        ("250783456789", "MTN_MOMO_RWA"),
    ],
)
def test_a_provider_is_predicted_by_a_numbers_digits(number: str, expected: str) -> None:
    told = a_merchant().ask("POST", "/v2/predict-provider", {"phoneNumber": number})
    digits = number.replace("+", "").replace(" ", "").replace("-", "")
    assert told == {"country": expected[-3:], "provider": expected, "phoneNumber": digits}


def test_no_provider_is_predicted_for_a_number_of_no_country() -> None:
    answer = a_merchant().send("POST", "/v2/predict-provider", {"phoneNumber": "123"})
    assert answer.status == 400
    reason = json.loads(answer.body)["failureReason"]
    assert reason["failureCode"] == "INVALID_PHONE_NUMBER"


# Faults.


@BOTH
def test_a_script_decides_the_end_and_the_callbacks(operation: OperationType) -> None:
    merchant = a_merchant()
    merchant.plan(
        operation.lower(),
        EndWith("SOMETHING_NEW", "no"),
        EndAfter(MINUTE),
        CallBack((Span(0), MINUTE)),
    )
    merchant.submit(operation, SUBMISSIONS[operation])
    assert merchant.wait(Span(59 * SECOND)) == []
    assert [len(merchant.wait()) for _ in range(3)] == [1, 1, 0]
    reason = merchant.status(operation)["data"]["failureReason"]
    assert reason == {"failureCode": "SOMETHING_NEW", "failureMessage": "no"}


@BOTH
def test_a_status_check_may_contradict_what_was_paid(operation: OperationType) -> None:
    merchant = a_merchant()
    merchant.plan(operation.lower(), PollWith("UNSPECIFIED_FAILURE"))
    merchant.submit(operation, SUBMISSIONS[operation])
    [callback] = merchant.wait()
    assert json.loads(callback.body)["status"] == "COMPLETED"
    assert merchant.status(operation)["data"]["status"] == "FAILED"


@BOTH
@pytest.mark.parametrize(("fault", "is_known"), [(LoseRequest(), False), (LoseAnswer(), True)])
def test_a_request_or_its_answer_may_be_lost(
    fault: Fault, is_known: bool, operation: OperationType
) -> None:
    merchant = a_merchant()
    merchant.plan(operation.lower(), fault)
    request = request_to("POST", path_of(operation), SUBMISSIONS[operation])
    assert isinstance(merchant.simulator.handle_request(request, now=START), DroppedConnection)
    assert (merchant.status(operation)["status"] == "FOUND") is is_known


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
    request = HttpRequest(
        "POST",
        b"/_simulator/accounts",
        ((b"host", b"localhost"),),
        json.dumps({"accounts": [account]}).encode(),
    )
    answer = handle_control_request(open_pawapay(), request)
    assert answer is not None
    assert answer.status == 400


def test_another_path_is_not_there() -> None:
    assert a_merchant().send("GET", "/v1/deposits").status == 404


WAVE = {
    "amount": "100",
    "currency": "XOF",
    "successfulUrl": "https://pages.example/pay/key/back",
    "failedUrl": "https://pages.example/pay/key/back?x=1",
}


def a_wave_deposit(merchant: Merchant) -> Any:
    members = {**to(OperationType.DEPOSIT, "221773456789", "WAVE_SEN"), **WAVE}
    return merchant.submit(OperationType.DEPOSIT, a_submission(OperationType.DEPOSIT, **members))


def test_a_deposit_of_wave_has_its_page_a_moment_after_the_acceptance() -> None:
    merchant = a_merchant()
    assert a_wave_deposit(merchant)["nextStep"] == "GET_AUTH_URL"
    assert "authorizationUrl" not in merchant.status(OperationType.DEPOSIT)["data"]
    merchant.wait(Span(SECOND))
    data = merchant.status(OperationType.DEPOSIT)["data"]
    assert (data["status"], data["nextStep"]) == ("PROCESSING", "REDIRECT_TO_AUTH_URL")
    assert data["authorizationUrl"] == f"http://paw.example/approve/{ID}"
    page = merchant.send("GET", f"/approve/{ID}")
    assert b"Approve" in page.body
    assert b"221773456789" in page.body


@pytest.mark.parametrize(
    ("decision", "back", "status"),
    [("approve", WAVE["successfulUrl"], "COMPLETED"), ("decline", WAVE["failedUrl"], "FAILED")],
)
def test_what_a_payer_says_there_counts_once_and_leads_back(
    decision: str, back: str, status: str
) -> None:
    merchant = a_merchant()
    a_wave_deposit(merchant)
    said = merchant.approve(decision=decision)
    assert (said.status, said.value(b"location")) == (303, back.encode())
    merchant.wait()
    for each in ("approve", "decline"):
        assert merchant.approve(decision=each).status == 303
    data = merchant.status(OperationType.DEPOSIT)["data"]
    assert data["status"] == status
    assert "authorizationUrl" not in data
    assert b"<button" not in merchant.send("GET", f"/approve/{ID}").body
    paid = merchant.balances()["SEN/XOF"]
    assert paid == ("10000100" if status == "COMPLETED" else "10000000")


def test_a_deposit_that_nobody_approves_fails_after_a_quarter_of_an_hour() -> None:
    merchant = a_merchant()
    a_wave_deposit(merchant)
    merchant.wait(Span(14 * MINUTE))
    assert merchant.status(OperationType.DEPOSIT)["data"]["status"] == "PROCESSING"
    merchant.wait(Span(2 * MINUTE))
    data = merchant.status(OperationType.DEPOSIT)["data"]
    assert data["failureReason"]["failureCode"] == "PAYMENT_NOT_APPROVED"


def test_what_takes_long_after_the_approval_does_not_end_with_the_page() -> None:
    merchant = a_merchant()
    merchant.plan("deposit", EndAfter(HOUR))
    a_wave_deposit(merchant)
    merchant.approve()
    merchant.wait(Span(30 * MINUTE))
    assert merchant.status(OperationType.DEPOSIT)["data"]["status"] == "PROCESSING"
    merchant.wait(Span(31 * MINUTE))
    assert merchant.status(OperationType.DEPOSIT)["data"]["status"] == "COMPLETED"


def test_there_is_no_page_of_another_payment() -> None:
    merchant = a_merchant()
    assert merchant.send("GET", f"/approve/{ID}").status == 404
    merchant.submit(OperationType.DEPOSIT, a_submission(OperationType.DEPOSIT))
    assert merchant.approve().status == 404


def test_a_deposit_of_orange_in_burkina_faso_needs_a_code_that_is_right() -> None:
    merchant = a_merchant()
    members = {
        **to(OperationType.DEPOSIT, "22607345789", "ORANGE_BFA"),
        "amount": "100",
        "currency": "XOF",
    }
    submission = a_submission(OperationType.DEPOSIT, **members)
    refused = merchant.send("POST", path_of(OperationType.DEPOSIT), submission)
    assert (refused.status, b"MISSING_PARAMETER" in refused.body) == (400, True)
    merchant.submit(OperationType.DEPOSIT, submission | {"preAuthorisationCode": WRONG_CODE})
    merchant.wait()
    data = merchant.status(OperationType.DEPOSIT)["data"]
    assert data["failureReason"]["failureCode"] == "PAYMENT_NOT_APPROVED"


def test_the_active_configuration_says_how_payers_approve() -> None:
    told = {}
    for country in a_merchant().ask("GET", "/v2/active-conf")["countries"]:
        for provider in country["providers"]:
            deposit = provider["currencies"][0]["operationTypes"]["DEPOSIT"]
            told[provider["provider"]] = deposit
    assert told["WAVE_SEN"]["authType"] == "REDIRECT_AUTH"
    assert told["MTN_MOMO_RWA"]["authType"] == "PROVIDER_AUTH"
    orange = told["ORANGE_BFA"]
    assert orange["authType"] == "PREAUTH"
    [channel] = orange["authTokenInstructions"]["channels"]
    assert set(channel["instructions"]) == {"en", "fr"}

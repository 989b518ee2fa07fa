"""Simulates MTN MoMo: the Open API of its products, with wallets, tokens and callbacks.

    POST /v1_0/apiuser                                            an API user of one's own
    POST /v1_0/apiuser/{id}/apikey, GET /v1_0/apiuser/{id}        its key and its data
    POST /{product}/token/                                        an access token
    POST /{product}/{version}/{operation}                         a submission, see `submissions`
    GET  /{product}/v1_0/{operation}/{X-Reference-Id}             the state of a submission
    GET  /{product}/v1_0/account/balance                          and .../balance/{currency}
    GET  /{product}/v1_0/accountholder/msisdn/{number}/active     and .../basicuserinfo

Numbers of the operator's own sandbox mean what they mean there (`sandbox_numbers`); any other has a wallet. A fault is
planned `at` token, the name of a submission (requesttopay, requesttowithdraw, transfer, deposit, refund, remittance),
ask (a poll) or account (all else).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import Factory, define, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import SECOND, Instant, Span, later
from mmo_trio.simulators.base import (
    DroppedConnection,
    EndWith,
    Fault,
    FaultScript,
    RequestRejected,
    find_fault,
    json_response,
    parse_json_object,
    path_and_query,
    respond_with_faults,
)
from mmo_trio.simulators.mtn.accounts import SimulatedMtnAccounts, format_plain
from mmo_trio.simulators.mtn.request_checks import (
    get_header,
    invalid_request,
    parse_basic_credentials,
    parse_bearer_token,
    parse_callback_url,
    parse_reference_id,
    parse_submission,
    rejection,
    unauthorized,
)
from mmo_trio.simulators.mtn.sandbox_numbers import (
    ACCOUNT_HOLDERS_BY_NUMBER,
    IMMEDIATE_REJECTION_STATUSES,
    OUTCOMES_BY_NUMBER,
)
from mmo_trio.simulators.mtn.submissions import KINDS_BY_PATH, PRODUCTS, SubmissionKind

API_USER: Final = "c72025f5-5cd1-4630-99e4-8ba4722fad56"
API_KEY: Final = "f1db798c98df4bcf83b538175893bbf0"
COLLECTION_KEY: Final = "5c011ec7104e4d84a1f0c2e9106a2d34"
DISBURSEMENT_KEY: Final = "d15b0250e3f74a6c9b1d7e2f4c8a0b36"
REMITTANCE_KEY: Final = "4e317a9cb20f4c5d8a6b1f3e7d9c2b40"
"""The credentials of a simulator that was given no others. Subscription keys have 32 hexadecimal digits, as MTN's
have."""

TOKEN_LIFETIME = Span(3600 * SECOND)


@define(eq=False)
class _ApiUser:
    key: str | None = field(default=None, repr=False)
    callback_host: str | None = None


@define(eq=False)
class MtnSimulator:
    """Simulates the operator in one market, with one merchant."""

    market: str = "sandbox"
    accounts: SimulatedMtnAccounts = Factory(SimulatedMtnAccounts)
    subscription_keys: Mapping[str, str] = field(
        factory=lambda: dict(zip(PRODUCTS, (COLLECTION_KEY, DISBURSEMENT_KEY, REMITTANCE_KEY), strict=True)), repr=False
    )
    """By product."""
    rejects_immediately: bool = False
    """Whether test numbers that stand for an error are rejected when submitted; otherwise they end as failed payments.
    The documentation doesn't say which, and clients have seen both."""
    requires_token_environment: bool = False
    """Whether a token request needs the X-Target-Environment, as on the platform momoapi.momo.africa."""
    callback_host: str | None = None
    """The host that the given API user has registered; None: any host is accepted."""
    token_lifetime: Span = TOKEN_LIFETIME
    faults: FaultScript = Factory(FaultScript)
    _users: dict[str, _ApiUser] = Factory(dict)
    _tokens: dict[str, tuple[str, str, Instant]] = field(factory=dict, repr=False)
    """By token: its product, its user and its end."""
    _secret_count: int = 0

    def __attrs_post_init__(self) -> None:
        self._users[API_USER] = _ApiUser(API_KEY, self.callback_host)

    def handle_request(self, request: HttpRequest, *, now: Instant) -> HttpResponse | DroppedConnection:
        """Return the response to a request of its API."""
        self.accounts.complete_due(now=now)
        path, _ = path_and_query(request)
        met = self.faults.take_matching(_operation_name(request.method, path))
        return respond_with_faults(met, lambda: self._route(request, path, met, now=now))

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Return the callbacks to send now."""
        self.accounts.complete_due(now=now)
        return self.accounts.take_due_callbacks(now=now)

    def next_due_at(self) -> Instant | None:
        """Return when the next result or callback is due."""
        return self.accounts.next_due_at()

    def on_callback_response(self, request: HttpRequest, response: HttpResponse | None, *, now: Instant) -> None:
        """Ignore the response: a callback is sent once."""

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open `{"account": "46733123999", "balance": "100.00"}`; `collection`, `disbursement` and `remittance` are
        the merchant's accounts."""
        for each in accounts:
            account, balance = each.get("account"), each.get("balance")
            if not isinstance(account, str) or not isinstance(balance, str):
                raise ValueError("account and balance must be text")
            self.accounts.open_account(account, balance)

    def snapshot(self) -> Mapping[str, Any]:
        """Return every balance and every submission that was accepted."""
        return self.accounts.snapshot()

    def _route(self, request: HttpRequest, path: str, faults: Sequence[Fault], *, now: Instant) -> HttpResponse:
        product, *rest = path.split("/")[1:]
        if product == "v1_0" and rest[:1] == ["apiuser"]:
            return self._provision_api_user(request, rest[1:])
        if product not in self.subscription_keys:
            raise _no_such_route()
        self._check_subscription(request, (product,))
        if (request.method, rest) == ("POST", ["token", ""]):
            return self._issue_token(request, product, now=now)
        user = self._check_token(request, product, now=now)
        match request.method, rest:
            case "POST", _ if path in KINDS_BY_PATH:
                return self._accept_submission(request, KINDS_BY_PATH[path], user, faults, now=now)
            case "GET", ["v1_0", "account", "balance", *currency] if len(currency) < 2:
                return self._balance(product, *currency)
            case "GET", ["v1_0", segment, reference_id] if (path_of := f"/{product}/v1_0/{segment}") in KINDS_BY_PATH:
                return self._payment_status(KINDS_BY_PATH[path_of], reference_id.lower())
            case "GET", ["v1_0", "accountholder", "msisdn" | "MSISDN", number, "active"]:
                return self._account_holder_active(number)
            case "GET", ["v1_0", "accountholder", "msisdn", number, "basicuserinfo"]:
                self._check_account_holder(number)
                name = {"given_name": "Sand", "family_name": "Box", "name": "Sand Box"}
                return json_response(200, {"sub": number, **name, "locale": "sv_SE"})
            case _:
                raise _no_such_route()

    def _provision_api_user(self, request: HttpRequest, rest: list[str]) -> HttpResponse:
        """Handle what the operator offers in its sandbox only: API users that clients create."""
        self._check_subscription(request, tuple(self.subscription_keys))
        match request.method, rest:
            case "POST", []:
                user = parse_reference_id(request)
                if user in self._users:
                    raise _duplicate_reference()
                self._users[user] = _ApiUser(None, _callback_host(request.body))
                return HttpResponse(201)
            case "POST", [user, "apikey"] if user in self._users:
                self._users[user].key = key = self._generate_secret("key", user)
                return json_response(201, {"apiKey": key})
            case "GET", [user] if user in self._users:
                host = self._users[user].callback_host
                server = f"http://{get_header(request, 'Host') or 'localhost'}"
                document = {"providerCallbackHost": host, "paymentServerUrl": server, "targetEnvironment": self.market}
                return json_response(200, document)
            case _:
                raise _not_found()

    def _issue_token(self, request: HttpRequest, product: str, *, now: Instant) -> HttpResponse:
        user, key = parse_basic_credentials(request)
        known = self._users.get(user)
        if known is None or known.key is None or not _is_equal_constant_time(known.key, key):
            raise RequestRejected(json_response(500, {"error": "login_failed"}))
        if self.requires_token_environment and get_header(request, "X-Target-Environment") != self.market:
            raise RequestRejected(json_response(400, {"error": "Invalid or missing X-Target-Environment header"}))
        token = self._generate_secret("token", f"{user} {product}")
        self._tokens[token] = (product, user, later(now, self.token_lifetime))
        document = {"access_token": token, "token_type": "access_token", "expires_in": self.token_lifetime // SECOND}
        return json_response(200, document)

    def _accept_submission(
        self, request: HttpRequest, kind: SubmissionKind, user: str, faults: Sequence[Fault], *, now: Instant
    ) -> HttpResponse:
        reference_id = parse_reference_id(request)
        callback_url = parse_callback_url(request, self._users[user].callback_host)
        document, amount = parse_submission(request, kind, self.accounts.currency)
        if self.accounts.find_payment(reference_id) is not None:
            raise _duplicate_reference()
        ending = OUTCOMES_BY_NUMBER[kind.name].get(kind.test_value(document), "")
        if self.rejects_immediately and ending in IMMEDIATE_REJECTION_STATUSES and find_fault(EndWith, faults) is None:
            raise rejection(IMMEDIATE_REJECTION_STATUSES[ending], ending, ending.replace("_", " ").capitalize())
        self.accounts.accept_submission(kind, reference_id, document, amount, callback_url, faults, now=now)
        return HttpResponse(202)

    def _balance(self, product: str, currency: str | None = None) -> HttpResponse:
        balance = self.accounts.balance(product)
        assert balance is not None  # The merchant's own is always there.
        if currency not in (None, balance.currency):
            raise rejection(500, "INVALID_CURRENCY", "Currency not supported.")
        document = {"availableBalance": format_plain(balance), "currency": balance.currency}
        return json_response(200, document)

    def _payment_status(self, kind: SubmissionKind, reference_id: str) -> HttpResponse:
        payment = self.accounts.find_payment(reference_id)
        if payment is None or payment.kind != kind:
            raise _not_found()
        return json_response(200, self.accounts.payment_document(payment))

    def _check_subscription(self, request: HttpRequest, products: Sequence[str]) -> None:
        key = get_header(request, "Ocp-Apim-Subscription-Key") or ""
        if not any(_is_equal_constant_time(self.subscription_keys[each], key) for each in products):
            raise unauthorized("Access denied due to invalid subscription key")

    def _check_token(self, request: HttpRequest, product: str, *, now: Instant) -> str:
        """Return the user of the request's token. Raises RequestRejected."""
        its_product, user, expires_at = self._tokens.get(parse_bearer_token(request), ("", "", 0))
        if its_product != product or now >= expires_at:
            raise unauthorized("invalid or expired access token")
        environment = get_header(request, "X-Target-Environment")
        if not environment:
            raise invalid_request("X-Target-Environment is missing")
        if environment != self.market:
            raise rejection(500, "NOT_ALLOWED_TARGET_ENVIRONMENT", "Access to target is forbidden.")
        return user

    def _account_holder_active(self, number: str) -> HttpResponse:
        match ACCOUNT_HOLDERS_BY_NUMBER.get(number):
            case None:
                self._check_account_holder(number)
                return json_response(200, {"result": True})
            case "NOT_FOUND":
                raise _not_found()
            case "NOT_ACTIVE":
                return json_response(200, {"result": False})
            case code:
                raise rejection(IMMEDIATE_REJECTION_STATUSES[code], code, code.replace("_", " ").capitalize())

    def _check_account_holder(self, number: str) -> None:
        if self.accounts.balance(number) is None:
            raise _not_found()

    def _generate_secret(self, what: str, whose: str) -> str:
        self._secret_count += 1
        return hashlib.sha256(f"{what} {whose} {self._secret_count}".encode()).hexdigest()[:32]


def _operation_name(method: str, path: str) -> str:
    if method == "POST" and path in KINDS_BY_PATH:
        return KINDS_BY_PATH[path].name
    if path.endswith("/token/"):
        return "token"
    return "ask" if path.rpartition("/")[0] in KINDS_BY_PATH else "account"


def _callback_host(body: bytes) -> str:
    try:
        host = parse_json_object(body).get("providerCallbackHost")
    except ValueError:
        host = None
    if not isinstance(host, str):
        raise invalid_request("providerCallbackHost must be a string")
    return host


def _is_equal_constant_time(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _duplicate_reference() -> RequestRejected:
    message = "Duplicated reference id. Creation of resource failed."
    return rejection(409, "RESOURCE_ALREADY_EXIST", message)


def _not_found() -> RequestRejected:
    return rejection(404, "RESOURCE_NOT_FOUND", "Requested resource was not found.")


def _no_such_route() -> RequestRejected:
    return RequestRejected(json_response(404, {"statusCode": 404, "message": "Resource not found"}))

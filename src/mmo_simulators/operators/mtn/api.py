"""Simulates MTN MoMo: the Open API of its products, with wallets, tokens and callbacks.

    POST /v1_0/apiuser                                            an API user of one's own
    POST /v1_0/apiuser/{id}/apikey, GET /v1_0/apiuser/{id}        its key and its data
    POST /{product}/token/                                        an access token
    POST /{product}/{version}/{operation}                         a submission, see `submissions`
    GET  /{product}/v1_0/{operation}/{X-Reference-Id}             the state of a submission
    GET  /{product}/v1_0/account/balance                          and .../balance/{currency}
    GET  /{product}/v1_0/accountholder/msisdn/{number}/active     and .../basicuserinfo

Numbers of the operator's own sandbox mean what they mean there (`sandbox_numbers`); any other has a
wallet. A fault is planned `at` token, the name of a submission (requesttopay, requesttowithdraw,
transfer, deposit, refund, remittance), ask (a poll) or account (all else)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import Factory, define, field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import SECOND, Instant, Span, later
from mmo_simulators.common.faults import (
    DroppedConnection,
    EndWith,
    FaultScript,
    RequestRejected,
    find_fault,
    respond_with_faults,
)
from mmo_simulators.common.messages import json_response, parse_json_object, path_and_query
from mmo_simulators.common.operator_routes import SimulatedCall, SimulatedRoute, match_route
from mmo_simulators.operators.mtn.accounts import SimulatedMtnAccounts, format_plain
from mmo_simulators.operators.mtn.request_checks import (
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
from mmo_simulators.operators.mtn.sandbox_numbers import (
    ACCOUNT_HOLDERS_BY_NUMBER,
    IMMEDIATE_REJECTION_STATUSES,
    OUTCOMES_BY_NUMBER,
)
from mmo_simulators.operators.mtn.submissions import KINDS, KINDS_BY_PATH, PRODUCTS, SubmissionKind

# The credentials of a simulator that was given no others. Subscription keys have 32 hexadecimal
# digits, as MTN's have.
API_USER: Final = "c72025f5-5cd1-4630-99e4-8ba4722fad56"
API_KEY: Final = "f1db798c98df4bcf83b538175893bbf0"
COLLECTION_KEY: Final = "5c011ec7104e4d84a1f0c2e9106a2d34"
DISBURSEMENT_KEY: Final = "d15b0250e3f74a6c9b1d7e2f4c8a0b36"
REMITTANCE_KEY: Final = "4e317a9cb20f4c5d8a6b1f3e7d9c2b40"

# An hour, as in the answers that clients' tests have.
TOKEN_LIFETIME = Span(3600 * SECOND)


# The sandbox makes a user first and its key then (documented): without one nobody signs in.
@define(eq=False)
class _ApiUser:
    key: str | None = field(default=None, repr=False)
    callback_host: str | None = None


@frozen
class _Token:
    product: str
    """The only product that it opens."""
    user: str
    expires_at: Instant


@define(eq=False)
class MtnSimulator:
    """Simulates the operator in one market, with one merchant."""

    market: str = "sandbox"
    accounts: SimulatedMtnAccounts = Factory(SimulatedMtnAccounts)
    subscription_keys: Mapping[str, str] = field(
        factory=lambda: dict(
            zip(PRODUCTS, (COLLECTION_KEY, DISBURSEMENT_KEY, REMITTANCE_KEY), strict=True)
        ),
        repr=False,
    )
    """By product."""
    rejects_immediately: bool = False
    """Whether test numbers that stand for an error are rejected when submitted; otherwise they end
    as failed payments. The documentation doesn't say which, and clients have seen both."""
    requires_token_environment: bool = False
    """Whether a token request needs the X-Target-Environment, as on the platform
    momoapi.momo.africa."""
    callback_host: str | None = None
    """The host that the given API user has registered; None: any host is accepted."""
    token_lifetime: Span = TOKEN_LIFETIME
    faults: FaultScript = Factory(FaultScript)
    _users: dict[str, _ApiUser] = Factory(dict)
    _tokens: dict[str, _Token] = field(factory=dict, repr=False)
    """By their texts, which requests bear."""
    _secret_count: int = 0

    def __attrs_post_init__(self) -> None:
        self._users[API_USER] = _ApiUser(API_KEY, self.callback_host)

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        """Return the response to a request of its API."""
        # What has fallen due counts for this request, as no clock runs here.
        self.accounts.complete_due(now=now)
        path, _ = path_and_query(request)
        match = match_route(ROUTES, request.method, path)
        if match is None:
            return respond_with_faults(
                self.faults.take_matching("account"), lambda: _no_such_route().response
            )

        route, segments = match
        call = SimulatedCall(
            request, path, segments, self.faults.take_matching(route.operation), now
        )
        return respond_with_faults(call.faults, lambda: route.handler(self, call))

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Return the callbacks to send now."""
        self.accounts.complete_due(now=now)
        return self.accounts.take_due_callbacks(now=now)

    def next_due_at(self) -> Instant | None:
        """Return when the next result or callback is due."""
        return self.accounts.next_due_at()

    def on_callback_response(
        self, request: HttpRequest, response: HttpResponse | None, *, now: Instant
    ) -> None:
        """Ignore the response: a callback is sent once."""

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open `{"account": "46733123999", "balance": "100.00"}`; `collection`, `disbursement` and
        `remittance` are the merchant's accounts. `{"account": "numbers", "as_seen": true}` switches
        `SimulatedMtnAccounts.numbers_as_seen`."""
        for simulated in accounts:
            if simulated.get("account") == "numbers":
                if not isinstance(simulated.get("as_seen"), bool):
                    raise ValueError("as_seen must be true or false")

                self.accounts.numbers_as_seen = simulated["as_seen"]
                continue

            account = simulated.get("account")
            balance = simulated.get("balance")
            if not isinstance(account, str) or not isinstance(balance, str):
                raise ValueError("account and balance must be text")

            self.accounts.open_account(account, balance)

    def snapshot(self) -> Mapping[str, Any]:
        """Return every balance and every submission that was accepted."""
        return self.accounts.snapshot()

    def _create_api_user(self, call: SimulatedCall) -> HttpResponse:
        """Create an API user, which the operator offers in its sandbox only."""
        self._check_subscription(call.request, self.subscription_keys)
        user = parse_reference_id(call.request)
        if user in self._users:
            raise _duplicate_reference()
        self._users[user] = _ApiUser(None, _callback_host(call.request.body))
        return HttpResponse(201)

    def _create_api_key(self, call: SimulatedCall) -> HttpResponse:
        user = self._find_api_user(call)
        user.key = key = self._generate_secret("key", call.segments["user"])
        return json_response(201, {"apiKey": key})

    def _api_user(self, call: SimulatedCall) -> HttpResponse:
        host = self._find_api_user(call).callback_host
        server = f"http://{get_header(call.request, 'Host') or 'localhost'}"
        document = {
            "providerCallbackHost": host,
            "paymentServerUrl": server,
            "targetEnvironment": self.market,
        }
        return json_response(200, document)

    def _find_api_user(self, call: SimulatedCall) -> _ApiUser:
        self._check_subscription(call.request, self.subscription_keys)
        user = self._users.get(call.segments["user"])
        if user is None:
            raise _not_found()
        return user

    def _issue_token(self, call: SimulatedCall) -> HttpResponse:
        product = self._check_product(call)
        user, key = parse_basic_credentials(call.request)
        known = self._users.get(user)
        # Which of both is wrong nobody is told.
        if known is None or known.key is None or not _is_equal_constant_time(known.key, key):
            raise RequestRejected(json_response(500, {"error": "login_failed"}))

        if (
            self.requires_token_environment
            and get_header(call.request, "X-Target-Environment") != self.market
        ):
            raise RequestRejected(
                json_response(400, {"error": "Invalid or missing X-Target-Environment header"})
            )

        # A token is for one product (documented): that of the path that has given it.
        text = self._generate_secret("token", f"{user} {product}")
        self._tokens[text] = _Token(product, user, later(call.now, self.token_lifetime))
        document = {
            "access_token": text,
            "token_type": "access_token",
            "expires_in": self.token_lifetime // SECOND,
        }
        return json_response(200, document)

    def _accept_submission(self, kind: SubmissionKind, call: SimulatedCall) -> HttpResponse:
        user = self._check_token(call)
        reference_id = parse_reference_id(call.request)
        callback_url = parse_callback_url(call.request, self._users[user].callback_host)
        document, amount = parse_submission(call.request, kind, self.accounts.currency)
        # After all checks: a request that is refused uses up no id.
        if self.accounts.find_payment(reference_id) is not None:
            raise _duplicate_reference()

        # Some clients have seen an error at once where others have seen a failed payment.
        ending = OUTCOMES_BY_NUMBER[kind.name].get(kind.test_value(document), "")
        if (
            self.rejects_immediately
            and ending in IMMEDIATE_REJECTION_STATUSES
            and find_fault(EndWith, call.faults) is None
        ):
            raise rejection(
                IMMEDIATE_REJECTION_STATUSES[ending], ending, ending.replace("_", " ").capitalize()
            )

        self.accounts.accept_submission(
            kind, reference_id, document, amount, callback_url, call.faults, now=call.now
        )
        return HttpResponse(202)

    def _balance(self, call: SimulatedCall) -> HttpResponse:
        self._check_token(call)
        balance = self.accounts.balance(call.segments["product"])
        currency = call.segments.get("currency")
        assert balance is not None  # The merchant's own is always there.
        if currency not in (None, balance.currency):
            raise rejection(500, "INVALID_CURRENCY", "Currency not supported.")
        document = {"availableBalance": format_plain(balance), "currency": balance.currency}
        return json_response(200, document)

    def _payment_status(self, kind: SubmissionKind, call: SimulatedCall) -> HttpResponse:
        self._check_token(call)
        payment = self.accounts.find_payment(call.segments["reference_id"].lower())
        if payment is None or payment.kind != kind:
            raise _not_found()
        return json_response(200, self.accounts.payment_document(payment))

    def _check_product(self, call: SimulatedCall) -> str:
        """Return the product of the request's path, which its subscription key has to open. Raises
        RequestRejected."""
        product = call.path.split("/")[1]
        if product not in self.subscription_keys:
            raise _no_such_route()
        self._check_subscription(call.request, (product,))
        return product

    def _check_subscription(self, request: HttpRequest, products: Iterable[str]) -> None:
        key = get_header(request, "Ocp-Apim-Subscription-Key") or ""
        if not any(
            _is_equal_constant_time(self.subscription_keys[product], key) for product in products
        ):
            raise unauthorized("Access denied due to invalid subscription key")

    def _check_token(self, call: SimulatedCall) -> str:
        """Return the user of the request's token. Raises RequestRejected."""
        product = self._check_product(call)
        token = self._tokens.get(parse_bearer_token(call.request))
        if token is None or token.product != product or call.now >= token.expires_at:
            raise unauthorized("invalid or expired access token")

        environment = get_header(call.request, "X-Target-Environment")
        if not environment:
            raise invalid_request("X-Target-Environment is missing")
        if environment != self.market:
            raise rejection(500, "NOT_ALLOWED_TARGET_ENVIRONMENT", "Access to target is forbidden.")

        return token.user

    def _account_holder_active(self, call: SimulatedCall) -> HttpResponse:
        self._check_token(call)
        number = call.segments["number"]
        match ACCOUNT_HOLDERS_BY_NUMBER.get(number):
            case None:
                self._check_account_holder(number)
                return json_response(200, {"result": True})
            case "NOT_FOUND":
                raise _not_found()
            case "NOT_ACTIVE":
                return json_response(200, {"result": False})
            case code:
                raise rejection(
                    IMMEDIATE_REJECTION_STATUSES[code], code, code.replace("_", " ").capitalize()
                )

    def _user_info(self, call: SimulatedCall) -> HttpResponse:
        self._check_token(call)
        number = call.segments["number"]
        self._check_account_holder(number)
        name = {"given_name": "Sand", "family_name": "Box", "name": "Sand Box"}
        return json_response(200, {"sub": number, **name, "locale": "sv_SE"})

    def _check_account_holder(self, number: str) -> None:
        if self.accounts.balance(number) is None:
            raise _not_found()

    def _generate_secret(self, what: str, whose: str) -> str:
        # Counted, not random: a run can be repeated byte for byte.
        self._secret_count += 1
        return hashlib.sha256(f"{what} {whose} {self._secret_count}".encode()).hexdigest()[:32]


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


MtnHandler: TypeAlias = Callable[[MtnSimulator, SimulatedCall], HttpResponse]


def _submission_of(kind: SubmissionKind) -> MtnHandler:
    return lambda simulator, call: simulator._accept_submission(kind, call)


def _status_of(kind: SubmissionKind) -> MtnHandler:
    return lambda simulator, call: simulator._payment_status(kind, call)


# All that is offered. Clients write the type of an account holder in small or capital letters.
ROUTES: Final[tuple[SimulatedRoute[MtnHandler], ...]] = (
    SimulatedRoute("account", "POST", "/v1_0/apiuser", MtnSimulator._create_api_user),
    SimulatedRoute("account", "POST", "/v1_0/apiuser/{user}/apikey", MtnSimulator._create_api_key),
    SimulatedRoute("account", "GET", "/v1_0/apiuser/{user}", MtnSimulator._api_user),
    SimulatedRoute("token", "POST", "/{product}/token/", MtnSimulator._issue_token),
    *(
        SimulatedRoute(kind.name, "POST", path, _submission_of(kind))
        for path, kind in KINDS_BY_PATH.items()
    ),
    *(
        SimulatedRoute(
            "ask", "GET", f"/{kind.product}/v1_0/{kind.segment}/{{reference_id}}", _status_of(kind)
        )
        for kind in KINDS.values()
    ),
    SimulatedRoute("account", "GET", "/{product}/v1_0/account/balance", MtnSimulator._balance),
    SimulatedRoute(
        "account", "GET", "/{product}/v1_0/account/balance/{currency}", MtnSimulator._balance
    ),
    SimulatedRoute(
        "account",
        "GET",
        "/{product}/v1_0/accountholder/msisdn/{number}/active",
        MtnSimulator._account_holder_active,
    ),
    SimulatedRoute(
        "account",
        "GET",
        "/{product}/v1_0/accountholder/MSISDN/{number}/active",
        MtnSimulator._account_holder_active,
    ),
    SimulatedRoute(
        "account",
        "GET",
        "/{product}/v1_0/accountholder/msisdn/{number}/basicuserinfo",
        MtnSimulator._user_info,
    ),
)

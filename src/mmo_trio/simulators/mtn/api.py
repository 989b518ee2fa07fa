"""A make-believe MTN MoMo: the Open API of Collection and Disbursement, with wallets, tokens and callbacks.

    POST /v1_0/apiuser, POST /v1_0/apiuser/{id}/apikey, GET /v1_0/apiuser/{id}      an API user of one's own
    POST /{product}/token/                                                           an access token
    POST /collection/v1_0/requesttopay     POST /disbursement/v1_0/transfer          a submission
    POST /disbursement/v1_0/deposit        POST /disbursement/v2_0/deposit           another
    GET  .../{X-Reference-Id}                                                        what became of it
    GET  /{product}/v1_0/account/balance
    GET  /{product}/v1_0/accountholder/msisdn/{number}/active                        and .../basicuserinfo

Numbers of the operator's own sandbox mean what they mean there (:mod:`.mtn_parties`); any other has a wallet. A fault
is planned `at` token, requesttopay, transfer, deposit, ask (a question about a payment) or account (all else).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import Factory, define, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import SECOND, Instant, Span
from mmo_trio.simulators.base import (
    EndWith,
    Fault,
    Faults,
    NoAnswer,
    answered,
    control,
    find,
    json_answer,
    json_object,
    path_and_query,
)
from mmo_trio.simulators.mtn.accounts import PARTIES, PRODUCTS, Till, plain
from mmo_trio.simulators.mtn.request_checks import (
    Refused,
    basic_of,
    bearer_of,
    callback_of,
    denied,
    header_of,
    invalid,
    payment_of,
    reference_of,
    refusal,
)
from mmo_trio.simulators.mtn.test_numbers import AT_ONCE, ENDINGS

API_USER: Final = "c72025f5-5cd1-4630-99e4-8ba4722fad56"
API_KEY: Final = "f1db798c98df4bcf83b538175893bbf0"
COLLECTION_KEY: Final = "simulated-collection-key"
DISBURSEMENT_KEY: Final = "simulated-disbursement-key"
"""What opens a simulator that was given no other keys."""

TOKEN_LIFE: Final[Span] = 3600 * SECOND

_SUBMISSIONS: Final = {
    "/collection/v1_0/requesttopay": "requesttopay",
    "/disbursement/v1_0/transfer": "transfer",
    "/disbursement/v1_0/deposit": "deposit",
    "/disbursement/v2_0/deposit": "deposit",
}


@define(eq=False)
class _User:
    key: str | None = field(default=None, repr=False)
    callback_host: str | None = None


@define(eq=False)
class MtnSimulator:
    """One market of the operator, with one merchant."""

    market: str = "sandbox"
    till: Till = Factory(Till)
    subscription_keys: Mapping[str, str] = field(
        factory=lambda: {"collection": COLLECTION_KEY, "disbursement": DISBURSEMENT_KEY}, repr=False
    )
    """By product."""
    refuses_at_once: bool = False
    """Whether test numbers that stand for a fault are refused when submitted; otherwise they end as failed payments.
    The documentation doesn't say which, and clients have seen both."""
    callback_host: str | None = None
    """What the given API user has registered; None: anything goes."""
    token_life: Span = TOKEN_LIFE
    faults: Faults = Factory(Faults)
    _users: dict[str, _User] = Factory(dict)
    _tokens: dict[str, tuple[str, str, Instant]] = field(factory=dict, repr=False)
    """By token: its product, its user and its end."""
    _made: int = 0

    def __attrs_post_init__(self) -> None:
        self._users[API_USER] = _User(API_KEY, self.callback_host)

    def receive(self, request: HttpRequest, *, now: Instant) -> HttpResponse | NoAnswer:
        """Its answer to a request of its API."""
        self.till.settle(now=now)
        if (answer := control(self, request)) is not None:
            return answer
        path, _ = path_and_query(request)
        met = self.faults.meet(_operation(request.method, path))

        def act() -> HttpResponse:
            try:
                return self._route(request, path, met, now=now)
            except Refused as refused:
                return refused.answer

        return answered(met, act)

    def due(self, *, now: Instant) -> Sequence[HttpRequest]:
        """The callbacks to send now."""
        self.till.settle(now=now)
        return self.till.due(now=now)

    def next_due(self) -> Instant | None:
        """When to ask `due` again."""
        return self.till.next_due()

    def heard(self, request: HttpRequest, answer: HttpResponse | None, *, now: Instant) -> None:
        """A callback is sent once, whatever comes of it."""

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """`{"account": "46733123999", "balance": "100.00"}`; `collection` and `disbursement` are the merchant's."""
        for each in accounts:
            account, balance = each.get("account"), each.get("balance")
            if not isinstance(account, str) or not isinstance(balance, str):
                raise ValueError("account and balance must be text")
            self.till.open(account, balance)

    def book(self) -> Mapping[str, Any]:
        """Every balance and every submission that was taken."""
        return self.till.book()

    def _route(
        self, request: HttpRequest, path: str, met: Sequence[Fault], *, now: Instant
    ) -> HttpResponse:
        product, *rest = path.split("/")[1:]
        if product == "v1_0" and rest[:1] == ["apiuser"]:
            return self._provision(request, rest[1:])
        if product not in self.subscription_keys:
            raise _no_such_route()
        self._check_subscription(request, (product,))
        if (request.method, rest) == ("POST", ["token", ""]):
            return self._give_token(request, product, now=now)
        user = self._check_token(request, product, now=now)
        match request.method, rest:
            case "POST", _ if path in _SUBMISSIONS:
                return self._take(request, _SUBMISSIONS[path], user, met, now=now)
            case "GET", ["v1_0", kind, reference_id] if PRODUCTS.get(kind) == product:
                return self._tell(kind, reference_id.lower())
            case "GET", ["v1_0", "account", "balance"]:
                balance = self.till.balance(product)
                assert balance is not None  # The merchant's own is always there.
                document = {"availableBalance": plain(balance), "currency": balance.currency}
                return json_answer(200, document)
            case "GET", ["v1_0", "accountholder", "msisdn" | "MSISDN", number, "active"]:
                self._check_holder(number)
                return json_answer(200, {"result": True})
            case "GET", ["v1_0", "accountholder", "msisdn", number, "basicuserinfo"]:
                self._check_holder(number)
                name = {"given_name": "Sand", "family_name": "Box", "name": "Sand Box"}
                return json_answer(200, {"sub": number, **name, "locale": "sv_SE"})
            case _:
                raise _no_such_route()

    def _provision(self, request: HttpRequest, rest: list[str]) -> HttpResponse:
        """What the operator offers in its sandbox only: API users made by those who use them."""
        self._check_subscription(request, tuple(self.subscription_keys))
        match request.method, rest:
            case "POST", []:
                user = reference_of(request)
                if user in self._users:
                    raise _duplicate()
                self._users[user] = _User(None, _callback_host(request.body))
                return HttpResponse(201)
            case "POST", [user, "apikey"] if user in self._users:
                self._users[user].key = key = self._make("key", user)
                return json_answer(201, {"apiKey": key})
            case "GET", [user] if user in self._users:
                host = self._users[user].callback_host
                document = {"providerCallbackHost": host, "targetEnvironment": self.market}
                return json_answer(200, document)
            case _:
                raise _not_found()

    def _give_token(self, request: HttpRequest, product: str, *, now: Instant) -> HttpResponse:
        user, key = basic_of(request)
        known = self._users.get(user)
        if known is None or known.key is None or not _is_same(known.key, key):
            raise denied("invalid API user or key")
        if request.body not in (b"", b"grant_type=client_credentials"):
            raise invalid("the token request takes no body")
        token = self._make("token", f"{user} {product}")
        self._tokens[token] = (product, user, now + self.token_life)
        document = {
            "access_token": token,
            "token_type": "access_token",
            "expires_in": self.token_life // SECOND,
        }
        return json_answer(200, document)

    def _take(
        self, request: HttpRequest, kind: str, user: str, met: Sequence[Fault], *, now: Instant
    ) -> HttpResponse:
        reference_id = reference_of(request)
        callback_url = callback_of(request, self._users[user].callback_host)
        document, amount = payment_of(request, PARTIES[kind], self.till.currency)
        if self.till.find(reference_id) is not None:
            raise _duplicate()
        ending = ENDINGS[kind].get(document[PARTIES[kind]]["partyId"], "")
        if self.refuses_at_once and ending in AT_ONCE and find(EndWith, met) is None:
            raise refusal(AT_ONCE[ending], ending, ending.replace("_", " ").capitalize())
        self.till.take(kind, reference_id, document, amount, callback_url, met, now=now)
        return HttpResponse(202)

    def _tell(self, kind: str, reference_id: str) -> HttpResponse:
        payment = self.till.find(reference_id)
        if payment is None or payment.kind != kind:
            raise _not_found()
        return json_answer(200, self.till.told(payment))

    def _check_subscription(self, request: HttpRequest, products: Sequence[str]) -> None:
        given = header_of(request, "Ocp-Apim-Subscription-Key") or ""
        if not any(_is_same(self.subscription_keys[each], given) for each in products):
            raise denied("Access denied due to invalid subscription key")

    def _check_token(self, request: HttpRequest, product: str, *, now: Instant) -> str:
        """Whose token it is."""
        its_product, user, expires_at = self._tokens.get(bearer_of(request), ("", "", 0))
        if its_product != product or now >= expires_at:
            raise denied("invalid or expired access token")
        environment = header_of(request, "X-Target-Environment")
        if not environment:
            raise invalid("X-Target-Environment is missing")
        if environment != self.market:
            raise refusal(500, "NOT_ALLOWED_TARGET_ENVIRONMENT", "Access to target is forbidden.")
        return user

    def _check_holder(self, number: str) -> None:
        if self.till.balance(number) is None:
            raise _not_found()

    def _make(self, what: str, whose: str) -> str:
        """A key or token that nobody has been given before."""
        self._made += 1
        return hashlib.sha256(f"{what} {whose} {self._made}".encode()).hexdigest()[:32]


def _operation(method: str, path: str) -> str:
    """What a request is, for the script of faults."""
    if method == "POST" and path in _SUBMISSIONS:
        return _SUBMISSIONS[path]
    if path.endswith("/token/"):
        return "token"
    return "ask" if path.rpartition("/")[0] in _SUBMISSIONS else "account"


def _callback_host(body: bytes) -> str:
    try:
        host = json_object(body).get("providerCallbackHost")
    except ValueError:
        host = None
    if not isinstance(host, str):
        raise invalid("providerCallbackHost must be a string")
    return host


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _duplicate() -> Refused:
    message = "Duplicated reference id. Creation of resource failed."
    return refusal(409, "RESOURCE_ALREADY_EXIST", message)


def _not_found() -> Refused:
    return refusal(404, "RESOURCE_NOT_FOUND", "Requested resource was not found.")


def _no_such_route() -> Refused:
    return Refused(json_answer(404, {"statusCode": 404, "message": "Resource not found"}))

"""Simulates Airtel Money: tokens, collections v1 and v2, disbursements v1 to v3, refunds, enquiries
and callbacks.

It is strict about what the operator's documents name: headers, numbers without a country code,
signatures and PINs that can be decrypted. For a script of faults its operations are `token`, `key`,
`collection`, `collection_enquiry`, `disbursement`, `disbursement_enquiry`, `refund`, `user` and
`balance`."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

from attrs import Factory, define, evolve, field
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import RsaPadding
from mmo_sansio.values.clock import DAY, SECOND, Instant, Span, later, to_datetime
from mmo_simulators.common.faults import (
    CallBack,
    DroppedConnection,
    EndAfter,
    EndWith,
    FaultScript,
    PollWith,
    find_fault,
    respond_with_faults,
)
from mmo_simulators.common.messages import json_response, path_and_query
from mmo_simulators.common.operator_routes import SimulatedCall, SimulatedRoute, match_route
from mmo_simulators.common.simulator import DueQueue, earliest, payment_row
from mmo_simulators.operators.airtel.accounts import (
    CODE_PREFIXES,
    COLLECTION,
    DISBURSEMENT,
    NOT_FOUND,
    REFUSED,
    SimulatedAirtelPayment,
    SimulatedAirtelWallets,
)
from mmo_simulators.operators.airtel.request_checks import (
    ANY_PADDING,
    AirtelRequestRejected,
    SimulatedAirtelMarket,
    check_country_and_currency,
    check_market_headers,
    check_pin,
    check_reference,
    check_signature,
    check_version_fields,
    operator_response,
    parse_amount,
    parse_document,
    parse_id,
    parse_national_number,
    required_object,
)
from mmo_simulators.operators.airtel.responses import (
    balance_response,
    build_callback,
    payment_response,
    refund_response,
    user_response,
)

# The length of the operator's key.
KEY_BITS: Final = 2048

# How long a person takes to answer a prompt: `in process` is seen before the result.
PROMPT_ANSWER_DELAY = Span(2 * SECOND)

PaymentQueue: TypeAlias = DueQueue[SimulatedAirtelPayment]

_WALLETS_BY_TYPE: Final = {"COLL": COLLECTION, "DISB": DISBURSEMENT}


@define(eq=False)
class AirtelSimulator:
    """Simulates the operator in one country."""

    market: SimulatedAirtelMarket
    faults: FaultScript = Factory(FaultScript)
    wallets: SimulatedAirtelWallets = field(init=False)
    _payments: dict[tuple[str, str], SimulatedAirtelPayment] = Factory(dict)
    _pending_results: PaymentQueue = Factory(DueQueue)
    _pending_callbacks: PaymentQueue = Factory(DueQueue)
    _token_expiries: dict[str, Instant] = Factory(dict)
    """The end of each token."""
    _sequence: int = 0

    def __attrs_post_init__(self) -> None:
        self.wallets = SimulatedAirtelWallets(self.market.currency)

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        """Return the response to a request of its API; never raises for a bad one."""
        # What has fallen due counts for this request, as no clock runs here.
        self._complete_due(now)
        path = path_and_query(request)[0].rstrip("/")
        match = match_route(ROUTES, request.method, path)
        if match is None:
            return AirtelRequestRejected("ROUTER005", "No such resource", 404).response

        route, segments = match
        call = SimulatedCall(
            request, path, segments, self.faults.take_matching(route.operation), now
        )
        return respond_with_faults(call.faults, lambda: route.handler(self, call))

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Return the callbacks to send now; each is returned once."""
        self._complete_due(now)
        payments = [payment for _, payment in self._pending_callbacks.take_due(now=now)]

        # Taken all the same: an address that is set later gets nothing of before.
        url = self.market.callback_url
        if url is None:
            return ()

        requests = []
        for payment in payments:
            payment.callback_count += 1
            requests.append(
                build_callback(
                    payment, url, self.market.callback_key, names_code=self.market.names_codes
                )
            )

        return requests

    def next_due_at(self) -> Instant | None:
        """Return when the next result or callback is due."""
        return earliest(self._pending_results.next_due_at(), self._pending_callbacks.next_due_at())

    def on_callback_response(
        self, request: HttpRequest, response: HttpResponse | None, *, now: Instant
    ) -> None:
        """Ignore the response: the operator's documents name no repetition of a callback."""

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open wallets, see `SimulatedAirtelWallets.open`. The merchant's own, `collection`, takes
        the portal's settings as well: `callback_url` and `callback_key`, and what markets do
        differently: `ambiguous_status`, `has_short_codes`, `names_codes` and
        `failed_enquiries_succeed` of `SimulatedAirtelMarket`. Raises ValueError."""
        for account in accounts:
            wallet = dict(account)
            if wallet.get("account") == COLLECTION:
                self._apply_portal_settings(wallet)
            self.wallets.open(wallet)

    def snapshot(self) -> Mapping[str, Any]:
        """Return all wallets and payments; a refund is a row of its own."""
        rows = [self._row(payment) for payment in self._payments.values()]
        for payment in self._payments.values():
            if payment.is_refunded:
                refund = {**self._row(payment), "kind": "refund", "result": "success", "told": 0}
                rows.append(refund)

        return {"accounts": self.wallets.balances(), "payments": rows}

    def _row(self, payment: SimulatedAirtelPayment) -> dict[str, Any]:
        result = payment.result
        if payment.is_paid:
            result = "success"

        return payment_row(
            payment.kind,
            payment.id,
            payment.receipt,
            payment.number,
            payment.amount,
            result,
            payment.callback_count,
        )

    def _apply_portal_settings(self, wallet: dict[str, Any]) -> None:
        texts = _take(wallet, "callback_url", "callback_key")
        if not all(value is None or isinstance(value, str) for value in texts.values()):
            raise ValueError("callback_url and callback_key must be text or null")

        switches = _take(wallet, "has_short_codes", "names_codes", "failed_enquiries_succeed")
        for name, value in switches.items():
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be true or false")

        status = _take(wallet, "ambiguous_status")
        if status and status["ambiguous_status"] not in ("TA", "TF"):
            raise ValueError("ambiguous_status must be TA or TF")

        # All at once, after all are checked: a bad member changes nothing.
        self.market = evolve(self.market, **texts, **switches, **status)

    def _issue_token(self, call: SimulatedCall) -> HttpResponse:
        document = parse_document(call.request)
        expected = {
            "client_id": self.market.client_id,
            "client_secret": self.market.client_secret,
            "grant_type": "client_credentials",
        }
        if document.get("grant_type") != expected["grant_type"]:
            return json_response(400, {"error": "unsupported_grant_type"})
        # Exactly these members, in no particular order.
        if document != expected:
            return json_response(401, {"error": "invalid_client"})

        self._sequence += 1
        secret = self.market.client_secret.encode()
        token = hmac.digest(secret, f"token {self._sequence}".encode(), hashlib.sha256).hex()
        self._token_expiries[token] = later(call.now, self.market.token_lifetime)
        # As text: the documents show `"180"`.
        life = str(self.market.token_lifetime // SECOND)
        return json_response(
            200, {"access_token": token, "expires_in": life, "token_type": "bearer"}
        )

    def _encryption_key(self, call: SimulatedCall) -> HttpResponse:
        self._check_headers(call)
        public_key = self.market.private_key.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )
        data = {
            "key_id": 1,
            "key": base64.b64encode(public_key).decode(),
            "valid_upto": to_datetime(later(call.now, Span(30 * DAY))).strftime(
                "%d-%m-%Y %H:%M:%S"
            ),
        }
        return operator_response(data, "DP02010001001", "SUCCESS")

    def _check_headers(self, call: SimulatedCall) -> None:
        """Check the token and the headers of all money calls. Raises AirtelRequestRejected."""
        authorization = (call.request.value(b"authorization") or b"").decode("latin-1")
        scheme, _, token = authorization.partition(" ")
        # An unknown token ends at once: its end is this very moment.
        if scheme.lower() != "bearer" or call.now >= self._token_expiries.get(token, call.now):
            raise AirtelRequestRejected("401", "Unauthorized", 401)
        check_market_headers(call.request, self.market)

    def _collect(self, call: SimulatedCall) -> HttpResponse:
        self._check_headers(call)
        check_signature(call.request, call.path, self.market, "DP00800001026")
        document = parse_document(call.request)
        subscriber = required_object(document, "subscriber")
        transaction = required_object(document, "transaction")
        check_reference(document)
        for part in (subscriber, transaction):
            check_country_and_currency(part, self.market)

        payment = self._accept_payment(COLLECTION, transaction, subscriber, call)
        delay: Span | None = PROMPT_ANSWER_DELAY
        scripted = find_fault(EndAfter, call.faults)
        if scripted is not None:
            delay = scripted.span

        # The answer to a collection says that it was taken, whatever comes of it.
        if delay is not None:
            self._pending_results.schedule(payment, at=later(call.now, delay))

        data = {"transaction": {"id": payment.id, "status": "SUCCESS"}}
        return operator_response(data, "DP00800001006", "SUCCESS")

    def _disburse(self, call: SimulatedCall) -> HttpResponse:
        self._check_headers(call)
        check_signature(call.request, call.path, self.market, "DP00900001016")
        document = parse_document(call.request)
        payee = required_object(document, "payee")
        transaction = required_object(document, "transaction")
        check_reference(document)
        check_version_fields(call.path, payee, transaction)
        check_pin(document, self.market)
        payment = self._accept_payment(DISBURSEMENT, transaction, payee, call)
        # A pay-out has its result in the answer, unless a script delays it.
        span = find_fault(EndAfter, call.faults)
        if span is None:
            self._complete(payment, at=call.now)
        elif span.span is not None:
            self._pending_results.schedule(payment, at=later(call.now, span.span))

        return payment_response(payment)

    def _enquire(self, kind: str, call: SimulatedCall) -> HttpResponse:
        self._check_headers(call)
        payment = self._payments.get((kind, call.segments["id"]))
        if payment is None:
            raise AirtelRequestRejected(
                "ESB000045", "No transaction found with the given transaction id", 200
            )
        # What an enquiry says may differ from the callback: Uganda's did (2025-05).
        if payment.polled_code is not None and payment.result is not None:
            payment = evolve(payment, result=payment.polled_code)
        return payment_response(payment, failures_succeed=self.market.failed_enquiries_succeed)

    def _refund(self, call: SimulatedCall) -> HttpResponse:
        """Refund a collection by its airtel_money_id, whole. A fault may end it with another code,
        and then no money moves."""
        self._check_headers(call)
        receipt = parse_id(
            required_object(parse_document(call.request), "transaction"), "airtel_money_id"
        )
        payment = next(
            (payment for payment in self._payments.values() if payment.receipt == receipt), None
        )
        if payment is None or payment.kind != COLLECTION:
            raise AirtelRequestRejected(
                CODE_PREFIXES[COLLECTION] + NOT_FOUND, "Transaction Not Found"
            )

        ending = find_fault(EndWith, call.faults)
        if ending is not None:
            return refund_response(payment, ending.code)

        # Assumed: what is too old is refused like any other refund.
        limit = self.market.refundable_for
        if limit is not None and call.now - (payment.ended_at or call.now) > limit:
            suffix = REFUSED
        else:
            suffix = self.wallets.refund(payment)

        return refund_response(payment, CODE_PREFIXES[COLLECTION] + suffix)

    def _user(self, call: SimulatedCall) -> HttpResponse:
        self._check_headers(call)
        wallet = self.wallets.find(call.segments["msisdn"])
        if wallet is None:
            raise AirtelRequestRejected("DP02200000002", "User not found")
        return user_response(wallet)

    def _balance(self, call: SimulatedCall) -> HttpResponse:
        """Answer with the merchant's balance; without a `type`, with that of the wallet that pays
        out."""
        self._check_headers(call)
        types = parse_qs(path_and_query(call.request)[1]).get("type", ["DISB"])
        if len(types) != 1 or types[0] not in _WALLETS_BY_TYPE:
            raise AirtelRequestRejected("ROUTER003", "type must be COLL or DISB")
        return balance_response(self.wallets.merchant_balance(_WALLETS_BY_TYPE[types[0]]))

    def _accept_payment(
        self,
        kind: str,
        transaction: Mapping[str, Any],
        party: Mapping[str, Any],
        call: SimulatedCall,
    ) -> SimulatedAirtelPayment:
        """Accept and return the payment. Raises AirtelRequestRejected."""
        id = parse_id(transaction)
        if (kind, id) in self._payments:
            # Airtel's two products refuse a repeated id with different codes.
            code = "DP00900001017"
            if kind == COLLECTION:
                code = "ESB000041"
            raise AirtelRequestRejected(code, "External transaction id already exists")

        number = parse_national_number(party, self.market.country)
        if self.wallets.find(number) is None:
            if kind == COLLECTION:
                raise AirtelRequestRejected("DP00800001005", "Msisdn Not Found")
            raise AirtelRequestRejected("DP00900001012", "Invalid Mobile Number")

        asked = parse_amount(transaction, kind, self.market)
        self._sequence += 1
        ending = find_fault(EndWith, call.faults)
        polled = find_fault(PollWith, call.faults)
        callback = find_fault(CallBack, call.faults)
        payment = SimulatedAirtelPayment(
            kind,
            id,
            number,
            asked,
            receipt=f"MP{self._sequence:06}A{len(self._payments):05}",
            accepted_at=call.now,
            ambiguous_status=self.market.ambiguous_status,
            has_short_code=self.market.has_short_codes and kind == COLLECTION,
        )
        if ending is not None:
            payment.scripted_code = ending.code
            payment.scripted_message = ending.message
        if polled is not None:
            payment.polled_code = polled.code

        # Pay-outs are called back by a script only: what such a callback looks like is not known.
        if callback is not None:
            payment.callback_delays = callback.after
        elif kind == COLLECTION:
            payment.callback_delays = (Span(0),)

        self._payments[kind, id] = payment
        return payment

    def _complete(self, payment: SimulatedAirtelPayment, *, at: Instant) -> None:
        self.wallets.complete(payment, now=at)
        # An ambiguous payment is not called back: the documents show `TS` and `TF` only.
        if payment.status != "TA":
            for after in payment.callback_delays:
                self._pending_callbacks.schedule(payment, at=later(at, after))

    def _complete_due(self, now: Instant) -> None:
        for at, payment in self._pending_results.take_due(now=now):
            self._complete(payment, at=at)


def _take(members: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: members.pop(name) for name in names if name in members}


AirtelHandler: TypeAlias = Callable[[AirtelSimulator, SimulatedCall], HttpResponse]


def _enquiry_of(kind: str) -> AirtelHandler:
    return lambda simulator, call: simulator._enquire(kind, call)


# All that is offered; a path may end in a slash.
ROUTES: Final[tuple[SimulatedRoute[AirtelHandler], ...]] = (
    SimulatedRoute("token", "POST", "/auth/oauth2/token", AirtelSimulator._issue_token),
    SimulatedRoute("key", "GET", "/v1/rsa/encryption-keys", AirtelSimulator._encryption_key),
    SimulatedRoute(COLLECTION, "POST", "/merchant/v1/payments", AirtelSimulator._collect),
    SimulatedRoute(COLLECTION, "POST", "/merchant/v2/payments", AirtelSimulator._collect),
    SimulatedRoute(
        "collection_enquiry", "GET", "/standard/v1/payments/{id}", _enquiry_of(COLLECTION)
    ),
    SimulatedRoute("refund", "POST", "/standard/v1/payments/refund", AirtelSimulator._refund),
    SimulatedRoute("refund", "POST", "/standard/v2/payments/refund", AirtelSimulator._refund),
    SimulatedRoute(DISBURSEMENT, "POST", "/standard/v1/disbursements", AirtelSimulator._disburse),
    SimulatedRoute(DISBURSEMENT, "POST", "/standard/v2/disbursements", AirtelSimulator._disburse),
    SimulatedRoute(DISBURSEMENT, "POST", "/standard/v3/disbursements", AirtelSimulator._disburse),
    SimulatedRoute(
        "disbursement_enquiry", "GET", "/standard/v1/disbursements/{id}", _enquiry_of(DISBURSEMENT)
    ),
    SimulatedRoute("balance", "GET", "/standard/v1/users/balance", AirtelSimulator._balance),
    SimulatedRoute("balance", "GET", "/standard/v2/users/balance", AirtelSimulator._balance),
    SimulatedRoute("user", "GET", "/standard/v1/users/{msisdn}", AirtelSimulator._user),
)


def open_airtel(
    pin_paddings: tuple[RsaPadding, ...] = ANY_PADDING, key_bits: int = KEY_BITS
) -> AirtelSimulator:
    """Return an operator in Uganda with a fresh key, two payers and money to pay out."""
    market = SimulatedAirtelMarket(generate_private_key(65537, key_bits), pin_paddings=pin_paddings)
    simulator = AirtelSimulator(market)
    simulator.open_accounts(
        [
            {"account": "752000000", "balance": "1000000"},
            {"account": "752000001", "balance": "100"},
            {"account": DISBURSEMENT, "balance": "10000000"},
        ]
    )
    return simulator

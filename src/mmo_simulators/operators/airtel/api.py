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

# How long a person takes to answer a prompt.
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
        self._complete_due(now)
        path = path_and_query(request)[0].rstrip("/")
        found = match_route(ROUTES, request.method, path)
        if found is None:
            return AirtelRequestRejected("ROUTER005", "No such resource", 404).response

        route, segments = found
        call = SimulatedCall(
            request, path, segments, self.faults.take_matching(route.operation), now
        )
        return respond_with_faults(call.faults, lambda: route.handler(self, call))

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Return the callbacks to send now; each is returned once."""
        self._complete_due(now)
        url, key = self.market.callback_url, self.market.callback_key
        payments = [payment for _, payment in self._pending_callbacks.take_due(now=now)]
        if url is None:
            return ()
        for payment in payments:
            payment.callback_count += 1
        names_code = self.market.names_codes
        return [build_callback(payment, url, key, names_code=names_code) for payment in payments]

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
        """Return all wallets and payments."""
        return {
            "accounts": self.wallets.balances(),
            "payments": [
                payment_row(
                    payment.kind,
                    payment.id,
                    payment.receipt,
                    payment.number,
                    payment.amount,
                    "success" if payment.is_paid else payment.result,
                    payment.callback_count,
                )
                for payment in self._payments.values()
            ]
            + [
                payment_row(
                    "refund",
                    payment.id,
                    payment.receipt,
                    payment.number,
                    payment.amount,
                    "success",
                    0,
                )
                for payment in self._payments.values()
                if payment.is_refunded
            ],
        }

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
        if document != expected:
            return json_response(401, {"error": "invalid_client"})

        self._sequence += 1
        secret = self.market.client_secret.encode()
        token = hmac.digest(secret, f"token {self._sequence}".encode(), hashlib.sha256).hex()
        self._token_expiries[token] = later(call.now, self.market.token_lifetime)
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
        span = find_fault(EndAfter, call.faults)
        delay = PROMPT_ANSWER_DELAY if span is None else span.span
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

        ending, limit = find_fault(EndWith, call.faults), self.market.refundable_for
        if ending is not None:
            return refund_response(payment, ending.code)

        is_old = limit is not None and call.now - (payment.ended_at or call.now) > limit
        if is_old:
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
            code = "ESB000041" if kind == COLLECTION else "DP00900001017"
            raise AirtelRequestRejected(code, "External transaction id already exists")

        number = parse_national_number(party, self.market.country)
        if self.wallets.find(number) is None:
            if kind == COLLECTION:
                raise AirtelRequestRejected("DP00800001005", "Msisdn Not Found")
            raise AirtelRequestRejected("DP00900001012", "Invalid Mobile Number")

        asked = parse_amount(transaction, kind, self.market)
        self._sequence += 1
        end, calls = find_fault(EndWith, call.faults), find_fault(CallBack, call.faults)
        polled = find_fault(PollWith, call.faults)
        payment = SimulatedAirtelPayment(
            kind,
            id,
            number,
            asked,
            receipt=f"MP{self._sequence:06}A{len(self._payments):05}",
            accepted_at=call.now,
            scripted_code=end.code if end else None,
            scripted_message=end.message if end else None,
            polled_code=polled.code if polled else None,
            callback_delays=calls.after if calls else (Span(0),) * (kind == COLLECTION),
            ambiguous_status=self.market.ambiguous_status,
            has_short_code=self.market.has_short_codes and kind == COLLECTION,
        )
        self._payments[kind, id] = payment
        return payment

    def _complete(self, payment: SimulatedAirtelPayment, *, at: Instant) -> None:
        self.wallets.complete(payment, now=at)
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

"""Airtel Money, make-believe: tokens, collections v1 and v2, disbursements v1 to v3, enquiries and callbacks.

Strict about what the operator's documents name: headers, numbers without a country code, signatures and PINs that
really decrypt. For a script of faults its operations are `token`, `key`, `collection`, `collection_enquiry`,
`disbursement` and `disbursement_enquiry`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

from attrs import Factory, define, evolve, field
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import DAY, SECOND, Instant, Span, to_datetime
from mmo_trio.simulators.airtel.accounts import (
    AMBIGUOUS,
    COLLECTION,
    DISBURSEMENT,
    PREFIXES,
    Payment,
    Wallets,
)
from mmo_trio.simulators.airtel.request_checks import (
    AirtelMarket,
    Refusal,
    amount_asked,
    check_market_headers,
    check_pin,
    check_place,
    check_signature,
    check_version,
    document_of,
    national_number,
    object_in,
    operator_answer,
    plain_text,
)
from mmo_trio.simulators.airtel.responses import callback_of, payment_answer
from mmo_trio.simulators.base import (
    CallBack,
    EndAfter,
    EndWith,
    Fault,
    Faults,
    NoAnswer,
    answered,
    find,
    json_answer,
    path_and_query,
)

PROMPT_SPAN: Final[Span] = 2 * SECOND
"""How long a person takes to answer a prompt."""

Agenda: TypeAlias = list[tuple[Instant, int, Payment]]
"""A heap of (when, number, payment)."""

_COLLECTION_PATHS: Final = ("/merchant/v1/payments", "/merchant/v2/payments")
_DISBURSEMENT_PATHS: Final = tuple(f"/standard/v{n}/disbursements" for n in (1, 2, 3))
_ENQUIRIES: Final = {
    "/standard/v1/payments/": COLLECTION,
    "/standard/v1/disbursements/": DISBURSEMENT,
}


@define(eq=False)
class AirtelSimulator:
    """One country of the operator's."""

    market: AirtelMarket
    faults: Faults = Factory(Faults)
    wallets: Wallets = field(init=False)
    _payments: dict[tuple[str, str], Payment] = Factory(dict)
    _ends: Agenda = Factory(list)
    _calls: Agenda = Factory(list)
    _tokens: dict[str, Instant] = Factory(dict)
    """Until when each may be used."""
    _count: int = 0

    def __attrs_post_init__(self) -> None:
        self.wallets = Wallets(self.market.currency)

    def receive(self, request: HttpRequest, *, now: Instant) -> HttpResponse | NoAnswer:
        """Its answer to a request of its API; never raises for a bad one."""
        self._settle(now)
        path = path_and_query(request)[0].rstrip("/")
        try:
            operation, act = self._routed(request, path, now=now)
        except Refusal as refusal:
            return refusal.answer
        met = self.faults.meet(operation)

        def carry_out() -> HttpResponse:
            try:
                return act(met)
            except Refusal as refusal:
                return refusal.answer

        return answered(met, carry_out)

    def due(self, *, now: Instant) -> Sequence[HttpRequest]:
        """The callbacks to send now; each is given out once."""
        self._settle(now)
        told = []
        while self._calls and self._calls[0][0] <= now:
            payment = heappop(self._calls)[2]
            if self.market.callback_url is not None:
                payment.told += 1
                told.append(
                    callback_of(payment, self.market.callback_url, self.market.callback_key)
                )
        return told

    def next_due(self) -> Instant | None:
        """When `due` has something to do."""
        return min((agenda[0][0] for agenda in (self._ends, self._calls) if agenda), default=None)

    def heard(self, request: HttpRequest, answer: HttpResponse | None, *, now: Instant) -> None:
        """Whether the operator repeats a callback isn't known; this one doesn't."""

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open wallets; see :meth:`.airtel_wallets.Wallets.open`. The merchant's own, `collection`, takes what is set
        in the portal besides: `callback_url` and `callback_key`. Raises ValueError."""
        for each in accounts:
            wallet = dict(each)
            if wallet.get("account") == COLLECTION:
                self._set_callbacks(wallet)
            self.wallets.open(wallet)

    def book(self) -> Mapping[str, Any]:
        """Wallets and payments, to the unit."""
        return {
            "accounts": self.wallets.book(),
            "payments": [
                {
                    "kind": each.kind,
                    "reference": each.id,
                    "receipt": each.receipt,
                    "account": each.number,
                    "amount": each.amount.text,
                    "currency": each.amount.currency,
                    "result": "success" if each.is_paid else each.result,
                    "told": each.told,
                }
                for each in self._payments.values()
            ],
        }

    def _set_callbacks(self, wallet: dict[str, Any]) -> None:
        """Take the portal's settings out of it, and keep them."""
        changes = {
            name: wallet.pop(name) for name in ("callback_url", "callback_key") if name in wallet
        }
        if not all(value is None or isinstance(value, str) for value in changes.values()):
            raise ValueError("callback_url and callback_key must be text or null")
        self.market = evolve(self.market, **changes)

    def _routed(
        self, request: HttpRequest, path: str, *, now: Instant
    ) -> tuple[str, Callable[[Sequence[Fault]], HttpResponse]]:
        """The operation's name, and what it does. Raises Refusal."""
        if (request.method, path) == ("POST", "/auth/oauth2/token"):
            return "token", lambda _: self._sign_in(request, now=now)
        if (request.method, path) == ("GET", "/v1/rsa/encryption-keys"):
            return "key", lambda _: self._tell_key(request, now=now)
        if request.method == "POST" and path in _COLLECTION_PATHS:
            return COLLECTION, lambda met: self._collect(request, path, met, now=now)
        if request.method == "POST" and path in _DISBURSEMENT_PATHS:
            return DISBURSEMENT, lambda met: self._disburse(request, path, met, now=now)
        for beginning, kind in _ENQUIRIES.items():
            if request.method == "GET" and path.startswith(beginning):
                id = path.removeprefix(beginning)
                return f"{kind}_enquiry", partial(self._enquire, request, kind, id, now=now)
        raise Refusal("ROUTER005", "No such resource", 404)

    def _sign_in(self, request: HttpRequest, *, now: Instant) -> HttpResponse:
        document = document_of(request)
        expected = {
            "client_id": self.market.client_id,
            "client_secret": self.market.client_secret,
            "grant_type": "client_credentials",
        }
        if document.get("grant_type") != expected["grant_type"]:
            return json_answer(400, {"error": "unsupported_grant_type"})
        if document != expected:
            return json_answer(401, {"error": "invalid_client"})
        self._count += 1
        secret = self.market.client_secret.encode()
        token = hmac.digest(secret, f"token {self._count}".encode(), hashlib.sha256).hex()
        self._tokens[token] = now + self.market.token_life
        life = str(self.market.token_life // SECOND)
        return json_answer(200, {"access_token": token, "expires_in": life, "token_type": "bearer"})

    def _tell_key(self, request: HttpRequest, *, now: Instant) -> HttpResponse:
        self._check_headers(request, now=now)
        public_key = self.market.private_key.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )
        data = {
            "key_id": 1,
            "key": base64.b64encode(public_key).decode(),
            "valid_upto": to_datetime(now + 30 * DAY).strftime("%d-%m-%Y %H:%M:%S"),
        }
        return operator_answer(data, "DP02010001001", "SUCCESS")

    def _check_headers(self, request: HttpRequest, *, now: Instant) -> None:
        """The token, and the headers that all money calls have. Raises Refusal."""
        given = (request.value(b"authorization") or b"").decode("latin-1")
        scheme, _, token = given.partition(" ")
        if scheme.lower() != "bearer" or now >= self._tokens.get(token, now):
            raise Refusal("401", "Unauthorized", 401)
        check_market_headers(request, self.market)

    def _collect(
        self, request: HttpRequest, path: str, met: Sequence[Fault], *, now: Instant
    ) -> HttpResponse:
        self._check_headers(request, now=now)
        check_signature(request, path, self.market, "DP00800001026")
        document = document_of(request)
        subscriber = object_in(document, "subscriber")
        transaction = object_in(document, "transaction")
        plain_text(document, "reference")
        for each in (subscriber, transaction):
            check_place(each, self.market)
        payment = self._taken(COLLECTION, transaction, subscriber, met, now=now)
        span = find(EndAfter, met)
        if span is None or span.span is not None:
            self._put(self._ends, now + (PROMPT_SPAN if span is None else span.span or 0), payment)
        told = {"transaction": {"id": payment.id, "status": "SUCCESS"}}
        return operator_answer(told, "DP00800001006", "SUCCESS")

    def _disburse(
        self, request: HttpRequest, path: str, met: Sequence[Fault], *, now: Instant
    ) -> HttpResponse:
        self._check_headers(request, now=now)
        check_signature(request, path, self.market, "DP00900001016")
        document = document_of(request)
        payee, transaction = object_in(document, "payee"), object_in(document, "transaction")
        plain_text(document, "reference")
        check_version(path, payee, transaction)
        check_pin(document, self.market)
        payment = self._taken(DISBURSEMENT, transaction, payee, met, now=now)
        span = find(EndAfter, met)
        if span is None:
            self._end(payment, at=now)
        elif span.span is not None:
            self._put(self._ends, now + span.span, payment)
        return payment_answer(payment)

    def _enquire(
        self, request: HttpRequest, kind: str, id: str, met: Sequence[Fault], *, now: Instant
    ) -> HttpResponse:
        self._check_headers(request, now=now)
        payment = self._payments.get((kind, id))
        if payment is None:
            raise Refusal("ESB000045", "No transaction found with the given transaction id", 200)
        return payment_answer(payment)

    def _taken(
        self,
        kind: str,
        transaction: Mapping[str, Any],
        party: Mapping[str, Any],
        met: Sequence[Fault],
        *,
        now: Instant,
    ) -> Payment:
        """The payment, taken on. Raises Refusal."""
        id = plain_text(transaction, "id")
        if (kind, id) in self._payments:
            code = "ESB000041" if kind == COLLECTION else "DP00900001017"
            raise Refusal(code, "External transaction id already exists")
        number = national_number(party)
        if self.wallets.find(number) is None:
            if kind == COLLECTION:
                raise Refusal("DP00800001005", "Msisdn Not Found")
            raise Refusal("DP00900001012", "Invalid Mobile Number")
        asked = amount_asked(transaction, kind, self.market)
        self._count += 1
        end, calls = find(EndWith, met), find(CallBack, met)
        payment = Payment(
            kind,
            id,
            number,
            asked,
            receipt=f"MP{self._count:06}A{len(self._payments):05}",
            taken_at=now,
            end_code=end.code if end else None,
            end_message=end.message if end else None,
            calls_after=calls.after if calls else (0,) * (kind == COLLECTION),
        )
        self._payments[kind, id] = payment
        return payment

    def _end(self, payment: Payment, *, at: Instant) -> None:
        self.wallets.settle(payment)
        if payment.result != PREFIXES[payment.kind] + AMBIGUOUS:
            for after in payment.calls_after:
                self._put(self._calls, at + after, payment)

    def _settle(self, now: Instant) -> None:
        """Let everything come to its result that should have by now."""
        while self._ends and self._ends[0][0] <= now:
            at, _, payment = heappop(self._ends)
            self._end(payment, at=at)

    def _put(self, agenda: Agenda, at: Instant, payment: Payment) -> None:
        self._count += 1
        heappush(agenda, (at, self._count, payment))


def open_airtel() -> AirtelSimulator:
    """An operator in Uganda with a fresh key, two payers and money to pay out."""
    simulator = AirtelSimulator(AirtelMarket(generate_private_key(65537, 2048)))
    simulator.open_accounts(
        [
            {"account": "752000000", "balance": "1000000"},
            {"account": "752000001", "balance": "100"},
            {"account": DISBURSEMENT, "balance": "10000000"},
        ]
    )
    return simulator

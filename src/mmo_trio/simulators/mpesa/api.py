"""A simulated M-Pesa behind a simulated Daraja: strict about what it is sent, exact about what it holds.

It has one app (`consumer-key`, `consumer-secret`), the paybill 174379 with Daraja's published passkey, the shortcode
600997 that pays out as `testapi`, and the telephone 254708374149; more are opened by `POST /_simulator/accounts`.
`GET /_simulator/certificate` is what an initiator's password is encrypted with.

Operations, as faults name them: token, stk_push, stk_query, b2c, tax, status, qr, register, c2b. `end_with` takes a
result code; `queue_timeout` lets a request expire in Daraja's queue instead.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import Factory, define, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.mpesa_daraja.wire import password
from mmo_sansio.values.clock import SECOND, Instant
from mmo_trio.simulators.base import (
    EndWith,
    Fault,
    Faults,
    NoAnswer,
    answered,
    find,
    json_answer,
    json_object,
    path_and_query,
)
from mmo_trio.simulators.mpesa import responses as tales
from mmo_trio.simulators.mpesa.accounts import (
    PAYER_TAKES,
    PROMPT_LIVES,
    TAX_AUTHORITY,
    Account,
    Book,
    Payment,
    a_book,
)
from mmo_trio.simulators.mpesa.request_checks import PATHS, Refused, checked, invalid
from mmo_trio.simulators.mpesa.schedule import Teller, spans

TOKEN_LIVES_S: Final = 3599
RESULT_TAKES: Final = 2 * SECOND
ANSWER_TAKES: Final = SECOND


@define(eq=False)
class MpesaSimulator:
    """The operator; see the module."""

    certificate: str
    """The X.509 certificate (PEM) that it gives out."""
    decrypt: Callable[[bytes], bytes | None]
    """Undoes what was encrypted for that certificate; None when it wasn't."""
    consumer_key: str = "consumer-key"
    consumer_secret: str = field(default="consumer-secret", repr=False)
    echoes_originator: bool = True
    """Whether a pay-out keeps the OriginatorConversationID that came with it, or is given another besides."""
    confirms_pushes: bool = False
    """Whether a push to a shortcode with registered addresses is confirmed there as well."""
    faults: Faults = Factory(Faults)
    _teller: Teller = Factory(lambda: Teller(a_book()))
    _token: tuple[str, Instant] = ("", 0)
    _asked: dict[HttpRequest, tuple[Payment, tuple[Fault, ...]]] = Factory(dict)
    """Deposits about which the gateway was asked."""
    _used: set[str] = Factory(set)
    """Every OriginatorConversationID that came."""

    def receive(self, request: HttpRequest, *, now: Instant) -> HttpResponse | NoAnswer:
        """Its answer; see :class:`~mmo_trio.simulators.base.Simulator`."""
        self._teller.catch_up(now)
        path, query = path_and_query(request)
        if path == "/_simulator/certificate" and request.method == "GET":
            return HttpResponse(
                200, ((b"content-type", b"application/x-pem-file"),), self.certificate.encode()
            )
        method, operation = PATHS.get(path, ("", ""))
        if not operation:
            return Refused(404, "404.001.01", "Resource not found").answer
        if request.method != method:
            return Refused(405, "405.001", "Method Not Allowed").answer
        met = self.faults.meet(operation)
        return answered(met, lambda: self._act(operation, request, query, met, now))

    def due(self, *, now: Instant) -> Sequence[HttpRequest]:
        """The callbacks to send now."""
        return self._teller.due(now)

    def next_due(self) -> Instant | None:
        """When `due` has something to do."""
        return self._teller.next_due()

    def heard(self, request: HttpRequest, answer: HttpResponse | None, *, now: Instant) -> None:
        """A deposit goes on as the gateway says, or as the shortcode's response type does where it says nothing."""
        asked = self._asked.pop(request, None)
        if asked is None:
            return
        payment, met = asked
        verdict = tales.verdict_of(answer)
        if verdict is None:
            verdict = self._book.accounts[payment.payee].response_type == "Completed"
        if verdict:
            self._complete_deposit(payment, met, now)
        else:
            payment.result = "rejected"

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open or change accounts; see :meth:`.mpesa_book.Book.open`."""
        for each in accounts:
            self._book.open(each)

    def book(self) -> Mapping[str, Any]:
        """Everything that it did."""
        return self._book.told()

    @property
    def _book(self) -> Book:
        return self._teller.book

    def _act(
        self,
        operation: str,
        request: HttpRequest,
        query: str,
        met: tuple[Fault, ...],
        now: Instant,
    ) -> HttpResponse:
        try:
            if operation == "token":
                return self._give_token(request, query, now)
            self._check_head(request, now)
            try:
                document = json_object(request.body)
            except ValueError:
                raise Refused(400, "400.002.05", "Invalid Request Payload") from None
            form = checked(operation, document)
            return _ACTS[operation](self, form, met, now)
        except Refused as refusal:
            return refusal.answer

    def _give_token(self, request: HttpRequest, query: str, now: Instant) -> HttpResponse:
        pair = b64encode(f"{self.consumer_key}:{self.consumer_secret}".encode())
        if query != "grant_type=client_credentials":
            raise Refused(400, "400.008.02", "Invalid grant type passed")
        if not hmac.compare_digest(request.value(b"authorization") or b"", b"Basic " + pair):
            raise Refused(400, "400.008.01", "Invalid Authentication passed")
        self._token = (f"simulated{self._teller.next():019d}", now + TOKEN_LIVES_S * SECOND)
        return json_answer(200, {"access_token": self._token[0], "expires_in": str(TOKEN_LIVES_S)})

    def _check_head(self, request: HttpRequest, now: Instant) -> None:
        value, expires_at = self._token
        given = request.values(b"authorization")
        if not value or now >= expires_at or given != (b"Bearer " + value.encode(),):
            raise Refused(404, "404.001.03", "Invalid Access Token")
        kind = (request.value(b"content-type") or b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise invalid("BusinessShortCode")

    def _push(self, form: dict[str, str], met: tuple[Fault, ...], now: Instant) -> HttpResponse:
        self._check_password(form)
        payer = self._book.account(form["PhoneNumber"])
        if payer is None or form["PartyA"] != form["PhoneNumber"]:
            raise invalid("PhoneNumber")
        if any(each.payer == payer.id and each.result is None for each in self._pushes()):
            raise Refused(
                500,
                "500.001.1001",
                "Unable to lock subscriber, a transaction is already in process for the current"
                " subscriber",
            )
        payment = self._teller.take(
            "stk_push", form, payer.id, form["PartyB"], "CallBackURL", met, now
        )
        payment.reference = form["AccountReference"]
        takes = PAYER_TAKES if payer.enters is not None else PROMPT_LIVES
        is_right = form["PartyB"] == form["BusinessShortCode"] or "Goods" in form["TransactionType"]
        self._teller.end(
            payment, takes, met, now, lambda: tales.push_fault(payer, payment, is_right)
        )
        return json_answer(200, tales.push_taken(payment))

    def _query_push(
        self, form: dict[str, str], met: tuple[Fault, ...], now: Instant
    ) -> HttpResponse:
        self._check_password(form)
        payment = self._book.find(own_id=form["CheckoutRequestID"])
        if payment is None or payment.kind != "stk_push":
            raise invalid("CheckoutRequestID")
        if payment.result is None:
            raise Refused(500, "500.001.1001", "The transaction is being processed")
        return json_answer(200, tales.push_answer(payment))

    def _pay(self, form: dict[str, str], met: tuple[Fault, ...], now: Instant) -> HttpResponse:
        own = form["OriginatorConversationID"]
        if own in self._used:
            raise Refused(500, "500.002.1001", "Duplicate OriginatorConversationID.")
        payer = self._organisation(form)
        self._used.add(own)
        payment = self._teller.take("b2c", form, payer.id, form["PartyB"], "ResultURL", met, now)
        payment.reference = own
        if self.echoes_originator:
            payment.originator_id = own
        may = self._is_initiator(payer, form["InitiatorName"], form["SecurityCredential"])
        self._teller.end(
            payment, RESULT_TAKES, met, now, lambda: self._book.payout_fault(payment, may), form
        )
        return json_answer(200, tales.taken(payment))

    def _remit(self, form: dict[str, str], met: tuple[Fault, ...], now: Instant) -> HttpResponse:
        payer = self._organisation(form)
        payment = self._teller.take("tax", form, payer.id, TAX_AUTHORITY, "ResultURL", met, now)
        payment.reference = form["Remarks"]
        may = self._is_initiator(payer, form["Initiator"], form["SecurityCredential"])

        def fault() -> str | None:
            if not may:
                return "2001"
            return "1" if payer.minor < payment.minor else None

        self._teller.end(payment, RESULT_TAKES, met, now, fault, form)
        return json_answer(200, tales.taken(payment))

    def _tell_status(
        self, form: dict[str, str], met: tuple[Fault, ...], now: Instant
    ) -> HttpResponse:
        asker = self._organisation(form)
        may = self._is_initiator(asker, form["Initiator"], form["SecurityCredential"])
        number = self._teller.next()
        ids = (f"AG_{number:09d}", f"simulated-{number}")
        ending = find(EndWith, met)

        def answer(then: Instant) -> None:
            found = self._book.find(
                originator_id=form.get("OriginalConversationID", ""),
                receipt=form.get("TransactionID", ""),
            )
            code = ending.code if ending else "2001" if not may else None
            self._teller.send(tales.post(form["ResultURL"], tales.status(found, code, ids)))

        for after in spans(met):
            self._teller.at(now + ANSWER_TAKES + after, answer)
        return json_answer(200, tales.accepted(*ids))

    def _draw(self, form: dict[str, str], met: tuple[Fault, ...], now: Instant) -> HttpResponse:
        return json_answer(
            200,
            {
                "ResponseCode": "00",
                "RequestID": f"simulated-{self._teller.next()}",
                "ResponseDescription": "QR Code Successfully Generated.",
                "QRCode": tales.PICTURE,
            },
        )

    def _register(self, form: dict[str, str], met: tuple[Fault, ...], now: Instant) -> HttpResponse:
        account = self._book.account(form["ShortCode"])
        if account is None:
            raise invalid("ShortCode")
        account.confirmation_url = form["ConfirmationURL"]
        account.validation_url = form["ValidationURL"]
        account.response_type = form["ResponseType"]
        document = {
            "OriginatorCoversationID": f"simulated-{self._teller.next()}",
            "ResponseCode": "0",
        }
        return json_answer(200, {**document, "ResponseDescription": "Success"})

    def _deposit(self, form: dict[str, str], met: tuple[Fault, ...], now: Instant) -> HttpResponse:
        payee, payer = self._book.account(form["ShortCode"]), self._book.account(form["Msisdn"])
        if payee is None or payer is None:
            raise invalid("ShortCode" if payee is None else "Msisdn")
        payment = self._teller.take("c2b", form, payer.id, payee.id, "", met, now)
        payment.reference = form.get("BillRefNumber", "")

        def begin(then: Instant) -> None:
            if payer.minor < payment.minor:
                payment.result = "1"
            elif payee.validates and payee.validation_url:
                asked = tales.deposit(payment, payee, payer, then, receipt=payment.own_id)
                request = tales.post(payee.validation_url, asked)
                self._asked[request] = (payment, met)
                self._teller.send(request)
            else:
                self._complete_deposit(payment, met, then)

        self._teller.at(now + ANSWER_TAKES, begin)
        return json_answer(200, tales.accepted(payment.own_id, payment.originator_id))

    def _complete_deposit(self, payment: Payment, met: Sequence[Fault], now: Instant) -> None:
        self._book.move(payment)
        self._confirm(payment, met, now)

    def _confirm_push(self, payment: Payment, now: Instant) -> None:
        if self.confirms_pushes:
            self._confirm(payment, (), now)

    def _confirm(self, payment: Payment, met: Sequence[Fault], now: Instant) -> None:
        payee, payer = self._book.accounts[payment.payee], self._book.accounts[payment.payer]
        if payee.confirmation_url is not None:
            told = tales.deposit(payment, payee, payer, now, receipt=payment.receipt or "")
            self._teller.tell(payment, tales.post(payee.confirmation_url, told), spans(met), now)

    def _check_password(self, form: dict[str, str]) -> None:
        account = self._book.account(form["BusinessShortCode"])
        if account is None or account.passkey is None:
            raise Refused(500, "500.001.1001", "Merchant does not exist")
        if form["Password"] != password(account.id, account.passkey, form["Timestamp"]):
            raise Refused(500, "500.001.1001", "Wrong credentials")

    def _organisation(self, form: dict[str, str]) -> Account:
        account = self._book.account(form["PartyA"])
        if account is None or account.initiator is None:
            raise invalid("PartyA")
        return account

    def _is_initiator(self, account: Account, name: str, credential: str) -> bool:
        try:
            plain = self.decrypt(b64decode(credential, validate=True))
        except ValueError:
            return False
        return (
            name == account.initiator
            and plain is not None
            and plain == (account.initiator_password or "").encode()
        )

    def _pushes(self) -> list[Payment]:
        return [each for each in self._book.payments if each.kind == "stk_push"]


Act: TypeAlias = Callable[
    [MpesaSimulator, dict[str, str], tuple[Fault, ...], Instant], HttpResponse
]

_ACTS: Final[Mapping[str, Act]] = {
    "stk_push": MpesaSimulator._push,
    "stk_query": MpesaSimulator._query_push,
    "b2c": MpesaSimulator._pay,
    "tax": MpesaSimulator._remit,
    "status": MpesaSimulator._tell_status,
    "qr": MpesaSimulator._draw,
    "register": MpesaSimulator._register,
    "c2b": MpesaSimulator._deposit,
}
"""What carries each operation out."""

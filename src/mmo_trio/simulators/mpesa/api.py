"""Simulates M-Pesa behind Daraja: strict about requests, exact about money.

It has one app (`consumer-key`, `consumer-secret`), the paybill 174379 with Daraja's published passkey, the shortcode
600997 that pays out as `testapi`, and the telephone 254708374149; `POST /_simulator/accounts` opens more. `GET
/_simulator/certificate` returns the certificate that an initiator's password is encrypted for.

For a script of faults its operations are token, stk_push, stk_query, b2c, tax, status, qr, register and c2b. `end_with`
takes a result code; `queue_timeout` lets a request expire in Daraja's queue.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import Factory, define, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import SECOND, Instant, Span, later
from mmo_trio.simulators.base import (
    DroppedConnection,
    EndWith,
    Fault,
    FaultScript,
    find_fault,
    json_response,
    parse_json_object,
    path_and_query,
    respond_with_faults,
)
from mmo_trio.simulators.mpesa import responses
from mmo_trio.simulators.mpesa.accounts import (
    PIN_ENTRY_DELAY,
    PROMPT_TIMEOUT,
    TAX_AUTHORITY,
    SimulatedMpesaAccounts,
    SimulatedMpesaPayment,
    default_accounts,
)
from mmo_trio.simulators.mpesa.request_checks import (
    ENDPOINTS,
    MpesaRequestRejected,
    check_form,
    check_password,
    find_organisation,
    invalid_field,
    is_initiator_valid,
)
from mmo_trio.simulators.mpesa.schedule import MpesaSchedule, callback_delays

TOKEN_LIFETIME_S: Final = 3599
RESULT_DELAY: Final = Span(2 * SECOND)
ANSWER_DELAY: Final = SECOND


@define(eq=False)
class MpesaSimulator:
    """Simulates the operator."""

    certificate: str
    """The X.509 certificate (PEM) that it publishes."""
    decrypt: Callable[[bytes], bytes | None]
    """Decrypts what was encrypted for that certificate; None when it wasn't."""
    consumer_key: str = "consumer-key"
    consumer_secret: str = field(default="consumer-secret", repr=False)
    keeps_originator_id: bool = True
    """Whether a pay-out keeps its OriginatorConversationID, or is given another one in addition."""
    confirms_pushes: bool = False
    """Whether a push to a shortcode with registered URLs is also confirmed there, as a deposit."""
    faults: FaultScript = Factory(FaultScript)
    _schedule: MpesaSchedule = Factory(lambda: MpesaSchedule(default_accounts()))
    _token: tuple[str, Instant] = ("", Instant(0))
    _pending_validations: dict[HttpRequest, tuple[SimulatedMpesaPayment, tuple[Fault, ...]]] = Factory(dict)
    """Deposits that the gateway was asked to validate."""
    _used_originator_ids: set[str] = Factory(set)
    """Every OriginatorConversationID that was received."""

    def handle_request(self, request: HttpRequest, *, now: Instant) -> HttpResponse | DroppedConnection:
        """Return the response to a request of its API; see `Simulator`."""
        self._schedule.run_due(now)
        path, query = path_and_query(request)
        if path == "/_simulator/certificate" and request.method == "GET":
            return HttpResponse(200, ((b"content-type", b"application/x-pem-file"),), self.certificate.encode())
        method, operation = ENDPOINTS.get(path, ("", ""))
        if not operation:
            return MpesaRequestRejected(404, "404.001.01", "Resource not found").response
        if request.method != method:
            return MpesaRequestRejected(405, "405.001", "Method Not Allowed").response
        met = self.faults.take_matching(operation)
        return respond_with_faults(met, lambda: self._handle_operation(operation, request, query, met, now))

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Return the callbacks to send now."""
        return self._schedule.take_due(now)

    def next_due_at(self) -> Instant | None:
        """Return when the next action or callback is due."""
        return self._schedule.next_due_at()

    def on_callback_response(self, request: HttpRequest, response: HttpResponse | None, *, now: Instant) -> None:
        """Continue a deposit as the gateway's validation says, or as the shortcode's response type does without an
        answer."""
        asked = self._pending_validations.pop(request, None)
        if asked is None:
            return
        payment, met = asked
        verdict = responses.is_deposit_accepted(response)
        if verdict is None:
            verdict = self._accounts.accounts[payment.payee].response_type == "Completed"
        if verdict:
            self._complete_deposit(payment, met, now)
        else:
            payment.result = "rejected"

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open or change accounts; see `SimulatedMpesaAccounts.open_account`."""
        for each in accounts:
            self._accounts.open_account(each)

    def snapshot(self) -> Mapping[str, Any]:
        """Return all accounts and payments."""
        return self._accounts.snapshot()

    @property
    def _accounts(self) -> SimulatedMpesaAccounts:
        return self._schedule.accounts

    def _handle_operation(
        self, operation: str, request: HttpRequest, query: str, faults: tuple[Fault, ...], now: Instant
    ) -> HttpResponse:
        if operation == "token":
            return self._issue_token(request, query, now)
        self._check_headers(request, now)
        try:
            document = parse_json_object(request.body)
        except ValueError:
            raise MpesaRequestRejected(400, "400.002.05", "Invalid Request Payload") from None
        return _OPERATION_HANDLERS[operation](self, check_form(operation, document), faults, now)

    def _issue_token(self, request: HttpRequest, query: str, now: Instant) -> HttpResponse:
        pair = b64encode(f"{self.consumer_key}:{self.consumer_secret}".encode())
        if query != "grant_type=client_credentials":
            raise MpesaRequestRejected(400, "400.008.02", "Invalid grant type passed")
        if not hmac.compare_digest(request.value(b"authorization") or b"", b"Basic " + pair):
            raise MpesaRequestRejected(400, "400.008.01", "Invalid Authentication passed")
        self._token = (f"simulated{self._schedule.next_number():019d}", later(now, Span(TOKEN_LIFETIME_S * SECOND)))
        return json_response(200, {"access_token": self._token[0], "expires_in": str(TOKEN_LIFETIME_S)})

    def _check_headers(self, request: HttpRequest, now: Instant) -> None:
        value, expires_at = self._token
        authorization = request.values(b"authorization")
        if not value or now >= expires_at or authorization != (b"Bearer " + value.encode(),):
            raise MpesaRequestRejected(404, "404.001.03", "Invalid Access Token")
        kind = (request.value(b"content-type") or b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise invalid_field("BusinessShortCode")

    def _stk_push(self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant) -> HttpResponse:
        check_password(self._accounts, form)
        payer = self._accounts.accounts.get(form["PhoneNumber"])
        if payer is None or form["PartyA"] != form["PhoneNumber"]:
            raise invalid_field("PhoneNumber")
        pushes = [each for each in self._accounts.payments if each.kind == "stk_push"]
        if any(each.payer == payer.id and each.result is None for each in pushes):
            message = "Unable to lock subscriber, a transaction is already in process for the"
            raise MpesaRequestRejected(500, "500.001.1001", f"{message} current subscriber")
        payment = self._schedule.accept_payment("stk_push", form, payer.id, form["PartyB"], "CallBackURL", faults, now)
        payment.reference = form["AccountReference"]
        takes = PIN_ENTRY_DELAY if payer.enters is not None else PROMPT_TIMEOUT
        is_right = form["PartyB"] == form["BusinessShortCode"] or "Goods" in form["TransactionType"]
        self._schedule.schedule_result(
            payment,
            takes,
            faults,
            now,
            lambda: responses.stk_push_error_code(payer, payment, is_right),
            on_paid=self._confirm_push,
        )
        return json_response(200, responses.stk_push_response(payment))

    def _stk_query(self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant) -> HttpResponse:
        check_password(self._accounts, form)
        payment = self._accounts.find_payment(conversation_id=form["CheckoutRequestID"])
        if payment is None or payment.kind != "stk_push":
            raise invalid_field("CheckoutRequestID")
        if payment.result is None:
            raise MpesaRequestRejected(500, "500.001.1001", "The transaction is being processed")
        return json_response(200, responses.stk_query_response(payment))

    def _b2c(self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant) -> HttpResponse:
        own = form["OriginatorConversationID"]
        if own in self._used_originator_ids:
            raise MpesaRequestRejected(500, "500.002.1001", "Duplicate OriginatorConversationID.")
        payer = find_organisation(self._accounts, form)
        self._used_originator_ids.add(own)
        payment = self._schedule.accept_payment("b2c", form, payer.id, form["PartyB"], "ResultURL", faults, now)
        payment.reference = own
        if self.keeps_originator_id:
            payment.originator_id = own
        may = is_initiator_valid(payer, form["InitiatorName"], self._password(form))
        self._schedule.schedule_result(
            payment, RESULT_DELAY, faults, now, lambda: self._accounts.payout_error_code(payment, may), form
        )
        return json_response(200, responses.payment_accepted_response(payment))

    def _remit_tax(self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant) -> HttpResponse:
        payer = find_organisation(self._accounts, form)
        payment = self._schedule.accept_payment("tax", form, payer.id, TAX_AUTHORITY, "ResultURL", faults, now)
        payment.reference = form["Remarks"]
        may = is_initiator_valid(payer, form["Initiator"], self._password(form))

        def fault() -> str | None:
            if not may:
                return "2001"
            return "1" if payer.balance_minor < payment.amount_minor else None

        self._schedule.schedule_result(payment, RESULT_DELAY, faults, now, fault, form)
        return json_response(200, responses.payment_accepted_response(payment))

    def _transaction_status(self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant) -> HttpResponse:
        asker = find_organisation(self._accounts, form)
        may = is_initiator_valid(asker, form["Initiator"], self._password(form))
        number = self._schedule.next_number()
        ids = (f"AG_{number:09d}", f"simulated-{number}")
        ending = find_fault(EndWith, faults)

        def answer(then: Instant) -> None:
            found = self._accounts.find_payment(
                originator_id=form.get("OriginalConversationID", ""), receipt=form.get("TransactionID", "")
            )
            code = ending.code if ending else "2001" if not may else None
            self._schedule.send(
                responses.callback_request(
                    form["ResultURL"], responses.status_callback(found, self._accounts, code, ids)
                )
            )

        for after in callback_delays(faults):
            self._schedule.schedule(later(later(now, ANSWER_DELAY), after), answer)
        return json_response(200, responses.accepted_response(*ids))

    def _generate_qr(self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant) -> HttpResponse:
        document = {
            "ResponseCode": "00",
            "RequestID": f"simulated-{self._schedule.next_number()}",
            "ResponseDescription": "QR Code Successfully Generated.",
            "QRCode": responses.QR_IMAGE,
        }
        return json_response(200, document)

    def _register_urls(self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant) -> HttpResponse:
        account = self._accounts.accounts.get(form["ShortCode"])
        if account is None:
            raise invalid_field("ShortCode")
        account.confirmation_url = form["ConfirmationURL"]
        account.validation_url = form["ValidationURL"]
        account.response_type = form["ResponseType"]
        id = f"simulated-{self._schedule.next_number()}"
        document = {"OriginatorCoversationID": id, "ResponseCode": "0"}
        return json_response(200, {**document, "ResponseDescription": "Success"})

    def _simulate_c2b(self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant) -> HttpResponse:
        accounts = self._accounts.accounts
        payee, payer = accounts.get(form["ShortCode"]), accounts.get(form["Msisdn"])
        if payee is None or payer is None:
            raise invalid_field("ShortCode" if payee is None else "Msisdn")
        payment = self._schedule.accept_payment("c2b", form, payer.id, payee.id, "", faults, now)
        payment.reference = form.get("BillRefNumber", "")

        def begin(then: Instant) -> None:
            if payer.balance_minor < payment.amount_minor:
                payment.result = "1"
            elif payee.validates and payee.validation_url:
                asked = responses.deposit_callback(payment, payee, payer, then, receipt=payment.conversation_id)
                request = responses.callback_request(payee.validation_url, asked)
                self._pending_validations[request] = (payment, faults)
                self._schedule.send(request)
            else:
                self._complete_deposit(payment, faults, then)

        self._schedule.schedule(later(now, ANSWER_DELAY), begin)
        return json_response(200, responses.payment_accepted_response(payment))

    def _complete_deposit(self, payment: SimulatedMpesaPayment, faults: Sequence[Fault], now: Instant) -> None:
        self._accounts.transfer(payment)
        self._schedule_confirmation(payment, faults, now)

    def _confirm_push(self, payment: SimulatedMpesaPayment, now: Instant) -> None:
        if self.confirms_pushes:
            self._schedule_confirmation(payment, (), now)

    def _schedule_confirmation(self, payment: SimulatedMpesaPayment, faults: Sequence[Fault], now: Instant) -> None:
        accounts = self._accounts.accounts
        payee, payer = accounts[payment.payee], accounts[payment.payer]
        if payee.confirmation_url is not None:
            document = responses.deposit_callback(payment, payee, payer, now, receipt=payment.receipt or "")
            self._schedule.schedule_callback(
                payment, responses.callback_request(payee.confirmation_url, document), callback_delays(faults), now
            )

    def _password(self, form: dict[str, str]) -> bytes | None:
        try:
            return self.decrypt(b64decode(form["SecurityCredential"], validate=True))
        except ValueError:
            return None


OperationHandler: TypeAlias = Callable[[MpesaSimulator, dict[str, str], tuple[Fault, ...], Instant], HttpResponse]

_OPERATION_HANDLERS: Final[Mapping[str, OperationHandler]] = {
    "stk_push": MpesaSimulator._stk_push,
    "stk_query": MpesaSimulator._stk_query,
    "b2c": MpesaSimulator._b2c,
    "tax": MpesaSimulator._remit_tax,
    "status": MpesaSimulator._transaction_status,
    "qr": MpesaSimulator._generate_qr,
    "register": MpesaSimulator._register_urls,
    "c2b": MpesaSimulator._simulate_c2b,
}
"""By operation."""

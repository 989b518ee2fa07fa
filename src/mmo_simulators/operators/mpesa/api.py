"""Simulates M-Pesa behind Daraja: strict about requests, exact about money.

It has one app (`consumer-key`, `consumer-secret`), the paybill 174379 with Daraja's published
passkey, the shortcode 600997 that pays out as `testapi`, and the telephone 254708374149; `POST
/_simulator/accounts` opens more. `GET /_simulator/certificate` returns the certificate that an
initiator's password is encrypted for.

For a script of faults its operations are token, stk_push, stk_query, b2c, b2b, tax, reversal,
status, balance, qr, register, c2b, pull_register and pull_query. `end_with` takes a result code;
`queue_timeout` lets a request expire in Daraja's queue."""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import Factory, define, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.emv_qr import QrError
from mmo_sansio.values.clock import HOUR, SECOND, Instant, Span, earlier, later
from mmo_simulators.common.faults import DroppedConnection, Fault, FaultScript, respond_with_faults
from mmo_simulators.common.messages import json_response, parse_json_object, path_and_query
from mmo_simulators.operators.mpesa import responses
from mmo_simulators.operators.mpesa.accounts import (
    PIN_ENTRY_DELAY,
    PROMPT_TIMEOUT,
    SimulatedMpesaAccounts,
    SimulatedMpesaPayment,
    default_accounts,
)
from mmo_simulators.operators.mpesa.forms import ENDPOINTS, Endpoint, check_form
from mmo_simulators.operators.mpesa.initiated_requests import (
    ANSWER_DELAY,
    INITIATED_HANDLERS,
    InitiatedRequests,
)
from mmo_simulators.operators.mpesa.qr_pictures import draw_qr_code
from mmo_simulators.operators.mpesa.request_checks import (
    MpesaRequestRejected,
    check_grant_type,
    check_password,
    check_product,
    credentials,
    has_scheme,
    invalid_field,
)
from mmo_simulators.operators.mpesa.schedule import MpesaSchedule, callback_delays

# As the portal's sample has it (Authorization), where an hour is documented.
TOKEN_LIFETIME_S: Final = 3599

# How long Pull Transactions lists a payment.
PULL_KEPT_FOR: Final = Span(48 * HOUR)


@define(eq=False)
class MpesaSimulator:
    """Simulates the operator."""

    certificate: str
    """The X.509 certificate (PEM) that it publishes."""
    decrypt: Callable[[bytes], bytes | None]
    """Decrypts what was encrypted for that certificate; None when it wasn't."""
    consumer_key: str = "consumer-key"
    consumer_secret: str = field(default="consumer-secret", repr=False)
    faults: FaultScript = Factory(FaultScript)
    _schedule: MpesaSchedule = Factory(lambda: MpesaSchedule(default_accounts()))
    _token: tuple[str, Instant] = ("", Instant(0))
    _pending_validations: dict[HttpRequest, tuple[SimulatedMpesaPayment, tuple[Fault, ...]]] = (
        Factory(dict)
    )
    """Deposits that the gateway was asked to validate."""
    initiated: InitiatedRequests = Factory(
        lambda self: InitiatedRequests(self._schedule, self.decrypt), True
    )
    """Carries out what API operators initiate."""

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        """Return the response to a request of its API; see `Simulator`."""
        # What has fallen due counts for this request, as no clock runs here.
        self._schedule.run_due(now)
        path, query = path_and_query(request)
        if path == "/_simulator/certificate" and request.method == "GET":
            return HttpResponse(
                200, ((b"content-type", b"application/x-pem-file"),), self.certificate.encode()
            )

        endpoint = ENDPOINTS.get(path)
        if endpoint is None:
            return self._reject(MpesaRequestRejected(404, "404.001.01", "Resource not found"))
        if request.method != endpoint.method:
            return self._reject(MpesaRequestRejected(405, "405.001", "Method Not Allowed"))

        faults = self.faults.take_matching(endpoint.operation)
        return respond_with_faults(
            faults, lambda: self._handle_operation(endpoint, request, query, faults, now)
        )

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Return the callbacks to send now."""
        return self._schedule.take_due(now)

    def next_due_at(self) -> Instant | None:
        """Return when the next action or callback is due."""
        return self._schedule.next_due_at()

    def on_callback_response(
        self, request: HttpRequest, response: HttpResponse | None, *, now: Instant
    ) -> None:
        """Continue a deposit as the gateway's validation says, or as the shortcode's response type
        does without an answer."""
        pending = self._pending_validations.pop(request, None)
        if pending is None:
            return

        payment, faults = pending
        verdict, payment.third_party_id = responses.parse_verdict(response)

        # What silence means the shortcode has registered (documented, Customer To Business).
        if verdict is None:
            verdict = self._accounts.accounts[payment.payee].response_type == "Completed"

        if verdict:
            self._complete_deposit(payment, faults, now)
        else:
            payment.result = "rejected"
            payment.receipt = None

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open or change accounts; see `SimulatedMpesaAccounts.open_account`."""
        for account in accounts:
            self._accounts.open_account(account)

    def snapshot(self) -> Mapping[str, Any]:
        """Return all accounts and payments."""
        return self._accounts.snapshot()

    @property
    def _accounts(self) -> SimulatedMpesaAccounts:
        return self._schedule.accounts

    def _handle_operation(
        self,
        endpoint: Endpoint,
        request: HttpRequest,
        query: str,
        faults: tuple[Fault, ...],
        now: Instant,
    ) -> HttpResponse:
        try:
            return self._carry_out(endpoint, request, query, faults, now)
        except MpesaRequestRejected as rejected:
            return self._reject(rejected)

    def _reject(self, rejected: MpesaRequestRejected) -> HttpResponse:
        return rejected.with_request_id(f"simulated-{self._schedule.next_number()}")

    def _carry_out(
        self,
        endpoint: Endpoint,
        request: HttpRequest,
        query: str,
        faults: tuple[Fault, ...],
        now: Instant,
    ) -> HttpResponse:
        if endpoint.operation == "token":
            return self._issue_token(request, query, now)

        # In this order (assumed): the token, the form, the app's product, what it is about.
        self._check_headers(request, now)
        try:
            document = parse_json_object(request.body)
        except ValueError:
            raise MpesaRequestRejected(400, "400.002.05", "Invalid Request Payload") from None

        form = check_form(endpoint.form, document)
        if endpoint.version:
            check_product(self._accounts, form["ShortCode"], endpoint.version)

        if endpoint.operation in INITIATED_HANDLERS:
            return INITIATED_HANDLERS[endpoint.operation](self.initiated, form, faults, now)

        return _OPERATION_HANDLERS[endpoint.operation](self, form, faults, now)

    def _issue_token(self, request: HttpRequest, query: str, now: Instant) -> HttpResponse:
        check_grant_type(query)
        if not has_scheme(request, b"basic"):
            raise MpesaRequestRejected(400, "400.008.01", "Invalid Authentication passed")

        # Wrong keys are answered 400, and nothing else (assumed).
        pair = b64encode(f"{self.consumer_key}:{self.consumer_secret}".encode())
        if not hmac.compare_digest(credentials(request), pair):
            return HttpResponse(400)

        # A new token ends the one before (documented, Authorization).
        self._token = (
            f"simulated{self._schedule.next_number():019d}",
            later(now, Span(TOKEN_LIFETIME_S * SECOND)),
        )
        return json_response(
            200, {"access_token": self._token[0], "expires_in": str(TOKEN_LIFETIME_S)}
        )

    def _check_headers(self, request: HttpRequest, now: Instant) -> None:
        value, expires_at = self._token
        is_bearer = has_scheme(request, b"bearer") and credentials(request) == value.encode()
        # Documented: a 404 for a token, and this field for a wrong content type (M-Pesa Express).
        if not value or now >= expires_at or not is_bearer:
            raise MpesaRequestRejected(404, "404.001.03", "Invalid Access Token")
        kind = (request.value(b"content-type") or b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise invalid_field("BusinessShortCode")

    def _stk_push(
        self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant
    ) -> HttpResponse:
        check_password(self._accounts, form)
        person = self._accounts.accounts.get(form["PhoneNumber"])
        payer = self._accounts.accounts.get(form["PartyA"])
        if person is None:
            raise invalid_field("PhoneNumber")
        if payer is None:
            raise invalid_field("PartyA")

        # One prompt at a time: the phone shows one dialogue.
        pushes = [payment for payment in self._accounts.payments if payment.kind == "stk_push"]
        if any(push.payer == payer.id and push.result is None for push in pushes):
            message = "Unable to lock subscriber, a transaction is already in process for the"
            raise MpesaRequestRejected(500, "500.001.1001", f"{message} current subscriber")

        payment = self._schedule.accept_payment(
            "stk_push", form, payer.id, form["PartyB"], "CallBackURL", faults, now
        )
        payment.reference = form["AccountReference"]
        payment.prompted = person.id
        payment.is_for_goods = "Goods" in form["TransactionType"]

        # Nobody's answer takes longest: the prompt is open for about a minute.
        takes = PIN_ENTRY_DELAY
        if person.enters is None:
            takes = PROMPT_TIMEOUT

        is_right = form["PartyB"] == form["BusinessShortCode"] or payment.is_for_goods
        self._schedule.schedule_result(
            payment,
            takes,
            faults,
            now,
            lambda: responses.stk_push_error_code(person, payer, payment, is_right),
            on_paid=self._confirm_push,
        )
        return json_response(200, responses.stk_push_response(payment))

    def _stk_query(
        self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant
    ) -> HttpResponse:
        check_password(self._accounts, form)
        payment = self._accounts.find_payment(conversation_id=form["CheckoutRequestID"])
        # One code with three meanings, which only the message tells apart (M-Pesa Express).
        if payment is None or payment.kind != "stk_push":
            raise MpesaRequestRejected(500, "500.001.1001", "The transaction does not Exist")
        if payment.result is None:
            raise MpesaRequestRejected(500, "500.001.1001", "The transaction is being processed")

        shortcode = self._accounts.accounts[form["BusinessShortCode"]]
        document = responses.stk_query_response(payment, words_differ=shortcode.words_differ)
        return json_response(200, document)

    def _generate_qr(
        self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant
    ) -> HttpResponse:
        # More than a code can hold: the reference is the longest member of it.
        try:
            picture = draw_qr_code(form)
        except QrError:
            raise invalid_field("RefNo") from None

        document = {
            "ResponseCode": "00",
            "RequestID": f"simulated-{self._schedule.next_number()}",
            "ResponseDescription": "QR Code Successfully Generated.",
            "QRCode": picture,
        }
        return json_response(200, document)

    def _register_urls(
        self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant
    ) -> HttpResponse:
        account = self._accounts.accounts.get(form["ShortCode"])
        if account is None:
            raise invalid_field("ShortCode")

        account.confirmation_url = form["ConfirmationURL"]
        account.validation_url = form["ValidationURL"]
        account.response_type = form["ResponseType"]
        return json_response(
            200, responses.c2b_response(f"simulated-{self._schedule.next_number()}", "Success")
        )

    def _register_pull(
        self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant
    ) -> HttpResponse:
        account = self._accounts.accounts.get(form["ShortCode"])
        if account is None:
            raise invalid_field("ShortCode")

        status = "1000"
        description = "Shortcode Registered"
        if account.can_pull:
            status = "1001"
            description = "ShortCode already Registered"

        document = {
            "ResponseRefID": f"simulated-{self._schedule.next_number()}",
            "ResponseStatus": status,
            "ShortCode": account.id,
            "ResponseDescription": description,
        }
        account.can_pull = True
        return json_response(200, document)

    def _query_pull(
        self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant
    ) -> HttpResponse:
        account = self._accounts.accounts.get(form["ShortCode"])
        if account is None or not account.can_pull:
            raise invalid_field("ShortCode")
        received = self._accounts.find_received(account.id, since=earlier(now, PULL_KEPT_FOR))
        id = f"simulated-{self._schedule.next_number()}"
        return json_response(200, responses.pull_response(id, form, received, account))

    def _simulate_c2b(
        self, form: dict[str, str], faults: tuple[Fault, ...], now: Instant
    ) -> HttpResponse:
        accounts = self._accounts.accounts
        payee = accounts.get(form["ShortCode"])
        payer = accounts.get(form["Msisdn"])
        if payee is None:
            raise invalid_field("ShortCode")
        if payer is None:
            raise invalid_field("Msisdn")

        payment = self._schedule.accept_payment("c2b", form, payer.id, payee.id, "", faults, now)
        payment.reference = form.get("BillRefNumber", "")
        payment.is_for_goods = "Goods" in form["CommandID"]

        def begin(then: Instant) -> None:
            if payer.balance_minor < payment.amount_minor:
                payment.result = "1"
            # The answer decides, whenever it comes: see `on_callback_response`.
            elif payee.validates and payee.validation_url:
                payment.receipt = self._accounts.next_receipt()
                asked = responses.deposit_callback(payment, payee, payer, then)
                request = responses.callback_request(payee.validation_url, asked)
                self._pending_validations[request] = (payment, faults)
                self._schedule.send(request)
            else:
                self._complete_deposit(payment, faults, then)

        self._schedule.schedule(later(now, ANSWER_DELAY), begin)
        description = "Accept the service request successfully."
        return json_response(200, responses.c2b_response(payment.originator_id, description))

    def _complete_deposit(
        self, payment: SimulatedMpesaPayment, faults: Sequence[Fault], now: Instant
    ) -> None:
        self._accounts.transfer(payment)
        payment.ended_at = now
        self._schedule_confirmation(payment, faults, now)

    def _confirm_push(self, payment: SimulatedMpesaPayment, now: Instant) -> None:
        if self._accounts.accounts[payment.payee].confirms_pushes:
            self._schedule_confirmation(payment, (), now)

    def _schedule_confirmation(
        self, payment: SimulatedMpesaPayment, faults: Sequence[Fault], now: Instant
    ) -> None:
        accounts = self._accounts.accounts
        payee = accounts[payment.payee]
        payer = accounts[payment.payer]
        if payee.confirmation_url is not None:
            document = responses.deposit_callback(payment, payee, payer, now)
            self._schedule.schedule_callback(
                payment,
                responses.callback_request(payee.confirmation_url, document),
                callback_delays(faults),
                now,
            )


OperationHandler: TypeAlias = Callable[
    [MpesaSimulator, dict[str, str], tuple[Fault, ...], Instant], HttpResponse
]

# By operation.
_OPERATION_HANDLERS: Final[Mapping[str, OperationHandler]] = {
    "stk_push": MpesaSimulator._stk_push,
    "stk_query": MpesaSimulator._stk_query,
    "qr": MpesaSimulator._generate_qr,
    "register": MpesaSimulator._register_urls,
    "c2b": MpesaSimulator._simulate_c2b,
    "pull_register": MpesaSimulator._register_pull,
    "pull_query": MpesaSimulator._query_pull,
}

"""The operator Pesaplus, which does not exist, as a kind of provider; `docs/internals/adding.md`
explains each part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from mmo_sansio import (
    HOUR,
    MINUTE,
    SECOND,
    ErrorCode,
    Moment,
    ProviderAccepted,
    ProviderFailed,
    ProviderSucceeded,
    ProviderUnreachable,
    Source,
    Transaction,
    later,
)
from mmo_sansio.providers import (
    DIRECT_PAYIN,
    DIRECT_PAYOUT,
    HTTPS_URL,
    REQUIRED,
    SECRET,
    AccessToken,
    AdapterContext,
    Conversation,
    ExchangeFailed,
    HttpRequest,
    HttpResponse,
    OperationKey,
    ProviderHinted,
    ProviderKind,
    ProviderNeverReceived,
    ProviderOperation,
    ProviderReport,
    SignIn,
    SignInFailed,
    Span,
    Type,
    UnmatchedNotified,
    check_amount,
    fields_of,
    parse_number,
    read_table,
    setting,
    to_money,
)

_OPERATION = ProviderOperation(
    is_idempotent=True,
    can_be_polled=True,
    not_found_is_final_after=MINUTE,
    poll_intervals=(Span(10 * SECOND), MINUTE, Span(10 * MINUTE), HOUR),
)

OPERATIONS: Mapping[OperationKey, ProviderOperation] = MappingProxyType(
    {DIRECT_PAYIN: _OPERATION, DIRECT_PAYOUT: _OPERATION}
)


@frozen
class Account:
    base_url: str = setting(HTTPS_URL, REQUIRED, "Where requests go.")
    api_key: str = setting(SECRET, REQUIRED, "The key of the operator's portal.")


CODES: Mapping[str, tuple[ErrorCode, ErrorCode]] = MappingProxyType(
    {
        "no-money": (ErrorCode.USER_INSUFFICIENT_FUNDS, ErrorCode.MERCHANT_INSUFFICIENT_FUNDS),
        "said-no": (ErrorCode.USER_CANCELLED, ErrorCode.TRANSACTION_DECLINED),
        "no-such-phone": (ErrorCode.USER_NOT_FOUND, ErrorCode.USER_NOT_FOUND),
    }
)


def to_error_code(native: str | None, type: Type) -> ErrorCode:
    payin, payout = CODES.get(native or "", (ErrorCode.TRANSACTION_DECLINED,) * 2)
    return payin if type is Type.PAYIN else payout


UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Exceptions that a malformed response may cause."""


def plain(value: str) -> str:
    """Return the text. Raises ValueError for characters that no store can hold."""
    if not value.isprintable():
        raise ValueError("it has characters that can't be printed")
    return value


@frozen
class PesaplusProvider:
    name: str
    title: str
    account: Account

    @property
    def base_url(self) -> str:
        return self.account.base_url

    @property
    def operations(self) -> Mapping[OperationKey, ProviderOperation]:
        return OPERATIONS

    def scope_of(self, request: HttpRequest) -> str | None:
        return "payments"  # It has one kind of token; None: none is needed.

    def sign_in(self, scope: str, *, now: Moment) -> SignIn:
        target = f"{self.account.base_url}/v1/token".encode()
        key = (b"x-api-key", self.account.api_key.encode())
        answer = yield HttpRequest("POST", target, (key,))
        if answer.status != 200:
            raise SignInFailed(f"It answered {answer.status}.")
        try:
            document = json.loads(answer.body)
            value = plain(document["token"])
            life = Span(int(document["seconds"]) * SECOND)
        except UNREADABLE:
            raise SignInFailed("Its answer holds no token.") from None
        return AccessToken(value, issued_at=now.time, expires_at=later(now.time, life))

    def rejects_token(self, answer: HttpResponse) -> bool:
        return answer.status == 401

    def submit(self, transaction: Transaction, *, now: Moment) -> Conversation:
        order = transaction.order
        document = {
            "id": transaction.reference,
            "kind": "collect" if order.type is Type.PAYIN else "send",
            "phone": order.party.msisdn.removeprefix("+"),
            "amount": order.requested.text,
            "currency": order.requested.currency,
        }
        try:
            answer = yield self._request("POST", "", json.dumps(document).encode())
        except ExchangeFailed as failure:
            if failure.may_have_arrived:
                return self._unknown(transaction, failure.reason)
            return self._never_received(transaction)
        if answer.status in (202, 409):  # 409: it has had this id before.
            return ProviderAccepted(transaction.reference, self.name, Source.POLL)
        if answer.status == 422:
            return self._read(transaction, answer)
        return self._unknown(transaction, f"A submission was answered {answer.status}.")

    def poll(self, transaction: Transaction, *, now: Moment) -> Conversation:
        try:
            answer = yield self._request("GET", f"/{transaction.reference}")
        except ExchangeFailed as failure:
            return self._unknown(transaction, failure.reason)
        if answer.status == 404 and b'"unknown"' in answer.body:
            begun = transaction.progress.submitted_at
            if begun is not None and _OPERATION.is_not_found_final(begun, now=now.time):
                return self._never_received(transaction)
            return self._unknown(transaction, "It is not found, and may be too new for that.")
        if answer.status != 200:
            return self._unknown(transaction, f"A poll was answered {answer.status}.")
        return self._read(transaction, answer)

    def read_notification(self, request: HttpRequest) -> ProviderHinted | UnmatchedNotified:
        return parse_notification(self.name, request)

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        return HttpResponse(200 if accepted else 503)

    def _read(self, transaction: Transaction, answer: HttpResponse) -> ProviderReport:
        try:
            return self._payment(transaction, json.loads(answer.body))
        except UNREADABLE as error:
            return self._unknown(transaction, f"An answer can't be read: {type(error).__name__}.")

    def _payment(self, transaction: Transaction, document: dict[str, Any]) -> ProviderReport:
        if document["id"] != transaction.reference:
            raise ValueError("it is about another payment")
        reference = transaction.reference
        match document["state"]:
            case "waiting":
                return ProviderAccepted(reference, self.name, Source.POLL)
            case "paid":
                amount = check_amount(parse_number(document["amount"]))
                final = to_money(amount, document["currency"])
                receipt = plain(document["receipt"])
                return ProviderSucceeded(reference, self.name, Source.POLL, receipt, final)
            case "refused":
                native = plain(document["code"])
                code = to_error_code(native, transaction.order.type)
                return ProviderFailed(reference, self.name, Source.POLL, code, native_code=native)
            case _:
                raise ValueError("its state is none that is known")

    def _request(self, method: str, tail: str, body: bytes = b"") -> HttpRequest:
        headers = ((b"content-type", b"application/json"),) if body else ()
        target = f"{self.account.base_url}/v1/payments{tail}".encode()
        return HttpRequest(method, target, headers, body)

    def _unknown(self, transaction: Transaction, reason: str) -> ProviderReport:
        return ProviderUnreachable(transaction.reference, self.name, reason)

    def _never_received(self, transaction: Transaction) -> ProviderReport:
        version = transaction.progress.version
        return ProviderNeverReceived(transaction.reference, self.name, version)


def parse_notification(provider: str, request: HttpRequest) -> ProviderHinted | UnmatchedNotified:
    content = request.body.decode("utf-8", "replace").replace("\0", "\ufffd")[:2_000]
    try:
        reference = json.loads(request.body)["id"]
    except UNREADABLE:
        reference = None
    if not (isinstance(reference, str) and reference.isalnum() and len(reference) == 26):
        return UnmatchedNotified(provider, content)
    return ProviderHinted(reference, provider, content)


def open_pesaplus(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> PesaplusProvider:
    return PesaplusProvider(name, title, read_table(Account, options))


PESAPLUS = ProviderKind(
    "Pesaplus",
    open_pesaplus,
    fields_of(Account),
    production_hosts=("api.pesaplus.example",),
)

"""The operator Pagaqui, which does not exist and whose payers approve at its page, as a kind of
provider; `docs/internals/adding.md` explains each part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from mmo_sansio import HOUR, MINUTE, SECOND, ErrorCode, Moment, Transaction
from mmo_sansio.providers import (
    HTTPS_URL,
    PAYER_HOSTS,
    REQUIRED,
    SECRET,
    WEB_PAYIN,
    AdapterContext,
    Conversation,
    ExchangeFailed,
    HttpRequest,
    HttpResponse,
    OpenUrl,
    OperationKey,
    PaymentReports,
    ProviderHinted,
    ProviderKind,
    ProviderOperation,
    ProviderReport,
    Span,
    UnmatchedNotified,
    check_amount,
    check_pages_url,
    fields_of,
    parse_json,
    parse_number,
    plain_amount,
    read_table,
    return_url,
    setting,
    stored_text,
    text_member,
    to_json,
    to_money,
)

OPERATIONS: Mapping[OperationKey, ProviderOperation] = MappingProxyType(
    {
        WEB_PAYIN: ProviderOperation(
            is_idempotent=True,
            can_be_polled=True,
            not_found_is_final_after=MINUTE,
            poll_intervals=(Span(5 * SECOND), Span(10 * SECOND), MINUTE, Span(10 * MINUTE), HOUR),
        )
    }
)

CODES: Mapping[str, ErrorCode] = MappingProxyType(
    {
        "cancelled": ErrorCode.USER_CANCELLED,
        "expired": ErrorCode.USER_TIMEOUT,
        "no-money": ErrorCode.USER_INSUFFICIENT_FUNDS,
    }
)

FREE_TEXTS = frozenset({"message"})
"""The members with words for people: a letter that was cut in two makes no answer unreadable."""

NOTIFIED = re.compile(rb"/([0-9A-HJKMNP-TV-Z]{26})$")
"""The end of our address for one payment's notifications: its gatewayReference."""


@frozen
class PagaquiProvider:
    name: str
    title: str
    pages_url: str
    hooks_url: str = field(repr=False)
    base_url: str = setting(HTTPS_URL, REQUIRED, "Where requests go.")
    api_key: str = setting(SECRET, REQUIRED, "The key of the operator's portal.")
    payer_hosts: tuple[str, ...] = setting(
        PAYER_HOSTS, REQUIRED, "The hosts of the operator's pages: payers are sent to no other."
    )

    @property
    def operations(self) -> Mapping[OperationKey, ProviderOperation]:
        return OPERATIONS

    def submit(self, transaction: Transaction, *, now: Moment) -> Conversation:
        about, order = PaymentReports(transaction, self.name), transaction.order
        document = {
            "id": order.gateway_reference,
            "amount": plain_amount(order.requested),
            "currency": order.requested.currency,
            "return_to": return_url(self.pages_url, order),
            "notify_to": f"{self.hooks_url}/{order.gateway_reference}",
        }
        try:
            answer = yield self._request("POST", "", to_json(document))
        except ExchangeFailed as failure:
            return about.unanswered(failure)
        return self._read(about, answer)

    def poll(self, transaction: Transaction, *, now: Moment) -> Conversation:
        about, progress = PaymentReports(transaction, self.name), transaction.progress
        try:
            answer = yield self._request("GET", f"/{transaction.reference}")
        except ExchangeFailed as failure:
            return about.unreachable(failure.reason)
        if answer.status == 404 and b'"no-such-checkout"' in answer.body:
            begun = progress.submitted_at
            if begun is not None and OPERATIONS[WEB_PAYIN].is_not_found_final(begun, now=now.time):
                return about.never_received()
            return about.unreachable("It is not found, and may be too new for that.")
        return self._read(about, answer)

    def read_notification(self, request: HttpRequest) -> ProviderHinted | UnmatchedNotified:
        content, named = stored_text(request.body), NOTIFIED.search(request.target)
        if named is None:
            return UnmatchedNotified(self.name, content)
        try:
            state = text_member(parse_json(request.body, free_texts=FREE_TEXTS), "state")
        except ValueError:
            state = None
        says_paid = state == "paid"
        return ProviderHinted(named[1].decode(), self.name, content, says_paid=says_paid)

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        return HttpResponse(200 if accepted else 503)

    def _read(self, about: PaymentReports, answer: HttpResponse) -> ProviderReport:
        if answer.status != 200:
            return about.unreachable(f"It answered {answer.status}.")
        try:
            document = parse_json(answer.body, free_texts=FREE_TEXTS)
            if text_member(document, "id") != about.transaction.reference:
                raise ValueError("it is about another payment")
            return self._report(about, document)
        except (ValueError, KeyError) as error:
            return about.unreachable(f"An answer can't be used: {type(error).__name__}.")

    def _report(self, about: PaymentReports, document: Mapping[str, Any]) -> ProviderReport:
        match text_member(document, "state"):
            case "open":
                page = text_member(document, "page")
                return about.accepted(payer_action=None if page is None else OpenUrl(page))
            case "paid":
                return self._paid(about, document)
            case "failed":
                native, message = text_member(document, "code"), text_member(document, "message")
                code = CODES.get(native or "", ErrorCode.TRANSACTION_DECLINED)
                return about.failed(code, native, message)
            case _:
                raise ValueError("its state is none that is known")

    def _paid(self, about: PaymentReports, document: Mapping[str, Any]) -> ProviderReport:
        receipt = text_member(document, "receipt")
        try:
            amount = check_amount(parse_number(text_member(document, "amount") or ""))
            final = to_money(amount, text_member(document, "currency") or "")
        except (ValueError, KeyError):
            return about.doubtfully_paid("Its amount can't be read.", "paid", receipt)
        return about.succeeded(receipt, final)

    def _request(self, method: str, tail: str, body: bytes = b"") -> HttpRequest:
        key = (b"authorization", f"Bearer {self.api_key}".encode())
        content = ((b"content-type", b"application/json"),) if body else ()
        target = f"{self.base_url}/v1/checkouts{tail}".encode()
        return HttpRequest(method, target, (key, *content), body)


def open_pagaqui(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> PagaquiProvider:
    provider = read_table(
        PagaquiProvider,
        options,
        name=name,
        title=title,
        pages_url=context.pages_url,
        hooks_url=context.hooks_url,
    )
    check_pages_url(context.pages_url, provider.base_url)
    return provider


PAGAQUI = ProviderKind(
    "Pagaqui",
    open_pagaqui,
    fields_of(PagaquiProvider),
    production_hosts=("api.pagaqui.example",),
    confirms_elsewhere=lambda options: True,
)

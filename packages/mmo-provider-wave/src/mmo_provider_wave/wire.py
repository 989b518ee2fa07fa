"""Writes and reads Wave's messages: checkout sessions, pay-outs, transactions and refusals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from attrs import frozen

from mmo_provider_wave.codes import FAILURES, find_failure
from mmo_sansio import ErrorCode, Instant, Money
from mmo_sansio.providers import (
    HttpResponse,
    Order,
    Type,
    check_amount,
    from_datetime,
    object_member,
    parse_json,
    parse_number,
    plain_amount,
    text_member,
    to_json,
    to_money,
)

# To which Wave's texts are cut before anybody stores them.
CODE_CHARACTERS_MAX: Final = 100
MESSAGE_CHARACTERS_MAX: Final = 500

# The members that have words for people, and people's names.
FREE_TEXTS: Final = frozenset(
    {
        "business_name",
        "counterparty_name",
        "error_message",
        "message",
        "msg",
        "name",
        "payment_reason",
    }
)

# The status of a payment, and of a pay-out, whose money has moved.
SUCCEEDED: Final = "succeeded"

# The status of a pay-out that is not and will not be paid.
FAILED: Final = "failed"

# The forms of ids in docs.wave.com's examples; they become parts of addresses.
_SESSION_ID: Final = re.compile(r"cos-[0-9A-Za-z]{1,100}", re.ASCII)
_PAYOUT_ID: Final = re.compile(r"pt-[0-9A-Za-z]{1,100}", re.ASCII)
_RECEIPT: Final = re.compile(r"[!-~]{1,200}", re.ASCII)


class Unclear(Exception):
    """Raised for an answer that says nothing certain of a payment, with the reason in words."""

    def __init__(self, reason: str, *, is_paid: bool = False, receipt: str | None = None) -> None:
        super().__init__(reason)

        # Whether the answer calls the payment paid all the same.
        self.is_paid = is_paid
        self.receipt = receipt


@frozen
class Session:
    """Holds a checkout session: one payment, which its payer may attempt until it expires."""

    id: str
    client_reference: str | None
    checkout_status: str
    """`open`, `complete` or `expired`."""
    payment_status: str
    """`processing`, `cancelled` or `succeeded`."""
    amount: Money
    launch_url: str | None
    """Where the payer approves."""
    transaction_id: str | None
    created_at: Instant | None
    """In wall time, as are the other times."""
    expires_at: Instant | None
    ended_at: Instant | None
    """When it was completed, or expired."""
    error_code: str | None
    """Why the payer's last attempt failed."""
    error_message: str | None

    @property
    def is_open(self) -> bool:
        """Tell whether it can still be paid."""
        return self.checkout_status == "open" and self.payment_status != SUCCEEDED

    @property
    def was_paid(self) -> bool:
        """Tell whether its money was taken, also where it may have been given back since: it is
        cancelled then, and has a transaction."""
        is_cancelled = self.payment_status == "cancelled" and self.checkout_status == "complete"
        return self.payment_status == SUCCEEDED or (
            is_cancelled and self.transaction_id is not None
        )


@frozen
class Payout:
    """Holds a pay-out."""

    id: str
    client_reference: str | None
    status: str
    """`processing`, `succeeded`, `failed` or `reversed`."""
    amount: Money
    error_code: str | None
    error_message: str | None


@frozen
class Refusal:
    """Holds Wave's own statement that it did not take a request."""

    code: str
    message: str | None
    members: str = ""
    """The members of the request that it does not take."""

    def error_code(self, type: Type) -> ErrorCode:
        """Return the meaning, which for a request of the wrong form is that of its member."""
        if self.code == "request-validation-error":
            for member, meaning in _MEANINGS_BY_MEMBER:
                if member in self.members:
                    return meaning
        return find_failure(self.code).error_code(type)


# By the member that a validation error names (assumed: the names are those of our requests).
_MEANINGS_BY_MEMBER: Final = (
    ("mobile", ErrorCode.USER_NOT_FOUND),
    ("amount", ErrorCode.AMOUNT_OUT_OF_RANGE),
)


def session_body(order: Order, return_address: str, payer: str | None) -> bytes:
    """Return the body of a request for a session. Whatever comes of it, its payer is sent to the
    same address, which proves nothing."""
    document = {
        "amount": plain_amount(order.requested),
        "currency": order.requested.currency,
        "client_reference": order.gateway_reference,
        "success_url": return_address,
        "error_url": return_address,
    }
    if payer is not None:
        document["restrict_payer_mobile"] = international_number(payer)
    return to_json(document)


def payout_body(order: Order) -> bytes:
    """Return the body of a pay-out: the same for each repetition, as its key demands."""
    return to_json(
        {
            "currency": order.requested.currency,
            "receive_amount": plain_amount(order.requested),
            "mobile": international_number(order.party.msisdn),
            "client_reference": order.gateway_reference,
        }
    )


def international_number(msisdn: str) -> str:
    """Return a number as Wave takes it, with the plus that merchants may leave out (E.164)."""
    return f"+{msisdn.removeprefix('+')}"


def parse_body(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object in a body, each number as its text. Raises ValueError for any other
    body."""
    return parse_json(body, number=str, free_texts=FREE_TEXTS)


def parse_document(response: HttpResponse) -> Mapping[str, Any]:
    """Return the JSON object in an answer of 200. Raises Unclear for any other."""
    if response.status != 200:
        raise Unclear(f"Wave answered {response.status}.")
    try:
        return parse_body(response.body)
    except ValueError as error:
        raise Unclear(f"Wave's answer can't be read: {error}.") from None


def parse_list(response: HttpResponse, name: str) -> Sequence[Mapping[str, Any]]:
    """Return the objects in the array of this name. Raises Unclear where there is none."""
    items = parse_document(response).get(name)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Unclear(f"Wave's answer has no list of {name}.")
    return items


def read_session(document: Mapping[str, Any], reference: str) -> Session:
    """Return the session of our payment. Raises Unclear for another or an unreadable one."""
    try:
        session = parse_session(document)
        if session.client_reference != reference:
            raise ValueError("it is about another payment")
    except ValueError as error:
        raise _unclear(document, "payment_status", "transaction_id", error) from None
    return session


def read_payout(document: Mapping[str, Any], reference: str) -> Payout:
    """Return the pay-out of ours. Raises Unclear for another or an unreadable one."""
    try:
        payout = _parse_payout(document)
        if payout.client_reference != reference:
            raise ValueError("it is about another payment")
    except ValueError as error:
        raise _unclear(document, "status", "id", error) from None
    return payout


def parse_session(document: Mapping[str, Any]) -> Session:
    """Return a session. Raises ValueError for an invalid one."""
    error = object_member(document, "last_payment_error")
    return Session(
        id=_required(document, "id", _SESSION_ID),
        client_reference=text_member(document, "client_reference"),
        checkout_status=text_member(document, "checkout_status") or "",
        payment_status=text_member(document, "payment_status") or "",
        amount=_parse_amount(document, "amount"),
        launch_url=text_member(document, "wave_launch_url"),
        transaction_id=_receipt(document, "transaction_id"),
        created_at=_time_member(document, "when_created"),
        expires_at=_time_member(document, "when_expires"),
        ended_at=_time_member(document, "when_completed"),
        error_code=_cut(error, "code", CODE_CHARACTERS_MAX),
        error_message=_cut(error, "message", MESSAGE_CHARACTERS_MAX),
    )


def parse_refusal(body: bytes) -> Refusal | None:
    """Return Wave's refusal in the body of an answer; None where it holds none, as what a proxy
    answers, which says nothing."""
    try:
        document = parse_body(body)
        error = document.get("error")
        # The members of an error stand at the top, or in `error`.
        if isinstance(error, dict):
            document = error

        code = _cut(document, "code", CODE_CHARACTERS_MAX)
        code = code or _cut(document, "error_code", CODE_CHARACTERS_MAX)
        # In one of the documentation's examples `error` is the code itself.
        if code is None and isinstance(error, str) and error in FAILURES:
            code = error

        message = _cut(document, "message", MESSAGE_CHARACTERS_MAX)
        message = message or _cut(document, "error_message", MESSAGE_CHARACTERS_MAX)
    except ValueError:
        return None

    if code is None:
        return None

    details = document.get("details")
    if not isinstance(details, list):
        details = []

    members = [str(detail.get("loc")) for detail in details if isinstance(detail, dict)]
    return Refusal(code, message, " ".join(members))


def _parse_payout(document: Mapping[str, Any]) -> Payout:
    error = object_member(document, "payout_error")
    return Payout(
        id=_required(document, "id", _PAYOUT_ID),
        client_reference=text_member(document, "client_reference"),
        status=text_member(document, "status") or "",
        amount=_parse_amount(document, "receive_amount"),
        error_code=_cut(error, "error_code", CODE_CHARACTERS_MAX),
        error_message=_cut(error, "error_message", MESSAGE_CHARACTERS_MAX),
    )


def _unclear(
    document: Mapping[str, Any], status_member: str, receipt_member: str, error: ValueError
) -> Unclear:
    # The receipt may be what can't be used: that it is called paid counts all the same.
    try:
        receipt = _receipt(document, receipt_member)
    except ValueError:
        receipt = None

    return Unclear(
        f"What Wave says of it can't be used: {error}.",
        is_paid=document.get(status_member) == SUCCEEDED,
        receipt=receipt,
    )


def _required(document: Mapping[str, Any], name: str, pattern: re.Pattern[str]) -> str:
    value = text_member(document, name)
    if value is None or pattern.fullmatch(value) is None:
        raise ValueError(f"{name} is of no known form")
    return value


def _receipt(document: Mapping[str, Any], name: str) -> str | None:
    value = text_member(document, name)
    if value is not None and _RECEIPT.fullmatch(value) is None:
        raise ValueError(f"{name} is of no known form")
    return value


def _cut(document: Mapping[str, Any], name: str, characters_max: int) -> str | None:
    value = text_member(document, name)
    return value and value[:characters_max]


def _parse_amount(document: Mapping[str, Any], name: str) -> Money:
    amount = text_member(document, name)
    currency = text_member(document, "currency")
    if amount is None or currency is None:
        raise ValueError(f"it has no {name}, or no currency")
    try:
        return to_money(check_amount(parse_number(amount)), currency)
    except KeyError:
        raise ValueError("its currency does not exist") from None


def _time_member(document: Mapping[str, Any], name: str) -> Instant | None:
    text = text_member(document, name)
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    # Without one it could be wrong by hours, and a session be ended too late.
    if time.tzinfo is None:
        raise ValueError(f"{name} has no time zone")
    return from_datetime(time)

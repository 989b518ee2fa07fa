"""Writes and reads pawaPay's messages, and makes its ids of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from enum import Enum, auto
from typing import Any, Final

from attrs import frozen

from mmo_provider_pawapay.codes import ACCOUNT_REFUSALS, FAILURES, INCONCLUSIVE
from mmo_sansio import Money
from mmo_sansio.providers import (
    HttpResponse,
    Order,
    Type,
    check_amount,
    object_member,
    parse_balance,
    parse_number,
    plain_amount,
    text_member,
    to_json,
    to_money,
)
from mmo_sansio.providers import parse_json as parse_json_object

# To which pawaPay's texts are cut before anybody stores them.
CODE_CHARACTERS_MAX: Final = 100
MESSAGE_CHARACTERS_MAX: Final = 500
RECEIPT_CHARACTERS_MAX: Final = 200

# The members that have words for people.
FREE_TEXTS: Final = frozenset({"customerMessage", "failureMessage"})

# Documented: a payment that has no result yet. Enqueued, it may stay so for hours.
PENDING_STATUSES: Final = frozenset(
    {"ACCEPTED", "SUBMITTED", "ENQUEUED", "PROCESSING", "IN_RECONCILIATION"}
)

_ULID_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID: Final = re.compile(rf"[{_ULID_DIGITS}]{{26}}", re.ASCII)
_UUID: Final = re.compile(
    r"([0-9a-f]{8})-([0-9a-f]{4})-4([0-9a-f]{3})-([89ab])([0-9a-f]{3})-([0-9a-f]{12})", re.ASCII
)


def operation_id(gateway_reference: str) -> str:
    """Return the UUID under which pawaPay knows this payment, the same for each repetition of a
    submission.

    pawaPay takes version 4 only (RFC 9562 section 5.4), which leaves 122 bits. A gatewayReference
    is a ULID of 128 bits, whose first six are zero until the year 2109; so the UUID is the
    reference in another form. Raises ValueError for any other text."""
    value = 0
    if _ULID.fullmatch(gateway_reference) is None:
        raise ValueError("it is no ULID")

    for character in gateway_reference:
        value = value << 5 | _ULID_DIGITS.index(character)

    if value >> 122:
        raise ValueError("it is of the year 2109 or later")

    # Version and variant take six bits, in the places that RFC 9562 gives them.
    high = value >> 74
    middle = value >> 62 & 0xFFF
    low = value & (1 << 62) - 1
    digits = f"{high:012x}4{middle:03x}{1 << 63 | low:016x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def gateway_reference(id: str) -> str | None:
    """Return the gatewayReference in an id that `operation_id` may have made; None for any other
    text."""
    match = _UUID.fullmatch(id)
    if match is None:
        return None

    high = int(match[1] + match[2], 16)
    middle = int(match[3], 16)
    low = int("".join(match.group(4, 5, 6)), 16)
    value = high << 74 | middle << 62 | low & (1 << 62) - 1
    return "".join(_ULID_DIGITS[value >> shift & 31] for shift in range(125, -1, -5))


@frozen
class Operation:
    """Names what pawaPay calls a type of payment."""

    path: str
    id: str
    """The member with the id."""
    party: str
    """The member with the customer."""
    key: str
    """Its key in the active configuration and in the availability."""


DEPOSIT: Final = Operation("/v2/deposits", "depositId", "payer", "DEPOSIT")
PAYOUT: Final = Operation("/v2/payouts", "payoutId", "recipient", "PAYOUT")
REFUND: Final = Operation("/v2/refunds", "refundId", "recipient", "REFUND")


def operation_of(type: Type) -> Operation:
    if type is Type.PAYIN:
        return DEPOSIT
    return PAYOUT


def amount_text(amount: Money) -> str:
    """Return an amount without zeros at its end, which the schema of v2 does not take."""
    text = plain_amount(amount)
    if "." in text:
        return text.rstrip("0")
    return text


def submission_body(
    order: Order,
    market: str,
    customer_message: str | None,
    *,
    code: str | None = None,
    returns_to: str | None = None,
) -> bytes:
    """Return the body of a submission, with the code that the payer has given, and with the address
    to which the operator's page sends the payer back. It is the same after a success and after a
    failure, as neither is believed."""
    operation = operation_of(order.type)
    document: dict[str, Any] = {
        operation.id: operation_id(order.gateway_reference),
        "amount": amount_text(order.requested),
        "currency": order.requested.currency,
        operation.party: {
            "type": "MMO",
            "accountDetails": {
                "phoneNumber": order.party.msisdn.removeprefix("+"),
                "provider": market,
            },
        },
        "clientReferenceId": order.gateway_reference,
    }
    # Members that are left out where there is nothing to say: null is none of their values.
    further = {
        "customerMessage": customer_message,
        "preAuthorisationCode": code,
        "successfulUrl": returns_to,
        "failedUrl": returns_to,
    }
    return to_json(document | {name: value for name, value in further.items() if value is not None})


@frozen
class FailureReason:
    """Holds pawaPay's reason of a failure."""

    code: str | None = None
    message: str | None = None


def parse_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body, each number as its text. Raises ValueError for any other
    body."""
    return parse_json_object(body, number=str, free_texts=FREE_TEXTS)


def named_id(document: Mapping[str, Any], operation: Operation) -> str | None:
    """Return the id that an answer about a payment or refund names. The guide to refunds shows a
    refund's under the name of a pay-out's, the reference under its own
    (https://docs.pawapay.io/v2/docs/refunds). Raises ValueError for no text."""
    id = text_member(document, operation.id)
    if id is None and operation is REFUND:
        return text_member(document, PAYOUT.id)
    return id


def parse_wallets(body: bytes, market: str) -> Mapping[str, Money]:
    """Return the balances of the wallets of a market, by `COUNTRY/CURRENCY`, followed by the
    market's own name where the wallet serves no other; one that can't be read is left out. Raises
    ValueError for an answer that holds no wallets."""
    balances = parse_json(body).get("balances")
    if not isinstance(balances, list):
        raise ValueError("balances is no list")

    wallets = {}
    for balance in balances:
        # One that can't be read leaves the others as they are.
        with suppress(ValueError):
            if not isinstance(balance, dict):
                raise ValueError("a wallet is no object")

            country = text_member(balance, "country")
            own = text_member(balance, "provider")
            if country == market[-3:] and own in (None, market):
                amount = parse_balance(balance.get("balance"), balance.get("currency"))
                wallets["/".join(filter(None, (country, amount.currency, own)))] = amount

    return wallets


def parse_failure(document: Mapping[str, Any]) -> FailureReason:
    """Return the `failureReason` of an answer or a payment. Raises ValueError when it is of another
    form."""
    reason = object_member(document, "failureReason")
    code = text_member(reason, "failureCode")
    message = text_member(reason, "failureMessage")
    return FailureReason(
        code and code[:CODE_CHARACTERS_MAX], message and message[:MESSAGE_CHARACTERS_MAX]
    )


class Initiation(Enum):
    """Lists what the answer to a submission may say, but for a rejection."""

    ACCEPTED = auto()
    """pawaPay has it: it was accepted now, or before."""
    NEVER_RECEIVED = auto()
    UNCLEAR = auto()
    """pawaPay may have it: only a question tells."""


def parse_initiation(
    response: HttpResponse, operation: Operation, id: str
) -> Initiation | FailureReason:
    """Return what the answer to a submission says; the reason of a rejection, where pawaPay itself
    has written it."""
    # 1. Too many requests: nothing was taken.
    if response.status == 429:
        return Initiation.NEVER_RECEIVED

    # 2. A fault of pawaPay or of a proxy, which may have passed it on (S6).
    if not (response.status == 200 or 400 <= response.status < 500):
        return Initiation.UNCLEAR

    try:
        document = parse_json(response.body)
        named = named_id(document, operation)
        status = text_member(document, "status")
        reason = parse_failure(document)
    except ValueError:
        if is_turned_away(response):
            return Initiation.NEVER_RECEIVED
        return Initiation.UNCLEAR

    # 3. About another payment, or with a code that leaves it open.
    if named not in (None, id) or reason.code in INCONCLUSIVE:
        return Initiation.UNCLEAR

    # 4. pawaPay has it, now or from before.
    if response.status == 200 and named is not None and status in ("ACCEPTED", "DUPLICATE_IGNORED"):
        return Initiation.ACCEPTED

    # 5. It refuses our account, and says nothing of the payment.
    is_refused = reason.code in ACCOUNT_REFUSALS and status in (None, "REJECTED")
    if is_refused or is_turned_away(response):
        return Initiation.NEVER_RECEIVED

    # 6. Rejected: by the payment's own status, or as a request with a code of pawaPay's.
    if named is not None and status == "REJECTED":
        return reason

    is_told_by_pawapay = (
        status in (None, "REJECTED") and response.status != 200 and reason.code in FAILURES
    )
    if is_told_by_pawapay:
        return reason

    return Initiation.UNCLEAR


def is_turned_away(response: HttpResponse) -> bool:
    """Tell whether a submission came no further than to what stands in front of pawaPay: a 401 or
    403 that names neither a reason nor a payment, such as a firewall's page in HTML."""
    if response.status not in (401, 403):
        return False
    try:
        document = parse_json(response.body)
    except ValueError:
        return True
    names_payment = any(operation.id in document for operation in (DEPOSIT, PAYOUT, REFUND))
    return not (names_payment or "status" in document or "failureReason" in document)


def parse_amount(document: Mapping[str, Any]) -> Money | None:
    """Return the amount of a payment; None when it has none. Raises ValueError for an invalid
    amount."""
    amount = text_member(document, "amount")
    currency = text_member(document, "currency")
    if amount is None or currency is None:
        return None
    try:
        return to_money(check_amount(parse_number(amount)), currency)
    except KeyError:
        raise ValueError("its currency does not exist") from None


def parse_limit(document: Mapping[str, Any], *names: str) -> Decimal | None:
    """Return the number under the first of these names that there is. Raises ValueError for another
    text."""
    for name in names:
        if (text := text_member(document, name)) is not None:
            return parse_number(text)
    return None


def parse_objects(body: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects in a body that is an array of them. Raises ValueError for any other
    body."""
    # An array at the top is read as a member, by the same strict parser.
    return objects(parse_json(b'{"objects":%b}' % body), "objects")


def objects(document: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in the array under this name, none when it is absent. Raises ValueError
    for anything else."""
    value = document.get(name, [])
    if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
        raise ValueError(f"{name} is no array of objects")
    return value

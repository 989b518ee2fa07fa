"""Defines the endpoints of the simulated Daraja and the fields that each requires. A rejection names the field, as
Daraja's do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from mmo_sansio.providers.mpesa_daraja.wire import password
from mmo_trio.simulators.base import RequestRejected, json_response
from mmo_trio.simulators.mpesa.accounts import SimulatedMpesaAccount, SimulatedMpesaAccounts

FieldCheck: TypeAlias = Callable[[str], bool]


ENDPOINTS: Final[Mapping[str, tuple[str, str]]] = {
    "/oauth/v1/generate": ("GET", "token"),
    "/mpesa/stkpush/v1/processrequest": ("POST", "stk_push"),
    "/mpesa/stkpushquery/v1/query": ("POST", "stk_query"),
    "/mpesa/b2c/v3/paymentrequest": ("POST", "b2c"),
    "/mpesa/b2b/v1/remittax": ("POST", "tax"),
    "/mpesa/transactionstatus/v1/query": ("POST", "status"),
    "/mpesa/qrcode/v1/generate": ("POST", "qr"),
    "/mpesa/c2b/v1/registerurl": ("POST", "register"),
    "/mpesa/c2b/v2/registerurl": ("POST", "register"),
    "/mpesa/c2b/v1/simulate": ("POST", "c2b"),
    "/mpesa/c2b/v2/simulate": ("POST", "c2b"),
}
"""By path: the method and the operation's name."""


class MpesaRequestRejected(RequestRejected):
    """A request is rejected as Daraja does."""

    def __init__(self, status: int, code: str, message: str) -> None:
        document = {"requestId": "simulated-1", "errorCode": code, "errorMessage": message}
        super().__init__(json_response(status, document))


def invalid_field(field: str) -> MpesaRequestRejected:
    """Return the rejection of a field."""
    return MpesaRequestRejected(400, "400.002.02", f"Bad Request - Invalid {field}")


def _matches(pattern: str) -> FieldCheck:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


FORBIDDEN_WORDS: Final = ("mpesa", "m-pesa", "safaricom", "exe", "exec", "cmd", "sql", "query")


def _is_public_url(text: str) -> bool:
    return _is_url(text) and not any(word in text.lower() for word in FORBIDDEN_WORDS)


_shortcode = _matches(r"[0-9]{5,7}")
_msisdn = _matches(r"254[17][0-9]{8}")
_positive_integer = _matches(r"[1-9][0-9]*")
_non_empty = _matches(r"(?s).+")
_remarks = _matches(r"(?s).{2,100}")
_timestamp = _matches(r"[0-9]{14}")

_INITIATOR_FIELDS: Mapping[str, FieldCheck] = {
    "SecurityCredential": _non_empty,
    "PartyA": _shortcode,
    "Remarks": _remarks,
    "QueueTimeOutURL": _is_public_url,
    "ResultURL": _is_public_url,
}

FORM_FIELDS: Final[Mapping[str, Mapping[str, FieldCheck]]] = {
    "stk_push": {
        "BusinessShortCode": _shortcode,
        "Password": _non_empty,
        "Timestamp": _timestamp,
        "TransactionType": _matches("CustomerPayBillOnline|CustomerBuyGoodsOnline"),
        "Amount": _positive_integer,
        "PartyA": _msisdn,
        "PartyB": _shortcode,
        "PhoneNumber": _msisdn,
        "CallBackURL": _is_public_url,
        "AccountReference": _matches("[A-Za-z0-9]{1,12}"),
        "TransactionDesc?": _matches("(?s).{0,13}"),
    },
    "stk_query": {
        "BusinessShortCode": _shortcode,
        "Password": _non_empty,
        "Timestamp": _timestamp,
        "CheckoutRequestID": _non_empty,
    },
    "b2c": {
        **_INITIATOR_FIELDS,
        "OriginatorConversationID": _non_empty,
        "InitiatorName": _non_empty,
        "CommandID": _matches("BusinessPayment|SalaryPayment|PromotionPayment"),
        "Amount": _positive_integer,
        "PartyB": _msisdn,
        "Occassion?": _matches("(?s).{0,100}"),
    },
    "tax": {
        **_INITIATOR_FIELDS,
        "Initiator": _non_empty,
        "CommandID": _matches("PayTaxToKRA"),
        "SenderIdentifierType": _matches("4"),
        "RecieverIdentifierType": _matches("4"),
        "Amount": _positive_integer,
        "PartyB": _matches("572572"),
        "AccountReference": _matches("[A-Za-z0-9]{1,20}"),
    },
    "status": {
        **_INITIATOR_FIELDS,
        "Initiator": _non_empty,
        "CommandID": _matches("TransactionStatusQuery"),
        "TransactionID?": _non_empty,
        "OriginalConversationID?": _non_empty,
        "IdentifierType": _matches("[124]"),
        "Occasion?": _matches("(?s).{0,100}"),
    },
    "qr": {
        "MerchantName": _non_empty,
        "RefNo": _non_empty,
        "Amount": _positive_integer,
        "TrxCode": _matches("BG|WA|PB|SM|SB"),
        "CPI": _matches("[0-9]{5,12}"),
        "Size": _matches("[1-9][0-9]{1,3}"),
    },
    "register": {
        "ShortCode": _shortcode,
        "ResponseType": _matches("Completed|Cancelled"),
        "ConfirmationURL": _is_public_url,
        "ValidationURL": _is_public_url,
    },
    "c2b": {
        "ShortCode": _shortcode,
        "CommandID": _matches("CustomerPayBillOnline|CustomerBuyGoodsOnline"),
        "Amount": _positive_integer,
        "Msisdn": _msisdn,
        "BillRefNumber?": _matches("(?s).{0,20}"),
    },
}
"""By operation; a name with a question mark may be left out."""


def check_form(operation: str, document: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields as text, numbers as well. Raises MpesaRequestRejected for the first that is missing or invalid.
    Unknown fields are ignored, as clients spell some in several ways."""
    form, taken = FORM_FIELDS[operation], {}
    for marked, is_good in form.items():
        name = marked.removesuffix("?")
        value = document.get(name)
        if value is None and marked != name:
            continue
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise invalid_field(name)
        taken[name] = str(value)
        if not is_good(taken[name]):
            raise invalid_field(name)
    return taken


def check_password(accounts: SimulatedMpesaAccounts, form: Mapping[str, str]) -> None:
    """Raise MpesaRequestRejected unless a push has the password of its shortcode."""
    account = accounts.accounts.get(form["BusinessShortCode"])
    if account is None or account.passkey is None:
        raise MpesaRequestRejected(500, "500.001.1001", "Merchant does not exist")
    if form["Password"] != password(account.id, account.passkey, form["Timestamp"]):
        raise MpesaRequestRejected(500, "500.001.1001", "Wrong credentials")


def find_organisation(accounts: SimulatedMpesaAccounts, form: Mapping[str, str]) -> SimulatedMpesaAccount:
    """Return the account that pays out or polls. Raises MpesaRequestRejected."""
    account = accounts.accounts.get(form["PartyA"])
    if account is None or account.initiator is None:
        raise invalid_field("PartyA")
    return account


def is_initiator_valid(account: SimulatedMpesaAccount, name: str, plain: bytes | None) -> bool:
    """Return whether these are the name and the decrypted password of the account's initiator."""
    return name == account.initiator and plain == (account.initiator_password or "").encode()

"""Defines the endpoints of the simulated Daraja and the fields that each requires. A rejection
names the field, as Daraja's do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from attrs import frozen

from mmo_simulators.operators.mpesa.request_checks import invalid_field

FieldCheck: TypeAlias = Callable[[str], bool]


def _matches(pattern: str) -> FieldCheck:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


# Documented, Customer To Business Register URL: in any case, anywhere in the address.
FORBIDDEN_WORDS: Final = ("mpesa", "m-pesa", "safaricom", "exe", "exec", "cmd", "sql", "query")


def _is_public_url(text: str) -> bool:
    return _is_url(text) and not any(word in text.lower() for word in FORBIDDEN_WORDS)


# The forms that M-Pesa's pages give (M-Pesa Express, Business To Customer).
_shortcode = _matches(r"[0-9]{5,7}")
_msisdn = _matches(r"254[17][0-9]{8}")
_positive_integer = _matches(r"[1-9][0-9]*")
_non_empty = _matches(r"(?s).+")
_remarks = _matches(r"(?s).{1,100}")
_remarks_of_two = _matches(r"(?s).{2,100}")
_timestamp = _matches(r"[0-9]{14}")
_spaced_timestamp = _matches(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}")

# What every request of an API operator has (documented).
_INITIATOR_FIELDS: Mapping[str, FieldCheck] = {
    "SecurityCredential": _non_empty,
    "PartyA": _shortcode,
    "Remarks": _remarks,
    "QueueTimeOutURL": _is_url,
    "ResultURL": _is_url,
}
_ORGANISATION_PAYMENT: Mapping[str, FieldCheck] = {
    **_INITIATOR_FIELDS,
    "Initiator": _non_empty,
    "SenderIdentifierType": _matches("4"),
    "Amount": _positive_integer,
}
_PAYOUT: Mapping[str, FieldCheck] = {
    **_INITIATOR_FIELDS,
    "Remarks": _remarks_of_two,
    "InitiatorName": _non_empty,
    "CommandID": _matches("BusinessPayment|SalaryPayment|PromotionPayment"),
    "Amount": _positive_integer,
    "PartyB": _msisdn,
    "Occassion?": _matches("(?s).{0,100}"),
}

# A name with a question mark may be left out.
_FORMS: Final[Mapping[str, Mapping[str, FieldCheck]]] = {
    "stk_push": {
        "BusinessShortCode": _shortcode,
        "Password": _non_empty,
        "Timestamp": _timestamp,
        "TransactionType": _matches("CustomerPayBillOnline|CustomerBuyGoodsOnline"),
        "Amount": _positive_integer,
        "PartyA": _msisdn,
        "PartyB": _shortcode,
        "PhoneNumber": _msisdn,
        "CallBackURL": _is_url,
        "AccountReference": _matches("[A-Za-z0-9]{1,12}"),
        "TransactionDesc?": _matches("(?s).{0,13}"),
    },
    "stk_query": {
        "BusinessShortCode": _shortcode,
        "Password": _non_empty,
        "Timestamp": _timestamp,
        "CheckoutRequestID": _non_empty,
    },
    "b2c": {"OriginatorConversationID": _non_empty, **_PAYOUT},
    "b2c_v1": _PAYOUT,
    "tax": {
        **_ORGANISATION_PAYMENT,
        "CommandID": _matches("PayTaxToKRA"),
        "RecieverIdentifierType": _matches("4"),
        "PartyB": _matches("572572"),
        "AccountReference": _matches("[A-Za-z0-9]{1,20}"),
    },
    "b2b": {
        **_ORGANISATION_PAYMENT,
        "CommandID": _matches("BusinessPayBill|BusinessBuyGoods|BusinessPayToBulk"),
        "RecieverIdentifierType": _matches("[24]"),
        "PartyB": _shortcode,
        "AccountReference?": _matches("(?s).{1,13}"),
        "Requester?": _msisdn,
    },
    "reversal": {
        "Initiator": _non_empty,
        "SecurityCredential": _non_empty,
        "CommandID": _matches("TransactionReversal"),
        "TransactionID": _non_empty,
        "Amount": _positive_integer,
        "ReceiverParty": _shortcode,
        "RecieverIdentifierType": _matches("4|11"),
        "Remarks": _remarks_of_two,
        "QueueTimeOutURL": _is_url,
        "ResultURL": _is_url,
    },
    "balance": {
        "Initiator": _non_empty,
        "SecurityCredential": _non_empty,
        "CommandID": _matches("AccountBalance"),
        "PartyA": _shortcode,
        "IdentifierType": _matches("[124]"),
        "Remarks?": _remarks,
        "QueueTimeOutURL?": _is_url,
        "ResultURL": _is_url,
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
    "pull_register": {
        "ShortCode": _shortcode,
        "RequestType": _matches("Pull"),
        "NominatedNumber": _msisdn,
        "CallBackURL": _is_public_url,
    },
    "pull_query": {
        "ShortCode": _shortcode,
        "StartDate": _spaced_timestamp,
        "EndDate": _spaced_timestamp,
        "OffSetValue": _matches("[0-9]+"),
    },
    "c2b": {
        "ShortCode": _shortcode,
        "CommandID": _matches("CustomerPayBillOnline|CustomerBuyGoodsOnline"),
        "Amount": _positive_integer,
        "Msisdn": _msisdn,
        "BillRefNumber?": _matches("(?s).{0,20}"),
    },
}


@frozen
class Endpoint:
    """An operation as one of its paths offers it."""

    operation: str
    """Its name in a script of faults."""
    form: str = ""
    """The name of its form."""
    method: str = "POST"
    version: int = 0
    """The version of its product, where an app has one of several; 0: there is one only."""


# By path.
ENDPOINTS: Final[Mapping[str, Endpoint]] = {
    "/oauth/v1/generate": Endpoint("token", method="GET"),
    "/mpesa/stkpush/v1/processrequest": Endpoint("stk_push", "stk_push"),
    "/mpesa/stkpushquery/v1/query": Endpoint("stk_query", "stk_query"),
    "/mpesa/b2c/v1/paymentrequest": Endpoint("b2c", "b2c_v1"),
    "/mpesa/b2c/v3/paymentrequest": Endpoint("b2c", "b2c"),
    "/mpesa/b2b/v1/paymentrequest": Endpoint("b2b", "b2b"),
    "/mpesa/b2b/v1/remittax": Endpoint("tax", "tax"),
    "/mpesa/transactionstatus/v1/query": Endpoint("status", "status"),
    "/mpesa/accountbalance/v1/query": Endpoint("balance", "balance"),
    "/mpesa/reversal/v1/request": Endpoint("reversal", "reversal"),
    "/mpesa/qrcode/v1/generate": Endpoint("qr", "qr"),
    "/mpesa/c2b/v1/registerurl": Endpoint("register", "register", version=1),
    "/mpesa/c2b/v2/registerurl": Endpoint("register", "register", version=2),
    "/mpesa/c2b/v1/simulate": Endpoint("c2b", "c2b", version=1),
    "/mpesa/c2b/v2/simulate": Endpoint("c2b", "c2b", version=2),
    "/pulltransactions/v1/register": Endpoint("pull_register", "pull_register"),
    "/pulltransactions/v1/query": Endpoint("pull_query", "pull_query"),
}


def check_form(name_of_form: str, document: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields as text, numbers as well. Raises MpesaRequestRejected for the first that is
    missing or invalid. An optional field that is null or empty is absent. Unknown fields are
    ignored, as clients spell some in several ways."""
    form = _FORMS[name_of_form]
    fields = {}
    for marked, is_good in form.items():
        name = marked.removesuffix("?")
        value = document.get(name)
        if value in (None, "") and marked != name:
            continue
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise invalid_field(name)

        fields[name] = str(value)
        if not is_good(fields[name]):
            raise invalid_field(name)

    return fields

"""Where the simulated Daraja is asked, and what it wants there: every field, and what it may hold. It refuses as Daraja
does, by the name of the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from mmo_sansio.http.messages import HttpResponse
from mmo_trio.simulators.base import json_answer

Check: TypeAlias = Callable[[str], bool]


PATHS: Final[Mapping[str, tuple[str, str]]] = {
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
"""What it offers: path, and then the method and the operation's name."""


class Refused(Exception):
    """A request that Daraja refuses."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.answer: HttpResponse = json_answer(
            status, {"requestId": "simulated-1", "errorCode": code, "errorMessage": message}
        )


def invalid(field: str) -> Refused:
    """The refusal of a field."""
    return Refused(400, "400.002.02", f"Bad Request - Invalid {field}")


def _matching(pattern: str) -> Check:
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


_shortcode = _matching(r"[0-9]{5,7}")
_msisdn = _matching(r"254[17][0-9]{8}")
_whole = _matching(r"[1-9][0-9]*")
_any = _matching(r"(?s).+")
_remarks = _matching(r"(?s).{2,100}")
_stamp = _matching(r"[0-9]{14}")

_INITIATED: Mapping[str, Check] = {
    "SecurityCredential": _any,
    "PartyA": _shortcode,
    "Remarks": _remarks,
    "QueueTimeOutURL": _is_public_url,
    "ResultURL": _is_public_url,
}

FORMS: Final[Mapping[str, Mapping[str, Check]]] = {
    "stk_push": {
        "BusinessShortCode": _shortcode,
        "Password": _any,
        "Timestamp": _stamp,
        "TransactionType": _matching("CustomerPayBillOnline|CustomerBuyGoodsOnline"),
        "Amount": _whole,
        "PartyA": _msisdn,
        "PartyB": _shortcode,
        "PhoneNumber": _msisdn,
        "CallBackURL": _is_public_url,
        "AccountReference": _matching("[A-Za-z0-9]{1,12}"),
        "TransactionDesc?": _matching("(?s).{0,13}"),
    },
    "stk_query": {
        "BusinessShortCode": _shortcode,
        "Password": _any,
        "Timestamp": _stamp,
        "CheckoutRequestID": _any,
    },
    "b2c": {
        **_INITIATED,
        "OriginatorConversationID": _any,
        "InitiatorName": _any,
        "CommandID": _matching("BusinessPayment|SalaryPayment|PromotionPayment"),
        "Amount": _whole,
        "PartyB": _msisdn,
        "Occassion?": _matching("(?s).{0,100}"),
    },
    "tax": {
        **_INITIATED,
        "Initiator": _any,
        "CommandID": _matching("PayTaxToKRA"),
        "SenderIdentifierType": _matching("4"),
        "RecieverIdentifierType": _matching("4"),
        "Amount": _whole,
        "PartyB": _matching("572572"),
        "AccountReference": _matching("[A-Za-z0-9]{1,20}"),
    },
    "status": {
        **_INITIATED,
        "Initiator": _any,
        "CommandID": _matching("TransactionStatusQuery"),
        "TransactionID?": _any,
        "OriginalConversationID?": _any,
        "IdentifierType": _matching("[124]"),
        "Occasion?": _matching("(?s).{0,100}"),
    },
    "qr": {
        "MerchantName": _any,
        "RefNo": _any,
        "Amount": _whole,
        "TrxCode": _matching("BG|WA|PB|SM|SB"),
        "CPI": _matching("[0-9]{5,12}"),
        "Size": _matching("[1-9][0-9]{1,3}"),
    },
    "register": {
        "ShortCode": _shortcode,
        "ResponseType": _matching("Completed|Cancelled"),
        "ConfirmationURL": _is_public_url,
        "ValidationURL": _is_public_url,
    },
    "c2b": {
        "ShortCode": _shortcode,
        "CommandID": _matching("CustomerPayBillOnline|CustomerBuyGoodsOnline"),
        "Amount": _whole,
        "Msisdn": _msisdn,
        "BillRefNumber?": _matching("(?s).{0,20}"),
    },
}
"""By operation; a name with a question mark may be left out."""


def checked(operation: str, document: Mapping[str, Any]) -> dict[str, str]:
    """The fields as text, numbers as well; raises Refused for the first that is missing or wrong. Others
    are passed over, as clients spell some in several ways."""
    form, taken = FORMS[operation], {}
    for marked, is_good in form.items():
        name = marked.removesuffix("?")
        value = document.get(name)
        if value is None and marked != name:
            continue
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise invalid(name)
        taken[name] = str(value)
        if not is_good(taken[name]):
            raise invalid(name)
    return taken

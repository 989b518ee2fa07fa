"""Builds the requests of a merchant's client, and reads their answers (G1, G5, L1 to L3, R1 to
R6), and of what a gateway tells beside the specification."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias, TypeVar

from attrs import field, frozen

from mmo_merchant.api.api_errors import (
    ApiProblem,
    ApiRejection,
    GatewayUnavailable,
    KeyRejected,
    ReferenceUsed,
    TransactionNotFound,
)
from mmo_merchant.api.extension_objects import (
    BrandMethods,
    PayeeObject,
    ReversalsPage,
    parse_methods,
    parse_payee,
    parse_reversals,
)
from mmo_merchant.api.new_payments import NewPayment, creation_body, operation_of
from mmo_merchant.api.tolerant_json import (
    UnreadableBody,
    checked_object,
    read_gateway_reference,
    read_object,
    read_optional_text,
    read_text,
    read_time,
)
from mmo_merchant.api.transaction_objects import (
    TransactionObject,
    parse_transaction,
    transaction_from,
)
from mmo_sansio.api.incoming.requests import API_PREFIX, EXTENSIONS_PREFIX
from mmo_sansio.http.messages import Headers, HttpRequest, HttpResponse
from mmo_sansio.values.clock import format_with_microseconds, from_datetime
from mmo_sansio.values.model import Status, Type
from mmo_sansio.values.problems import FieldError

T = TypeVar("T")

# The gateway's member `instance` is this and the request's name, which X-Request-Id has too (G9).
INSTANCE_PREFIX: Final = "urn:x-request-id:"

# A longer Retry-After (eleven days and more), or one that is a date, is ignored.
RETRY_AFTER_DIGITS_MAX: Final = 6

# What stands for itself in every place of a URL (RFC 3986 section 2.3).
_UNRESERVED: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)

# A host in brackets is an address of IPv6 (RFC 3986 section 3.2.2). User, path and query have no
# place: the key would go where nobody meant it to.
_GATEWAY_ADDRESS: Final = re.compile(
    r"https?://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?",
    re.ASCII | re.IGNORECASE,
)


@frozen
class ApiAccess:
    """Says where the merchant API is, and which brand asks."""

    base_url: str
    """Scheme and host, such as `https://gateway.example`, without a path."""
    api_key: str = field(repr=False)
    allow_clear: bool = False
    """Whether the key may cross a network in the clear, by `http`; to loopback it always may."""

    def __attrs_post_init__(self) -> None:
        """Raise ValueError for an address that is none, and for one that would give the key
        away."""
        address = _GATEWAY_ADDRESS.fullmatch(self.base_url)
        if address is None:
            raise ValueError(
                "The gateway's address is a scheme and a host, such as https://gateway.example:"
                " without user, path and query."
            )

        # Whoever reads the key can pay out in the brand's name; loopback never leaves the machine.
        if not (self.uses_tls or self.allow_clear or _is_loopback(address["host"])):
            raise ValueError(
                f"http://{address['host']} would carry the API key, with which anybody can pay out,"
                " in the clear: use https."
            )

    @property
    def uses_tls(self) -> bool:
        return self.base_url[:6].lower() == "https:"

    @property
    def _key_header(self) -> tuple[bytes, bytes]:
        return b"x-api-key", self.api_key.encode("ascii")

    def get(self, path: bytes) -> HttpRequest:
        """Return the request for a path below the API's prefix."""
        return HttpRequest("GET", self._target(path), (self._key_header,))

    def get_extension(self, path: bytes) -> HttpRequest:
        """Return the request for a path below the prefix of what is beside the specification."""
        target = self._target(path, prefix=EXTENSIONS_PREFIX)
        return HttpRequest("GET", target, (self._key_header,))

    def post(self, path: bytes, body: bytes) -> HttpRequest:
        """Return the request that sends JSON to a path below the API's prefix."""
        headers: Headers = (self._key_header, (b"content-type", b"application/json"))
        return HttpRequest("POST", self._target(path), headers, body)

    def _target(self, path: bytes, *, prefix: bytes = API_PREFIX) -> bytes:
        return self.base_url.rstrip("/").encode("ascii") + prefix + path


def _is_loopback(host: str) -> bool:
    # Other names are never looked up: what one means may change after this check.
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@frozen
class NoAnswer:
    """Says that no response came: the connection failed, broke or took too long."""

    detail: str


Answer: TypeAlias = HttpResponse | NoAnswer


@frozen(kw_only=True)
class StartedPayment:
    """Is a payment that was created: by this request, or by an earlier one under the same
    reference."""

    gateway_reference: str
    merchant_reference: str
    reconciliation_reference: str
    created_at: datetime
    page_url: str | None = None
    """Where to send the payer's browser, for a web pay-in. None for other payments, and for a web
    pay-in that was found: only the answer to its creation has the address."""
    found: TransactionObject | None = None
    """The payment as it is now, where an earlier request has made it; None: this one has, and it is
    pending."""


@frozen
class TransactionPage:
    """Holds a page of records (R6)."""

    transactions: Sequence[TransactionObject]
    next: str | None
    """The cursor of the next page; None on the last one."""
    previous: str | None


def creation_request(access: ApiAccess, payment: NewPayment) -> HttpRequest:
    """Return the request that creates the payment."""
    path = f"{operation_of(payment).value}/".encode() + encode_segment(payment.method)
    return access.post(path, creation_body(payment))


def look_up_request(access: ApiAccess, gateway_reference: str) -> HttpRequest:
    """Return the look-up by gatewayReference."""
    return access.get(b"status/" + encode_segment(gateway_reference))


def reference_look_up_request(access: ApiAccess, merchant_reference: str) -> HttpRequest:
    """Return the look-up by merchantReference."""
    return access.get(b"status/mref/" + encode_segment(merchant_reference))


@frozen(kw_only=True)
class RecordsWindow:
    """Selects the transactions that were created in a window of time."""

    begin: datetime
    """Earliest creation time, inclusive."""
    end: datetime
    """Latest creation time, exclusive; must be later than `begin`."""
    type: Type | None = None
    method: str | None = None
    status: Status | None = None
    # Far below the 5,000 that the gateway allows (R4): a page is held in memory as a whole.
    page_size: int = 500


def records_request(access: ApiAccess, window: RecordsWindow) -> HttpRequest:
    """Return the request for the first page of records."""
    parameters = [("from", _timestamp(window.begin)), ("to", _timestamp(window.end))]
    filters = (("type", window.type), ("method", window.method), ("status", window.status))
    parameters += [(name, str(value)) for name, value in filters if value is not None]
    parameters.append(("pageSize", str(window.page_size)))
    query = b"&".join(name.encode() + b"=" + encode_segment(value) for name, value in parameters)
    return access.get(b"records?" + query)


def page_request(access: ApiAccess, cursor: str) -> HttpRequest:
    """Return the request for the page of records that a cursor names."""
    return access.get(b"records?page=" + encode_segment(cursor))


def methods_request(access: ApiAccess) -> HttpRequest:
    """Return the request for the methods of the brand."""
    return access.get_extension(b"methods")


def reversals_request(
    access: ApiAccess, begin: datetime, end: datetime, *, page_size: int = 500
) -> HttpRequest:
    """Return the request for the first page of payments of which a reversal was asked for, or
    ended, last at `begin` or later and before `end`."""
    parameters = (
        ("from", _timestamp(begin)),
        ("to", _timestamp(end)),
        ("pageSize", str(page_size)),
    )
    query = b"&".join(name.encode() + b"=" + encode_segment(value) for name, value in parameters)
    return access.get_extension(b"reversals?" + query)


def reversals_page_request(access: ApiAccess, cursor: str) -> HttpRequest:
    """Return the request for the page of reversed payments that a cursor names."""
    return access.get_extension(b"reversals?page=" + encode_segment(cursor))


def payee_request(access: ApiAccess, method: str, msisdn: str, name: str = "") -> HttpRequest:
    """Return the question whose account is behind a number to which the brand may pay."""
    path = b"payees/" + encode_segment(method) + b"/" + encode_segment(msisdn)
    if name:
        query = b"?name=" + encode_segment(name)
    else:
        query = b""
    return access.get_extension(path + query)


def encode_segment(text: str) -> bytes:
    """Return the text as one segment of a path or one value of a query, percent-encoded (RFC 3986;
    L3)."""
    encoded = bytearray()
    for byte in text.encode():
        if byte in _UNRESERVED:
            encoded.append(byte)
        else:
            encoded += b"%%%02X" % byte

    return bytes(encoded)


def _timestamp(moment: datetime) -> str:
    # createdAt has microseconds (G5): bounds cut to seconds would leave payments out, or list some
    # twice.
    return format_with_microseconds(from_datetime(moment))


def read_started(answer: Answer) -> StartedPayment:
    """Return the payment that a creation has made. Raises ApiRejection or GatewayUnavailable."""
    body = _successful_body(answer)
    try:
        members = read_object(body)
        return StartedPayment(
            gateway_reference=read_gateway_reference(members),
            merchant_reference=read_text(members, "merchantReference"),
            reconciliation_reference=read_text(members, "reconciliationReference"),
            created_at=read_time(members, "createdAt"),
            page_url=read_optional_text(members, "pageUrl"),
        )
    except UnreadableBody as error:
        raise GatewayUnavailable(f"The answer can't be read. {error}") from None


def read_found(answer: Answer) -> TransactionObject:
    """Return the transaction that a look-up has found. Raises TransactionNotFound, another
    ApiRejection or GatewayUnavailable."""
    body = _successful_body(answer)
    try:
        return parse_transaction(body)
    except UnreadableBody as error:
        raise GatewayUnavailable(f"The answer can't be read. {error}") from None


def read_page(answer: Answer) -> TransactionPage:
    """Return the page of records. Raises ApiRejection or GatewayUnavailable."""
    body = _successful_body(answer)
    try:
        members = read_object(body)
        # Without `pages` nobody would know that more follows, and payments would be missing.
        pages = checked_object(members.get("pages"), "pages")
        records = members.get("data")
        if not isinstance(records, list):
            raise UnreadableBody("data is no array.")

        transactions = tuple(
            [transaction_from(checked_object(record, "A record")) for record in records]
        )
        return TransactionPage(
            transactions,
            read_optional_text(pages, "next"),
            read_optional_text(pages, "previous"),
        )
    except UnreadableBody as error:
        raise GatewayUnavailable(f"The answer can't be read. {error}") from None


def read_methods(answer: Answer) -> BrandMethods:
    """Return the methods of the brand. Raises ApiRejection, with status 404 where the gateway tells
    nothing beside the specification, or GatewayUnavailable."""
    return _read_extension(answer, parse_methods)


def read_reversals(answer: Answer) -> ReversalsPage:
    """Return the page of reversed payments. Raises as `read_methods` does."""
    return _read_extension(answer, parse_reversals)


def read_payee(answer: Answer) -> PayeeObject:
    """Return what an operator tells of a payee. Raises as `read_methods` does; of a 429, for too
    many questions, GatewayUnavailable has the problem."""
    return _read_extension(answer, parse_payee)


def _read_extension(answer: Answer, parse: Callable[[bytes], T]) -> T:
    # A 404 of a route is no transaction that was not found: the gateway tells nothing here at all.
    body = _successful_body(answer, {(401, "unauthorized"): KeyRejected})
    try:
        return parse(body)
    except UnreadableBody as error:
        raise GatewayUnavailable(f"The answer can't be read. {error}") from None


# By status and code together: a proxy on the way may answer 401 or 404 too, without our codes.
_REJECTIONS: Final[Mapping[tuple[int, str], type[ApiRejection]]] = {
    (401, "unauthorized"): KeyRejected,
    (404, "not_found"): TransactionNotFound,
    (422, "merchant_transactionid_duplicate"): ReferenceUsed,
}


def _successful_body(
    answer: Answer, rejections: Mapping[tuple[int, str], type[ApiRejection]] = _REJECTIONS
) -> bytes:
    """Return the body of a 200. Only a problem document below 500 is the gateway's word that
    nothing was stored: any other answer may come from something on the way."""
    if isinstance(answer, NoAnswer):
        raise GatewayUnavailable(f"There was no answer: {answer.detail}")
    if answer.status == 200:
        return answer.body

    # 1. Without a problem document nobody of the gateway has spoken: a proxy's 404 proves nothing.
    problem = _read_problem(answer)
    if problem is None:
        raise GatewayUnavailable(
            f"The answer was HTTP {answer.status}, without a problem document."
        )

    # 2. The gateway speaks, but of its own state and not of the request (P4, P5): send it again
    # later.
    if problem.status >= 500 or problem.status in (408, 429):
        raise GatewayUnavailable(f"{problem.status} {problem.cause}: {problem.detail}", problem)

    # 3. The gateway has rejected the request: nothing was stored.
    raise rejections.get((problem.status, problem.error_code), ApiRejection)(problem)


def _read_problem(response: HttpResponse) -> ApiProblem | None:
    """Return the problem document of the response; None when it has none."""
    try:
        members = read_object(response.body)
        type_uri = read_text(members, "type")
        title = read_text(members, "title")
        detail = read_text(members, "detail")
        error_code = read_text(members, "errorCode")
        instance = read_optional_text(members, "instance") or ""

        # Only a fault of fields has `errors` (P1).
        faults = members.get("errors")
        if isinstance(faults, list):
            errors = [checked_object(fault, "An error") for fault in faults]
        else:
            errors = []

        fields = tuple(
            FieldError(read_text(error, "field"), read_text(error, "detail")) for error in errors
        )
    except UnreadableBody:
        return None

    # Seconds; the other form, a date (RFC 9110 section 10.2.3), the gateway does not send.
    retry_after = (response.value(b"retry-after") or b"").decode("latin-1")
    retry_after_s = None
    if retry_after.isdecimal() and len(retry_after) <= RETRY_AFTER_DIGITS_MAX:
        retry_after_s = int(retry_after)

    return ApiProblem(
        status=response.status,
        title=title,
        error_code=error_code,
        cause=type_uri.rpartition("/")[2],
        detail=detail,
        errors=fields,
        request_id=_request_id(instance, response),
        retry_after_s=retry_after_s,
    )


def _request_id(instance: str, response: HttpResponse) -> str | None:
    # The document may have been stored without its head, and a proxy may drop fields of the head:
    # either names the request.
    if instance.startswith(INSTANCE_PREFIX):
        return instance.removeprefix(INSTANCE_PREFIX)
    header = response.value(b"x-request-id")
    if header is None:
        return None
    return header.decode("latin-1")

"""Turns a request of a merchant into an input or a query, step by step in the order of C9. What is
below EXTENSIONS_PREFIX is beside the specification, and read in the same way.

`find_route` comes first (clauses G1, C1 to C5, L1 to L3, R1), then `read_api_key`. The shell looks
up the brand of the key, and `check_head` makes every other check that needs no body, so that a
wrong key costs none (A1, A2). `parse_creation` reads the body at last.

The path is split at its slashes before anything is decoded, as a reference may contain an encoded
slash. A path that is not written exactly as in the specification (one slash more, an encoded
letter) is a 404."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final, TypeAlias, assert_never

from attrs import field, frozen

from mmo_sansio.api.incoming.creation_body import TEXT_MAX, FieldErrors, Members, parse_draft
from mmo_sansio.api.incoming.payee_question import PayeeQuestion, parse_payee_question
from mmo_sansio.api.incoming.query_string import (
    RecordsRequest,
    ReversalsRequest,
    parse_records_query,
    parse_reversals_query,
)
from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.messages import RequestHead, percent_decode
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.messages.queries import LookUp, LookUpByMerchantReference
from mmo_sansio.values import problems
from mmo_sansio.values.model import Brand, Operation, Terms
from mmo_sansio.values.strict_json import parse_object

API_PREFIX: Final = b"/gateway/mmo/v2/"
EXTENSIONS_PREFIX: Final = b"/extensions/v1/"

# Characters of an API key; keys of the gateway have far fewer.
# More would only be digested in vain.
KEY_MAX: Final = 256

# Bytes of a Content-Type that is read: the longest that says JSON in UTF-8 has about forty.
CONTENT_TYPE_BYTES_MAX: Final = 256

SCENARIO_HEADER: Final = "X-Sandbox-Scenario"


@frozen
class ApiSettings:
    """Holds base addresses, the cursors' keys and what differs from one gateway to another."""

    error_docs_url: str
    """Base of the problems' `type` URIs, without a slash at its end."""
    hpp_url: str
    """Base of the hosted payment page, without a slash at its end."""
    cursor_keys: tuple[bytes, ...] = field(repr=False)
    """The first signs the cursors of the records, all are accepted; the same on every node and
    after every restart (R5)."""
    egress_rules: EgressRules = EgressRules()
    """Where merchants' URLs may lead (C8)."""
    has_extensions: bool = True
    """Whether there is anything below EXTENSIONS_PREFIX."""
    has_payees: bool = False
    """Whether merchants may ask whose account is behind a number."""
    sandbox_scenarios: Collection[str] | None = None
    """The values of `X-Sandbox-Scenario`; None outside the sandbox, where the header means
    nothing."""


@frozen
class CreateRoute:
    """Creates a payment: `POST …/{flow}/{direction}/{method}` (C1 to C5)."""

    operation: Operation
    method: str
    """The method key, decoded, of any length."""


@frozen
class LookUpRoute:
    """Looks a payment up: `GET …/status/{gatewayReference}` (L1)."""

    gateway_reference: str
    """The decoded text, not yet checked to be a ULID."""


@frozen
class LookUpByMerchantReferenceRoute:
    """Looks a payment up: `GET …/status/mref/{merchantReference}` (L2)."""

    merchant_reference: str


@frozen
class ListRecordsRoute:
    """Lists payments: `GET …/records` (R1)."""

    query: bytes
    """The raw query string, without its question mark."""


@frozen
class ListMethodsRoute:
    """Lists the methods of the key's brand: `GET /extensions/v1/methods`."""


@frozen
class ListReversalsRoute:
    """Lists payments of which money was asked back: `GET /extensions/v1/reversals`."""

    query: bytes
    """The raw query string, without its question mark."""


@frozen
class PayeeRoute:
    """Asks whose account is behind a number: `GET /extensions/v1/payees/{method}/{msisdn}`."""

    method: str
    msisdn: str = field(repr=False)
    """Both decoded, of any length."""
    query: bytes = field(repr=False)
    """The raw query string, without its question mark."""


@frozen
class HealthRoute:
    """Tells whether the process is alive: `GET /healthz`."""


@frozen
class ReadinessRoute:
    """Tells whether the process can do its work: `GET /readyz`."""


@frozen
class WebhookRoute:
    """Receives a provider's notification: `POST|PUT /hooks/{provider}/{token}`.

    The provider's adapter reads what follows."""

    provider: str
    token: str = field(repr=False)


# Routes that need the API key of a brand.
ApiRoute: TypeAlias = (
    CreateRoute
    | LookUpRoute
    | LookUpByMerchantReferenceRoute
    | ListRecordsRoute
    | ListMethodsRoute
    | ListReversalsRoute
    | PayeeRoute
)

Route: TypeAlias = ApiRoute | HealthRoute | ReadinessRoute | WebhookRoute

_NAMES: Final = {
    LookUpRoute: "status",
    LookUpByMerchantReferenceRoute: "status/mref",
    ListRecordsRoute: "records",
    ListMethodsRoute: "methods",
    ListReversalsRoute: "reversals",
    PayeeRoute: "payees",
    WebhookRoute: "hooks",
    HealthRoute: "healthz",
    ReadinessRoute: "readyz",
}

ROUTE_NAMES: Final = (*(operation.value for operation in Operation), *_NAMES.values())
_READ_METHODS: Final = ("GET", "HEAD")
_CREATE_METHODS: Final = ("POST",)

# A HEAD would ask an operator for an answer that nobody sees.
_ASK_METHODS: Final = ("GET",)

# Some operators PUT their notifications.
_NOTIFY_METHODS: Final = ("POST", "PUT")

_OPERATIONS: Final = {
    tuple(operation.value.encode().split(b"/")): operation for operation in Operation
}


def find_route(head: RequestHead, *, has_extensions: bool = True) -> Route:
    """Return the resource that the target (in origin-form) names, for a method that it knows; what
    is beside the specification only where the gateway `has_extensions`.

    Raises ProblemError with 404 when there is none, a bad escape or `%00` included, and else with
    405 and the allowed methods."""
    # 1. The path: nothing else is looked at before it is known whether there is anything (C9).
    path, _, query = head.target.partition(b"?")
    try:
        if head.method == "POST" and (create := _find_create_route(path)) is not None:
            return create
        route, methods = _find_resource(path, query, has_extensions=has_extensions)
    except ValueError:
        raise problems.ProblemError(
            problems.NOT_FOUND.problem("The path is not validly encoded.")
        ) from None

    # 2. The method, once there is a resource to name its methods.
    if head.method not in methods:
        allow = ", ".join(methods)
        raise problems.ProblemError(
            problems.METHOD_NOT_ALLOWED.problem(f"This resource knows only {allow}.", allow=allow)
        )

    return route


def route_name(route: Route) -> str:
    """Return the resource's name in metrics and logs: one of ROUTE_NAMES, never a path, which may
    hold personal data."""
    if isinstance(route, CreateRoute):
        return route.operation._value_  # Every request comes by: `value` is a slow property.
    return _NAMES[type(route)]


def _parse_create_route(path: bytes) -> CreateRoute | None:
    """Return the creation that a path names, or None. Raises ValueError for a segment that cannot
    be decoded."""
    if path.startswith(API_PREFIX):
        match path[len(API_PREFIX) :].split(b"/"):
            case [flow, direction, method] if method and (flow, direction) in _OPERATIONS:
                return CreateRoute(_OPERATIONS[flow, direction], _decode_segment(method))
    return None


# Caches them, as a merchant uses few.
_find_create_route: Final = lru_cache(maxsize=512)(_parse_create_route)


def _find_resource(
    path: bytes, query: bytes, *, has_extensions: bool
) -> tuple[Route, tuple[str, ...]]:
    """Return the resource and its methods. Raises ValueError for a segment that cannot be
    decoded."""
    # The specification's own paths first: `mref` before the look-up that would take it for a
    # reference.
    if path.startswith(API_PREFIX):
        match path[len(API_PREFIX) :].split(b"/"):
            case [b"status", b"mref", reference] if reference:
                return LookUpByMerchantReferenceRoute(_decode_segment(reference)), _READ_METHODS
            case [b"status", reference] if reference:
                return LookUpRoute(_decode_segment(reference)), _READ_METHODS
            case [b"records"]:
                return ListRecordsRoute(query), _READ_METHODS
            # Only for its 405: a POST was found before.
            case [_, _, _] if (create := _parse_create_route(path)) is not None:
                return create, _CREATE_METHODS

    if has_extensions and path.startswith(EXTENSIONS_PREFIX):
        match path[len(EXTENSIONS_PREFIX) :].split(b"/"):
            case [b"methods"]:
                return ListMethodsRoute(), _READ_METHODS
            case [b"reversals"]:
                return ListReversalsRoute(query), _READ_METHODS
            case [b"payees", method, msisdn] if method and msisdn:
                payee = PayeeRoute(_decode_segment(method), _decode_segment(msisdn), query)
                return payee, _ASK_METHODS

    match path.split(b"/"):
        # What follows the token is the adapter's: some operators append a path of their own.
        case [b"", b"hooks", provider, token, *_] if provider and token:
            return WebhookRoute(_decode_segment(provider), _decode_segment(token)), _NOTIFY_METHODS
        case [b"", b"healthz"]:
            return HealthRoute(), _READ_METHODS
        case [b"", b"readyz"]:
            return ReadinessRoute(), _READ_METHODS

    raise problems.ProblemError(problems.NOT_FOUND.problem("There is nothing at this path."))


def _decode_segment(segment: bytes) -> str:
    """Return the segment's text. Raises ValueError for NUL, too, which no reference can hold
    (L3)."""
    text = percent_decode(segment)
    if "\0" in text:
        raise ValueError("NUL")
    return text


@frozen
class CreationHead:
    """The accepted head of a creation request; its body may be read."""

    head: RequestHead
    route: CreateRoute
    brand: Brand


@frozen
class MethodsRequest:
    """Asks for the methods of a brand."""

    brand: Brand


# What an accepted head asks for.
ApiRequest: TypeAlias = (
    CreationHead
    | LookUp
    | LookUpByMerchantReference
    | RecordsRequest
    | MethodsRequest
    | PayeeQuestion
    | ReversalsRequest
)

_NO_PAYEES: Final = problems.NOT_FOUND.problem(
    "This gateway doesn't tell whose account is behind a number. Whoever runs it may switch that "
    "on: gateway.payees_per_minute."
)

_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_SCENARIO_FIELD: Final = SCENARIO_HEADER.lower().encode()
_KEY: Final = re.compile(rb"[\x21-\x7e]{1,%d}" % KEY_MAX)
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER: Final = re.compile(
    rb"[ \t]*;[ \t]*(?:(" + _TOKEN + rb")=(" + _TOKEN + rb'|"(?:[^"\\]|\\.)*"))?'
)

# The charset, and the name that many programs give it.
_UTF_8: Final = (b"utf-8", b"utf8")

_JSON: Final = re.compile(rb"application/json(?P<parameters>.*)", re.IGNORECASE | re.DOTALL)


def read_api_key(head: RequestHead) -> bytes:
    """Return the API key of the request.

    Raises ProblemError with 401 when it is missing, empty, repeated or cannot be a key (A1)."""
    values = head.values(b"x-api-key")

    # Two keys could be read as either by a proxy, so both are refused.
    if len(values) == 1:
        key = values[0].strip(b" \t")
    else:
        key = b""

    if not _KEY.fullmatch(key):
        raise problems.ProblemError(_unauthorized_problem())

    return key


def check_head(
    head: RequestHead, route: ApiRoute, brand: Brand | None, settings: ApiSettings
) -> ApiRequest:
    """Return what a head asks for, after all that can be checked without the body, in C9's order.

    `brand` owns the API key; None when no brand does, or when its keys do not work on this host.
    Raises ProblemError for an unknown key (A1), a disabled brand (A2), a body that is not JSON (G2)
    and for references and parameters that cannot be read (L1, L2, R1 to R5)."""
    # The order is C9's: key, brand, then what the request itself says.
    if brand is None:
        raise problems.ProblemError(_unauthorized_problem())
    if not brand.enabled:
        raise problems.ProblemError(problems.MERCHANT_DISABLED.problem("This brand is disabled."))

    match route:
        case CreateRoute():
            _check_content_type(head)
            return CreationHead(head, route, brand)
        case LookUpRoute(reference):
            return look_up(brand.id, reference)
        case LookUpByMerchantReferenceRoute(reference):
            return look_up_by_merchant_reference(brand.id, reference)
        case ListRecordsRoute(text):
            keys = settings.cursor_keys
            return parse_records_query(brand.id, text, cursor_keys=keys)
        case ListMethodsRoute():
            return MethodsRequest(brand)
        case PayeeRoute():
            if not settings.has_payees:
                raise problems.ProblemError(_NO_PAYEES)
            return parse_payee_question(brand, route.method, route.msisdn, route.query)
        case ListReversalsRoute(text):
            return parse_reversals_query(brand.id, text, cursor_keys=settings.cursor_keys)
        case _:
            assert_never(route)


def look_up(brand: str, gateway_reference: str) -> LookUp:
    """Return the look-up by gatewayReference, whose letters may be of either case.

    Raises ProblemError with 404 for text that is no ULID (L1)."""
    # `isascii` first, as `upper` makes ASCII letters of some others.
    upper = gateway_reference.upper()
    if not gateway_reference.isascii() or not _ULID.fullmatch(upper):
        raise problems.ProblemError(unknown_transaction_problem())
    return LookUp(brand, upper)


def look_up_by_merchant_reference(brand: str, merchant_reference: str) -> LookUpByMerchantReference:
    """Return the look-up by merchantReference.

    Raises ProblemError with 404 for one that is too long to exist (L2)."""
    if len(merchant_reference) > TEXT_MAX:
        raise problems.ProblemError(unknown_transaction_problem())
    return LookUpByMerchantReference(brand, merchant_reference)


def unknown_transaction_problem() -> problems.Problem:
    """Return the problem of a reference that is unknown, another brand's or malformed: all look the
    same (L1, L2)."""
    return problems.NOT_FOUND.problem("There is no such transaction.")


def _unauthorized_problem() -> problems.Problem:
    """Return the problem of an API key, which is the same whatever is wrong with the key (A1)."""
    return problems.UNAUTHORIZED.problem(
        "Send a valid API key of your brand in the header X-Api-Key."
    )


def _check_content_type(head: RequestHead) -> None:
    """Raise ProblemError with `bad_request` unless the body is declared as JSON in UTF-8 (G2)."""
    # 1. The type: a browser's form cannot send this one across origins without asking.
    values = head.values(b"content-type")
    if (
        len(values) != 1
        or len(values[0]) > CONTENT_TYPE_BYTES_MAX
        or not _is_json(values[0].strip(b" \t"))
    ):
        raise problems.ProblemError(
            problems.MALFORMED.problem("Content-Type must be application/json, in UTF-8.")
        )

    # 2. The coding: what is packed may become larger than any limit.
    if any(
        coding.strip(b" \t").lower() not in (b"", b"identity")
        for coding in head.values(b"content-encoding")
    ):
        raise problems.ProblemError(
            problems.MALFORMED.problem("Content-Encoding can't be used: send plain JSON.")
        )


def _is_json(media_type: bytes) -> bool:
    """Whether the type is `application/json` with well-formed parameters (RFC 9110 section 8.3.1).

    A charset must be UTF-8."""
    # Nearly every request ends here.
    if media_type == b"application/json":
        return True

    match = _JSON.fullmatch(media_type)
    if match is None:
        return False

    # One parameter at a time: each match begins where the last one ended, so no text is read twice.
    rest: bytes = match["parameters"]
    while rest:
        parameter = _PARAMETER.match(rest)
        if parameter is None:
            return False

        name, value = parameter.groups(b"")
        if name.lower() == b"charset" and value.strip(b'"').lower() not in _UTF_8:
            return False

        rest = rest[parameter.end() :].strip(b" \t")

    return True


def parse_creation(
    creation: CreationHead,
    body: bytes,
    settings: ApiSettings,
    *,
    gateway_reference: str,
    page_token: str,
    terms: Terms,
    api_key_id: str | None = None,
    simulated_providers: frozenset[str] = frozenset(),
) -> CreatePayment:
    """Return the payment that a creation request asks for; `api_key_id` names the key that
    authenticated it (A4), and `simulated_providers` those by whose accounts no money moves.

    Raises ProblemError for an unreadable body, or with all faults of its fields (C9)."""
    errors = FieldErrors()
    members = Members(parse_object(body), errors)

    # A sandbox's header is read before the body, and judged behind it: its error comes last.
    scenario = None
    if settings.sandbox_scenarios is not None:
        scenario = _scenario(creation.head)

    draft = parse_draft(
        creation.route.operation,
        creation.route.method,
        members,
        brand=creation.brand,
        egress_rules=settings.egress_rules,
        scenario=scenario,
    )
    if scenario is not None and scenario not in (settings.sandbox_scenarios or ()):
        names = ", ".join(settings.sandbox_scenarios or ())
        errors.add(SCENARIO_HEADER, f"must be one of: {names}")

    errors.raise_if_any()
    return CreatePayment(
        creation.brand,
        gateway_reference,
        draft,
        page_token,
        terms,
        api_key_id,
        simulated_providers=simulated_providers,
    )


def _scenario(head: RequestHead) -> str | None:
    """Return the scenario that the header names; None without the header.

    Repeated fields count as one with commas, which no name has (RFC 9110 section 5.3)."""
    values = head.values(_SCENARIO_FIELD)
    if values:
        return b", ".join(values).strip(b" \t").decode("latin-1")
    return None

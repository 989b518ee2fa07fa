"""Finds the resource of a request from its raw target (clauses G1, C1 to C5, L1 to L3, R1).

The path is split at its slashes before anything is decoded, as a reference may contain an encoded slash. A path that is
not written exactly as in the specification (one slash more, an encoded letter) is a 404."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeAlias

from attrs import field, frozen

from mmo_sansio.http.messages import RequestHead
from mmo_sansio.http.request_head import percent_decode
from mmo_sansio.values.model import Operation
from mmo_sansio.values.problems import METHOD_NOT_ALLOWED, NOT_FOUND, ProblemError

API_PREFIX: Final = b"/gateway/mmo/v2/"


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


ApiRoute: TypeAlias = CreateRoute | LookUpRoute | LookUpByMerchantReferenceRoute | ListRecordsRoute
"""Routes that need the API key of a brand."""

Route: TypeAlias = ApiRoute | HealthRoute | ReadinessRoute | WebhookRoute

_NAMES: Final = {
    LookUpRoute: "status",
    LookUpByMerchantReferenceRoute: "status/mref",
    ListRecordsRoute: "records",
    WebhookRoute: "hooks",
    HealthRoute: "healthz",
    ReadinessRoute: "readyz",
}
ROUTE_NAMES: Final = (*(each.value for each in Operation), *_NAMES.values())

_READ_METHODS: Final = ("GET", "HEAD")
_CREATE_METHODS: Final = ("POST",)
_NOTIFY_METHODS: Final = ("POST", "PUT")
"""Some operators PUT their notifications."""

_OPERATIONS: Final = {tuple(each.value.encode().split(b"/")): each for each in Operation}


def find_route(head: RequestHead) -> Route:
    """Return the resource that the target (in origin-form) names, for a method that it knows.

    Raises ProblemError with 404 when there is none, a bad escape or `%00` included, and else with 405 and the allowed
    methods."""
    path, _, query = head.target.partition(b"?")
    try:
        if head.method == "POST" and (create := _find_create_route(path)) is not None:
            return create
        route, methods = _find_resource(path, query)
    except ValueError:
        raise ProblemError(NOT_FOUND.problem("The path is not validly encoded.")) from None
    if head.method not in methods:
        allow = ", ".join(methods)
        raise ProblemError(METHOD_NOT_ALLOWED.problem(f"This resource knows only {allow}.", allow=allow))
    return route


def route_name(route: Route) -> str:
    """Return the resource's name in metrics and logs: one of ROUTE_NAMES, never a path, which may hold personal
    data."""
    if isinstance(route, CreateRoute):
        return route.operation._value_  # Every request comes by: `value` is a slow property.
    return _NAMES[type(route)]


def _parse_create_route(path: bytes) -> CreateRoute | None:
    """Return the creation that a path names, or None. Raises ValueError for a segment that cannot be decoded."""
    if path.startswith(API_PREFIX):
        match path[len(API_PREFIX) :].split(b"/"):
            case [flow, direction, method] if method and (flow, direction) in _OPERATIONS:
                return CreateRoute(_OPERATIONS[flow, direction], _decode_segment(method))
    return None


_find_create_route: Final = lru_cache(maxsize=512)(_parse_create_route)
"""Caches them, as a merchant uses few."""


def _find_resource(path: bytes, query: bytes) -> tuple[Route, tuple[str, ...]]:
    """Return the resource and its methods. Raises ValueError for a segment that cannot be decoded."""
    if path.startswith(API_PREFIX):
        match path[len(API_PREFIX) :].split(b"/"):
            case [b"status", b"mref", reference] if reference:
                return LookUpByMerchantReferenceRoute(_decode_segment(reference)), _READ_METHODS
            case [b"status", reference] if reference:
                return LookUpRoute(_decode_segment(reference)), _READ_METHODS
            case [b"records"]:
                return ListRecordsRoute(query), _READ_METHODS
            case [_, _, _] if (create := _parse_create_route(path)) is not None:
                return create, _CREATE_METHODS
    match path.split(b"/"):
        case [b"", b"hooks", provider, token, *_] if provider and token:
            return WebhookRoute(_decode_segment(provider), _decode_segment(token)), _NOTIFY_METHODS
        case [b"", b"healthz"]:
            return HealthRoute(), _READ_METHODS
        case [b"", b"readyz"]:
            return ReadinessRoute(), _READ_METHODS
    raise ProblemError(NOT_FOUND.problem("There is nothing at this path."))


def _decode_segment(segment: bytes) -> str:
    """Return the segment's text. Raises ValueError for NUL, too, which no reference can hold (L3)."""
    text = percent_decode(segment)
    if "\0" in text:
        raise ValueError("NUL")
    return text

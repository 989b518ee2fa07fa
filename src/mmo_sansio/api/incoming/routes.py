"""Which resource a request is for, read from the raw target (clauses G1, C1 to C5, L1 to L3, R1).

The path is cut at its slashes before anything is decoded, as a reference may hold a slash of its own, encoded.
What isn't written exactly as the specification writes it (a slash more, an encoded letter) is not there: 404.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import field, frozen

from mmo_sansio.api.incoming.percent_encoding import percent_decode
from mmo_sansio.http.messages import RequestHead
from mmo_sansio.values.model import Operation
from mmo_sansio.values.problems import METHOD_NOT_ALLOWED, NOT_FOUND, ProblemError

API_PREFIX: Final = b"/gateway/mmo/v2/"


@frozen
class CreateRoute:
    """`POST …/{flow}/{direction}/{method}`: a payment (C1 to C5)."""

    operation: Operation
    method: str
    """The method key, decoded, of any length."""


@frozen
class LookUpRoute:
    """`GET …/status/{gatewayReference}` (L1)."""

    gateway_reference: str
    """As given; whether it is a ULID is not looked at yet."""


@frozen
class LookUpByMerchantReferenceRoute:
    """`GET …/status/mref/{merchantReference}` (L2)."""

    merchant_reference: str


@frozen
class ListRecordsRoute:
    """`GET …/records` (R1)."""

    query: bytes
    """The raw query string, without its question mark."""


@frozen
class HealthRoute:
    """`GET /healthz`: is the process alive?"""


@frozen
class ReadinessRoute:
    """`GET /readyz`: can it do its work?"""


@frozen
class WebhookRoute:
    """`POST|PUT /hooks/{provider}/{token}`: a provider's notification; what follows is its adapter's to read."""

    provider: str
    token: str = field(repr=False)


ApiRoute: TypeAlias = CreateRoute | LookUpRoute | LookUpByMerchantReferenceRoute | ListRecordsRoute
"""Where a brand's key is needed."""

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
    """The resource that the target (in origin-form) names, for a method that it knows.

    Raises RefusedError with 404 when there is none, a bad escape or `%00` included, and else with 405 and the
    methods that there are.
    """
    path, _, query = head.target.partition(b"?")
    try:
        found, methods = _find_resource(path, query)
    except ValueError:
        raise ProblemError(NOT_FOUND.problem("The path is not validly encoded.")) from None
    if head.method not in methods:
        allow = ", ".join(methods)
        raise ProblemError(
            METHOD_NOT_ALLOWED.problem(f"This resource knows only {allow}.", allow=allow)
        )
    return found


def route_name(route: Route) -> str:
    """What counts and logs call the resource: one of ROUTE_NAMES, never a path, which may hold what is somebody's."""
    if isinstance(route, CreateRoute):
        return route.operation._value_  # Every request comes by: `value` is a slow property.
    return _NAMES[type(route)]


def _find_resource(path: bytes, query: bytes) -> tuple[Route, tuple[str, ...]]:
    """The resource and its methods. Raises ValueError for a segment that can't be decoded."""
    if path.startswith(API_PREFIX):
        match path[len(API_PREFIX) :].split(b"/"):
            case [b"status", b"mref", reference] if reference:
                return LookUpByMerchantReferenceRoute(_decode_segment(reference)), _READ_METHODS
            case [flow, direction, method] if method and (flow, direction) in _OPERATIONS:
                return CreateRoute(
                    _OPERATIONS[flow, direction], _decode_segment(method)
                ), _CREATE_METHODS
            case [b"status", reference] if reference:
                return LookUpRoute(_decode_segment(reference)), _READ_METHODS
            case [b"records"]:
                return ListRecordsRoute(query), _READ_METHODS
    match path.split(b"/"):
        case [b"", b"hooks", provider, token, *_] if provider and token:
            return WebhookRoute(_decode_segment(provider), _decode_segment(token)), _NOTIFY_METHODS
        case [b"", b"healthz"]:
            return HealthRoute(), _READ_METHODS
        case [b"", b"readyz"]:
            return ReadinessRoute(), _READ_METHODS
    raise ProblemError(NOT_FOUND.problem("There is nothing at this path."))


def _decode_segment(segment: bytes) -> str:
    """The segment's text. Raises ValueError for NUL, too, which no reference can hold (L3)."""
    text = percent_decode(segment)
    if "\0" in text:
        raise ValueError("NUL")
    return text

"""Turns a request of a merchant into an input or a query, step by step in the order of C9.

`routes.find_route` comes first, then `read_api_key`. The shell looks up the brand of the key, and `check_head` makes
every other check that needs no body, so that a wrong key costs none (A1, A2). `parse_creation` reads the body at last.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias, assert_never

from attrs import frozen

from mmo_sansio.api.incoming import query_string
from mmo_sansio.api.incoming.creation_body import parse_draft
from mmo_sansio.api.incoming.fields import FieldErrors, Members
from mmo_sansio.api.incoming.query_string import RecordsRequest
from mmo_sansio.api.incoming.routes import (
    ApiRoute,
    CreateRoute,
    ListRecordsRoute,
    LookUpByMerchantReferenceRoute,
    LookUpRoute,
)
from mmo_sansio.api.incoming.strict_json import parse_object
from mmo_sansio.api.settings import ApiSettings
from mmo_sansio.http.messages import RequestHead
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.messages.queries import LookUp, LookUpByMerchantReference
from mmo_sansio.values.model import Brand, Terms
from mmo_sansio.values.problems import MALFORMED, MERCHANT_DISABLED, UNAUTHORIZED, Problem, ProblemError

KEY_MAX: Final = 256
"""Characters of an API key; keys of the gateway have far fewer."""
SCENARIO_HEADER: Final = "X-Sandbox-Scenario"
_SCENARIO_FIELD: Final = SCENARIO_HEADER.lower().encode()

CONTENT_TYPE_BYTES_MAX: Final = 256
"""Bytes of a Content-Type that is read: the longest that says JSON in UTF-8 has about forty."""

_KEY: Final = re.compile(rb"[\x21-\x7e]{1,%d}" % KEY_MAX)
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER: Final = re.compile(rb"[ \t]*;[ \t]*(?:(" + _TOKEN + rb")=(" + _TOKEN + rb'|"(?:[^"\\]|\\.)*"))?')
_UTF_8: Final = (b"utf-8", b"utf8")
"""The charset, and the name that many programs give it."""
_JSON: Final = re.compile(rb"application/json(?P<parameters>.*)", re.IGNORECASE | re.DOTALL)


@frozen
class CreationHead:
    """The accepted head of a creation request; its body may be read."""

    head: RequestHead
    route: CreateRoute
    brand: Brand


ApiRequest: TypeAlias = CreationHead | LookUp | LookUpByMerchantReference | RecordsRequest
"""What an accepted head asks for."""


def read_api_key(head: RequestHead) -> bytes:
    """Return the API key of the request.

    Raises ProblemError with 401 when it is missing, empty, repeated or cannot be a key (A1)."""
    values = head.values(b"x-api-key")
    key = values[0].strip(b" \t") if len(values) == 1 else b""
    if not _KEY.fullmatch(key):
        raise ProblemError(_unauthorized_problem())
    return key


def check_head(head: RequestHead, route: ApiRoute, brand: Brand | None, settings: ApiSettings) -> ApiRequest:
    """Return what a head asks for, after all that can be checked without the body, in C9's order.

    `brand` owns the API key; None when no brand does, or when its keys do not work on this host. Raises ProblemError
    for an unknown key (A1), a disabled brand (A2), a body that is not JSON (G2) and for references and parameters that
    cannot be read (L1, L2, R1 to R5)."""
    if brand is None:
        raise ProblemError(_unauthorized_problem())
    if not brand.enabled:
        raise ProblemError(MERCHANT_DISABLED.problem("This brand is disabled."))
    match route:
        case CreateRoute():
            _check_content_type(head)
            return CreationHead(head, route, brand)
        case LookUpRoute(reference):
            return query_string.look_up(brand.id, reference)
        case LookUpByMerchantReferenceRoute(reference):
            return query_string.look_up_by_merchant_reference(brand.id, reference)
        case ListRecordsRoute(text):
            keys = settings.cursor_keys
            return query_string.parse_records_query(brand.id, text, cursor_keys=keys)
        case _:
            assert_never(route)


def _unauthorized_problem() -> Problem:
    """Return the problem of an API key, which is the same whatever is wrong with the key (A1)."""
    return UNAUTHORIZED.problem("Send a valid API key of your brand in the header X-Api-Key.")


def _check_content_type(head: RequestHead) -> None:
    """Raise ProblemError with `bad_request` unless the body is declared as JSON in UTF-8 (G2)."""
    values = head.values(b"content-type")
    if len(values) != 1 or len(values[0]) > CONTENT_TYPE_BYTES_MAX or not _is_json(values[0].strip(b" \t")):
        raise ProblemError(MALFORMED.problem("Content-Type must be application/json, in UTF-8."))
    if any(each.strip(b" \t").lower() not in (b"", b"identity") for each in head.values(b"content-encoding")):
        raise ProblemError(MALFORMED.problem("Content-Encoding can't be used: send plain JSON."))


def _is_json(media_type: bytes) -> bool:
    """Whether the type is `application/json` with well-formed parameters (RFC 9110 section 8.3.1).

    A charset must be UTF-8."""
    if media_type == b"application/json":
        return True
    match = _JSON.fullmatch(media_type)
    if match is None:
        return False
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
) -> CreatePayment:
    """Return the payment that a creation request asks for; `api_key_id` names the key that authenticated it (A4).

    Raises ProblemError for an unreadable body, or with all faults of its fields (C9)."""
    errors = FieldErrors()
    members = Members(parse_object(body), errors)
    scenario = None if settings.sandbox_scenarios is None else _scenario(creation.head)
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
    return CreatePayment(creation.brand, gateway_reference, draft, page_token, terms, api_key_id)


def _scenario(head: RequestHead) -> str | None:
    """Return the scenario that the header names; None without the header.

    Repeated fields count as one with commas, which no name has (RFC 9110 section 5.3)."""
    values = head.values(_SCENARIO_FIELD)
    return b", ".join(values).strip(b" \t").decode("latin-1") if values else None

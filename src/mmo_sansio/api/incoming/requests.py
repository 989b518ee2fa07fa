"""From a request to what it asks the core, one step after the other in the order of C9.

`routes.find_route` comes first. Then `read_api_key` for whoever knows the keys, `check_enabled`, `check_content_type`: they see
the head only, so that a wrong key costs no body (A1, A2). At last the call itself.
"""

from __future__ import annotations

import re
from typing import Final

from mmo_sansio.api.incoming.creation_body import parse_draft
from mmo_sansio.api.incoming.fields import FieldErrors, Members
from mmo_sansio.api.incoming.routes import CreateRoute
from mmo_sansio.api.incoming.strict_json import parse_object
from mmo_sansio.api.settings import ApiSettings
from mmo_sansio.http.messages import HttpRequest, RequestHead
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.values.model import Brand, Terms
from mmo_sansio.values.problems import (
    MALFORMED,
    MERCHANT_DISABLED,
    UNAUTHORIZED,
    Problem,
    ProblemError,
)

KEY_MAX: Final = 256
"""Characters of an API key; ours have far fewer."""
SCENARIO_HEADER: Final = "X-Sandbox-Scenario"
_SCENARIO_FIELD: Final = SCENARIO_HEADER.lower().encode()

_KEY: Final = re.compile(rb"[\x21-\x7e]{1,%d}" % KEY_MAX)
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER: Final = re.compile(
    rb"[ \t]*;[ \t]*(?:(" + _TOKEN + rb")=(" + _TOKEN + rb'|"(?:[^"\\]|\\.)*"))?'
)
_JSON: Final = re.compile(rb"application/json(?P<parameters>.*)", re.IGNORECASE | re.DOTALL)


def read_api_key(head: RequestHead) -> bytes:
    """The API key of the request. Raises RefusedError with 401 when it is missing, empty, repeated or can't be
    one (A1)."""
    values = head.values(b"x-api-key")
    if len(values) != 1 or not _KEY.fullmatch(values[0].strip(b" \t")):
        raise ProblemError(unauthorized_problem())
    return values[0].strip(b" \t")


def unauthorized_problem() -> Problem:
    """The refusal of a key, the same whatever is wrong with it (A1)."""
    return UNAUTHORIZED.problem("Send a valid API key of your brand in the header X-Api-Key.")


def check_enabled(brand: Brand) -> None:
    """Raises RefusedError for a brand that is disabled (A2)."""
    if not brand.enabled:
        raise ProblemError(MERCHANT_DISABLED.problem("This brand is disabled."))


def check_content_type(head: RequestHead) -> None:
    """Raises RefusedError with `bad_request` unless the body is declared to be plain JSON in UTF-8 (G2)."""
    values = head.values(b"content-type")
    if len(values) != 1 or not _is_json(values[0].strip(b" \t")):
        raise ProblemError(MALFORMED.problem("Content-Type must be application/json, in UTF-8."))
    if head.value(b"content-encoding") is not None:
        raise ProblemError(MALFORMED.problem("Content-Encoding can't be used: send plain JSON."))


def _is_json(media_type: bytes) -> bool:
    """Whether it is `application/json` with well-formed parameters, any charset being UTF-8 (RFC 9110 section
    8.3.1)."""
    if media_type == b"application/json":
        return True
    found = _JSON.fullmatch(media_type)
    if found is None:
        return False
    rest: bytes = found["parameters"]
    while rest:
        parameter = _PARAMETER.match(rest)
        if parameter is None:
            return False
        name, value = parameter.groups(b"")
        if name.lower() == b"charset" and value.strip(b'"').lower() != b"utf-8":
            return False
        rest = rest[parameter.end() :].strip(b" \t")
    return True


def parse_creation(
    request: HttpRequest,
    route: CreateRoute,
    settings: ApiSettings,
    *,
    brand: Brand,
    gateway_reference: str,
    page_token: str,
    terms: Terms,
) -> CreatePayment:
    """The payment that a creation request asks for, whose head has passed `check_content_type`. Raises RefusedError
    for an unreadable body, or with all faults of its fields (C9)."""
    faults = FieldErrors()
    members = Members(parse_object(request.body), faults)
    scenario = None if settings.sandbox_scenarios is None else _scenario(request)
    draft = parse_draft(
        route.operation,
        route.method,
        members,
        brand=brand,
        egress_rules=settings.egress_rules,
        scenario=scenario,
    )
    if scenario is not None and scenario not in (settings.sandbox_scenarios or ()):
        names = ", ".join(settings.sandbox_scenarios or ())
        faults.add(SCENARIO_HEADER, f"must be one of: {names}")
    faults.raise_if_any()
    return CreatePayment(brand, gateway_reference, draft, page_token, terms)


def _scenario(head: RequestHead) -> str | None:
    """What the header names; repeated fields count as one with commas, which no name has (RFC 9110 section 5.3)."""
    values = head.values(_SCENARIO_FIELD)
    return b", ".join(values).strip(b" \t").decode("latin-1") if values else None

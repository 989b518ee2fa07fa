"""Asks Wave whether a name is the one of a number's wallet. Wave tells no names, and no public page
describes the question: all of it is as other people's programs have it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mmo_provider_wave.wire import Unclear, international_number, parse_document
from mmo_sansio.providers import (
    HttpResponse,
    PayeeCompared,
    PayeeReport,
    PayeeUnanswered,
    plain_name,
    to_json,
)

VERIFICATION: Final = "/v1/verify_recipient/"

# Reported: the PyPI package wave-business-api 1.0.0.
_MATCHES: Final[Mapping[object, bool | None]] = MappingProxyType(
    {"MATCH": True, "NO_MATCH": False, "NAME_NOT_KNOWN": None}
)


def verification_body(msisdn: str, name: str) -> bytes:
    """Return the body of a question about a number, with the name that is compared, if any."""
    document = {"mobile": international_number(msisdn)}
    compared = plain_name(name)
    if compared:
        document["name"] = compared
    return to_json(document)


def verification_report(provider: str, response: HttpResponse) -> PayeeReport:
    """Return what the answer tells; a word that is not known tells nothing."""
    try:
        match = parse_document(response).get("name_match")
    except Unclear:
        return PayeeUnanswered(provider, f"A question was answered {response.status}.")
    if not isinstance(match, str) or match not in _MATCHES:
        return PayeeUnanswered(provider, "The answer doesn't say whether the name matches.")
    return PayeeCompared(provider, _MATCHES[match])

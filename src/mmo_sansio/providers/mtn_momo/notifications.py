"""Reads the operator's callbacks: a PUT or a POST, once or often, unsigned, without the X-Reference-Id.

Each submission has its own callback address, which ends in the gatewayReference; the body repeats it as `externalId`.
Where both are present they must agree.
"""

from __future__ import annotations

import re

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import ProviderHinted, UnmatchedNotified
from mmo_sansio.providers.common.wire import stored_text
from mmo_sansio.providers.mtn_momo.wire import parse_json, text_member

_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)


def parse_notification(provider: str, request: HttpRequest) -> ProviderHinted | UnmatchedNotified:
    """Return the payment of a callback. An unreadable body names none, whatever its address."""
    content = stored_text(request.body)
    try:
        named = {text_member(parse_json(request.body), "externalId"), _reference_in_path(request.target)} - {None}
    except ValueError:
        return UnmatchedNotified(provider, content)
    reference = named.pop() if len(named) == 1 else None
    if reference is None or _ULID.fullmatch(reference) is None:
        return UnmatchedNotified(provider, content)
    return ProviderHinted(reference, provider, content)


def _reference_in_path(target: bytes) -> str | None:
    last = target.partition(b"?")[0].rsplit(b"/", 1)[-1].decode("ascii", "replace")
    return last if _ULID.fullmatch(last) else None

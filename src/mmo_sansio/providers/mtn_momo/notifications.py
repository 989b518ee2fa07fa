"""The operator's callbacks: a PUT or a POST, sent once, signed by nobody, and without the X-Reference-Id.

A submission names a callback address of its own, which ends in the gatewayReference; the body repeats it as
`externalId`. Where both are there they have to agree.
"""

from __future__ import annotations

import re

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import ProviderHinted, UnmatchedNotified
from mmo_sansio.providers.mtn_momo.wire import parse_json, text_member

CALLBACK_CHARACTERS_MAX = 2_000
"""How much of a callback is kept for a person."""

_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)


def parse_notification(provider: str, request: HttpRequest) -> ProviderHinted | UnmatchedNotified:
    """Which payment a callback is about. A body that can't be read names none, whatever its address."""
    told = request.body.decode("utf-8", "replace").replace("\0", "\ufffd")[:CALLBACK_CHARACTERS_MAX]
    try:
        named = {
            text_member(parse_json(request.body), "externalId"),
            _reference_in_path(request.target),
        } - {None}
    except ValueError:
        return UnmatchedNotified(provider, told)
    reference = named.pop() if len(named) == 1 else None
    if reference is None or _ULID.fullmatch(reference) is None:
        return UnmatchedNotified(provider, told)
    return ProviderHinted(reference, provider, told)


def _reference_in_path(target: bytes) -> str | None:
    """The gatewayReference at the end of the path, if one stands there."""
    last = target.partition(b"?")[0].rsplit(b"/", 1)[-1].decode("ascii", "replace")
    return last if _ULID.fullmatch(last) else None

"""Knows browsers in which a user has signed in before, by a cookie, so that strangers' failures do
not lock the user out there.

The cookie is sealed for the user's name: nobody else has use of it, and it opens nothing. It only
says whose attempts are counted together."""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from quart import Response

from mmo_sansio.values.clock import DAY, SECOND, Instant, Span, elapsed
from mmo_trio.brands.keyring import SealError
from mmo_trio.console import sessions
from mmo_trio.console.context import console

BROWSER_COOKIE: Final = "mmo_console_browser"
KNOWN_FOR: Final = Span(90 * DAY)
_ID_BYTES: Final = 16
_TIME_BYTES: Final = 8
_COOKIE_CHARACTERS_MAX: Final = 200


def known_browser(name: str) -> str | None:
    """Return the id of this browser, if the user of this name has signed in with it; None
    elsewhere."""
    value = sessions.cookie(BROWSER_COOKIE)
    if not value or len(value) > _COOKIE_CHARACTERS_MAX:
        return None

    try:
        sealed = urlsafe_b64decode(value.encode("ascii"))
        content = console().keys.unseal_secret(_owner(name), sealed)
    except (SealError, ValueError):
        return None

    id, known_since = content[:_ID_BYTES], Instant(int.from_bytes(content[_ID_BYTES:], "big"))
    if elapsed(known_since, console().wall_time()) < KNOWN_FOR:
        return id.hex()

    return None


def remember_browser(response: Response, name: str) -> None:
    """Let this browser be known to the user of this name, who has just signed in."""
    known = known_browser(name)
    if known is None:
        id = os.urandom(_ID_BYTES)
    else:
        id = bytes.fromhex(known)
    content = id + console().wall_time().to_bytes(_TIME_BYTES, "big")
    value = urlsafe_b64encode(console().keys.seal_secret(_owner(name), content)).decode()
    sessions.set_cookie(response, BROWSER_COOKIE, value, max_age_s=KNOWN_FOR // SECOND)


def _owner(name: str) -> str:
    return f"browser of {name}"

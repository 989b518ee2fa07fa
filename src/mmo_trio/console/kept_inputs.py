"""Keeps what a user has typed until it is needed again, sealed for that user: the text of a search,
which no address tells as it may be personal data, and a form that was sent after the end of its
session."""

from __future__ import annotations

import json
import secrets
from typing import Any

from mmo_trio.brands.keyring import SealError
from mmo_trio.console.context import console

# An id is no secret: nobody but its user finds an input by it.
_ID_BYTES = 6


def seal_input(user: str, content: object) -> bytes:
    """Seal what JSON can express, for this user."""
    return console().keys.seal_secret(_owner(user), json.dumps(content).encode())


async def keep_input(user: str, sealed: bytes) -> str:
    """Store what :func:`seal_input` has sealed for this user, and return its id. Raises SealError
    for anything else."""
    console().keys.unseal_secret(_owner(user), sealed)
    id = secrets.token_urlsafe(_ID_BYTES)
    await console().store.admin.keep_input(user, id, sealed, console().wall_time())
    return id


async def kept_input(user: str, id: str) -> Any:
    """Return the content; None when the user has none with this id, or none that can still be
    opened."""
    sealed = await console().store.admin.kept_input(user, id)
    try:
        if sealed is None:
            return None
        return json.loads(console().keys.unseal_secret(_owner(user), sealed))
    except SealError:
        return None


def _owner(user: str) -> str:
    return f"input of {user}"

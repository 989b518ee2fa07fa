"""Keeps what a user has typed until it is needed again, sealed for that user: the text of a search, which no address
tells as it may be personal data, and a form that was sent after the end of its session."""

from __future__ import annotations

import json
import secrets
from base64 import b64decode, b64encode
from collections.abc import Sequence

from attrs import frozen

from mmo_trio.brands.keyring import SealError
from mmo_trio.console.context import console

_ID_BYTES = 6
"""An id is no secret: nobody but its user finds an input by it."""


@frozen
class UnsentForm:
    """A form that was sent after the end of its session: nothing was done."""

    action: str
    """The path that it was sent to."""
    fields: Sequence[tuple[str, str]]


def seal_form(user: str, form: UnsentForm) -> str:
    """Return a form for the browser to keep while its user signs in again."""
    content = json.dumps([form.action, list(form.fields)]).encode()
    return b64encode(console().keys.seal_secret(_owner(user), content)).decode()


async def keep_form(user: str, sealed: str) -> str | None:
    """Store a form that :func:`seal_form` sealed for this user, and return its id; None for anything else."""
    try:
        content = b64decode(sealed, validate=True)
        console().keys.unseal_secret(_owner(user), content)
    except (ValueError, SealError):
        return None
    return await _store(user, content)


async def kept_form(user: str, id: str) -> UnsentForm | None:
    """Return a form of this user; None when there is none with this id any more."""
    content = await _load(user, id)
    if content is None:
        return None
    action, fields = json.loads(content)
    return UnsentForm(action, [(name, value) for name, value in fields])


async def keep_text(user: str, text: str) -> str:
    """Store a text, and return its id."""
    content = text.encode("utf-8", "surrogatepass")
    return await _store(user, console().keys.seal_secret(_owner(user), content))


async def kept_text(user: str, id: str) -> str | None:
    """Return a text of this user; None when there is none with this id any more."""
    content = await _load(user, id)
    return None if content is None else content.decode("utf-8", "surrogatepass")


async def _store(user: str, sealed: bytes) -> str:
    id = secrets.token_urlsafe(_ID_BYTES)
    await console().store.admin.keep_input(user, id, sealed, console().now())
    return id


async def _load(user: str, id: str) -> bytes | None:
    sealed = await console().store.admin.kept_input(user, id)
    try:
        return None if sealed is None else console().keys.unseal_secret(_owner(user), sealed)
    except SealError:
        return None  # The master key was changed since.


def _owner(user: str) -> str:
    return f"input of {user}"

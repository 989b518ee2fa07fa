"""Deeds as the audit log has them: whatever anybody calls himself stands there as plain text."""

from __future__ import annotations

import getpass
import json

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import Deed
from mmo_trio.storage.interface.store import Store

TEXT_MAX = 2_000
"""Characters of one detail that are kept."""


def deed(at: Instant, actor: str, act: str, about: str = "", **detail: object) -> Deed:
    """A deed; details that are None are left out."""
    told = {
        name: value[:TEXT_MAX] if isinstance(value, str) else value
        for name, value in detail.items()
        if value is not None
    }
    return Deed(at, _plain(actor), act, _plain(about), json.dumps(told))


def _plain(text: str) -> str:
    """Neither control characters nor what a store can't hold."""
    return "".join(each if each.isprintable() else "?" for each in text[:300])


def of_machine(user: str | None = None) -> str:
    """Who gives a command on a machine of the gateway's."""
    return f"cli:{user or getpass.getuser()}"


async def note_command(
    store: Store, now: Instant, act: str, about: str = "", user: str | None = None, **detail: object
) -> None:
    """Write down what a command is about to do."""
    await store.office.note(deed(now, of_machine(user), act, about, **detail))

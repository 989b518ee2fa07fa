"""Deeds as the audit log has them: whatever anybody calls himself stands there as plain text."""

from __future__ import annotations

import getpass
import json

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import AuditEvent
from mmo_trio.storage.interface.store import Store

TEXT_CHARACTERS_MAX = 2_000
"""Characters of one detail that are kept."""


def audit_event(
    at: Instant, actor: str, action: str, about: str = "", **detail: object
) -> AuditEvent:
    """A deed; details that are None are left out."""
    told = {
        name: value[:TEXT_CHARACTERS_MAX] if isinstance(value, str) else value
        for name, value in detail.items()
        if value is not None
    }
    return AuditEvent(
        at, _replace_unprintable(actor), action, _replace_unprintable(about), json.dumps(told)
    )


def _replace_unprintable(text: str) -> str:
    """Neither control characters nor what a store can't hold."""
    return "".join(each if each.isprintable() else "?" for each in text[:300])


def cli_actor(user: str | None = None) -> str:
    """Who gives a command on a machine of the gateway's."""
    return f"cli:{user or getpass.getuser()}"


async def record_command(
    store: Store,
    now: Instant,
    action: str,
    about: str = "",
    user: str | None = None,
    **detail: object,
) -> None:
    """Write down what a command is about to do."""
    await store.admin.append_audit(audit_event(now, cli_actor(user), action, about, **detail))

"""Audit events are made here; names and subjects in them are plain text."""

from __future__ import annotations

import json

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import AuditEvent

TEXT_CHARACTERS_MAX = 2_000
"""Limit on the characters of one detail; longer text is cut."""


def audit_event(at: Instant, actor: str, action: str, about: str = "", **detail: object) -> AuditEvent:
    """Return an audit event without the details that are None."""
    members = {
        name: value[:TEXT_CHARACTERS_MAX] if isinstance(value, str) else value
        for name, value in detail.items()
        if value is not None
    }
    return AuditEvent(at, replace_unprintable(actor), action, replace_unprintable(about), json.dumps(members))


def replace_unprintable(text: str) -> str:
    """Replace control characters and characters that a store can't store."""
    return "".join(each if each.isprintable() else "?" for each in text[:300])

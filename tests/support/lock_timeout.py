"""How long a commit on PostgreSQL waits for the lock that another one holds, set by a test."""

from __future__ import annotations

import pytest

from mmo_trio.storage.postgres import connections

USUAL_SETUP = connections.WRITER_SETUP


def set_lock_timeout(monkeypatch: pytest.MonkeyPatch, timeout_s: float) -> None:
    """Let stores that are opened from now on give a commit up when it has waited so long for
    another one."""
    changed = USUAL_SETUP.replace(
        "SET lock_timeout = '5s'", f"SET lock_timeout = '{timeout_s:.0f}s'"
    )
    assert changed != USUAL_SETUP
    monkeypatch.setattr(connections, "WRITER_SETUP", changed)

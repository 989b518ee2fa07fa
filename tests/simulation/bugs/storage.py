"""Bugs of the store on SQLite, and of what it shares with the other SQL databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import trio
from attrs import evolve

from mmo_trio.storage.interface.admin_types import BrandHold
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.net_effect import NetEffect
from mmo_trio.storage.sqlite import statements
from mmo_trio.storage.sqlite import store as sqlite_store


def _written(change: Callable[[NetEffect], NetEffect]) -> AbstractContextManager[object]:
    """Write another effect of each batch."""
    write = statements.write_batch

    def write_changed(
        connection: sqlite3.Connection, effect: NetEffect, *, is_claimed: bool
    ) -> None:
        write(connection, change(effect), is_claimed=is_claimed)

    return patch.object(sqlite_store, "write_batch", write_changed)


def intent_not_deleted() -> AbstractContextManager[object]:
    """A durable intent stays when it is concluded."""
    return _written(lambda effect: evolve(effect, concluded=set()))


def reference_not_stored() -> AbstractContextManager[object]:
    """The use of a merchantReference is not stored with its payment."""
    return _written(lambda effect: evolve(effect, references=[]))


def hold_not_stored() -> AbstractContextManager[object]:
    """A brand that is put on hold is not."""

    async def hold_nothing(self: AdminStore, hold: BrandHold) -> bool:
        await trio.lowlevel.checkpoint()
        return True

    return patch.object(AdminStore, "hold_brand", hold_nothing)

"""Bugs of what is read from the books, and of what is written for staff."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from attrs import evolve

from mmo_sansio.messages.changes import JournalEntry
from mmo_trio.storage.shared.net_effect import NetEffect
from mmo_trio.storage.sql.store import SqlStore
from tests.simulation.stores.shared_store import SimulatedSharedStore


def look_up_answered_from_memory() -> AbstractContextManager[object]:
    """A look-up that was answered once is always answered so."""
    look_up, found = SqlStore.look_up, dict[object, bytes | None]()

    async def remember(self: SqlStore, query: Any) -> bytes | None:
        if found.get(query) is None:
            found[query] = await look_up(self, query)
        return found[query]

    return patch.object(SqlStore, "look_up", remember)


def stage_left_out_of_the_journal() -> AbstractContextManager[object]:
    """The journal has no entry of a submission."""
    add = NetEffect.add

    def add_most(self: NetEffect, change: Any) -> None:
        if not (isinstance(change, JournalEntry) and change.stage_after == "submitting"):
            add(self, change)

    return patch.object(NetEffect, "add", add_most)


@contextmanager
def row_left_out_of_a_page() -> Iterator[None]:
    """A page of records lacks its first row."""
    with ExitStack() as patches:
        for kind in (SqlStore, SimulatedSharedStore):
            patches.enter_context(patch.object(kind, "list_records", _list_most(kind.list_records)))
        yield


def _list_most(list_records: Callable[..., Any]) -> Callable[..., Any]:
    async def list_most(self: object, query: Any) -> Any:
        found = await list_records(self, query)
        return evolve(found, objects=found.objects[1:]) if len(found.objects) > 1 else found

    return list_most

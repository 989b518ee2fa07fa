"""Bugs of what is read from the books, and of what is written for staff."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from attrs import evolve

from mmo_sansio.messages.changes import JournalEntry
from mmo_trio.storage.memory import state
from mmo_trio.storage.memory.store import MemoryStore


def look_up_answered_from_memory() -> AbstractContextManager[object]:
    """A look-up that was answered once is always answered so."""
    look_up, found = MemoryStore.look_up, dict[object, bytes | None]()

    async def remember(self: MemoryStore, query: Any) -> bytes | None:
        if found.get(query) is None:
            found[query] = await look_up(self, query)
        return found[query]

    return patch.object(MemoryStore, "look_up", remember)


def stage_left_out_of_the_journal() -> AbstractContextManager[object]:
    """The journal has no entry of a submission."""
    record_change = state.record_change

    def record_most(memory: Any, change: Any) -> None:
        if not (isinstance(change, JournalEntry) and change.stage_after == "submitting"):
            record_change(memory, change)

    return patch.object(state, "record_change", record_most)


def row_left_out_of_a_page() -> AbstractContextManager[object]:
    """A page of records lacks its first row."""
    list_records = MemoryStore.list_records

    async def list_most(self: MemoryStore, query: Any) -> Any:
        found = await list_records(self, query)
        return evolve(found, objects=found.objects[1:]) if len(found.objects) > 1 else found

    return patch.object(MemoryStore, "list_records", list_most)

"""Bugs of what is read from the books, and of what is written for staff."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import trio
from attrs import evolve

from mmo_sansio.messages.changes import JournalEntry
from mmo_sansio.messages.queries import AnyLookUp
from mmo_trio.storage.sql.net_effect import NetEffect
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import statements
from mmo_trio.workers.providers.reversals import ReversalWorker
from tests.simulation.stores.shared_store import SimulatedSharedStore


@contextmanager
def look_up_answered_from_memory() -> Iterator[None]:
    """A look-up that was answered once is always answered so."""
    found: dict[object, bytes | None] = {}
    with patch.object(Store, "look_up", _remembering(Store.look_up, found)):
        yield


def _remembering(look_up: Any, found: dict[object, bytes | None]) -> Any:
    async def remember(self: object, query: Any) -> bytes | None:
        if found.get(query) is None:
            found[query] = await look_up(self, query)
        return found[query]

    return remember


def success_told_as_failure() -> AbstractContextManager[object]:
    """A look-up of a payment that has succeeded says that it has failed."""
    look_up = Store.look_up

    async def look_up_wrongly(self: Store, query: AnyLookUp) -> bytes | None:
        found = await look_up(self, query)
        return None if found is None else found.replace(b'"success"', b'"failed"')

    return patch.object(Store, "look_up", look_up_wrongly)


@contextmanager
def stage_left_out_of_the_journal() -> Iterator[None]:
    """The journal has no entry of a submission."""
    write_history = statements._write_history

    def write_most(connection: Any, effect: NetEffect) -> None:
        write_history(
            connection,
            evolve(effect, journal=[each for each in effect.journal if not _is_submission(each)]),
        )

    with patch.object(statements, "_write_history", write_most):
        yield


def _is_submission(change: object) -> bool:
    return isinstance(change, JournalEntry) and change.stage_after == "submitting"


@contextmanager
def row_left_out_of_a_page() -> Iterator[None]:
    """A page of records lacks its first row."""
    with ExitStack() as patches:
        for kind in (Store, SimulatedSharedStore):
            patches.enter_context(
                patch.object(kind, "list_records", _listing_most(kind.list_records))
            )
        yield


def _listing_most(list_records: Any) -> Any:
    async def list_most(self: object, query: Any) -> Any:
        found = await list_records(self, query)
        return evolve(found, objects=found.objects[1:]) if len(found.objects) > 1 else found

    return list_most


def error_in_a_round() -> AbstractContextManager[object]:
    """The first round in which a process looks for reversals meets an error, and the next ones do
    not."""
    run_round, met = ReversalWorker._run_round, set[ReversalWorker]()

    async def fail_once(self: ReversalWorker, conversations: trio.Nursery) -> None:
        if self not in met:
            met.add(self)
            raise KeyError("planted")
        await run_round(self, conversations)

    return patch.object(ReversalWorker, "_run_round", fail_once)

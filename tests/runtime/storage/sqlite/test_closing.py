"""A store that is closed, or being closed, says so to whoever asks, whatever its threads are at."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mmo_sansio.messages.queries import ListRecords, LookUp
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_trio.storage.interface.admin_types import AuditHead
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sql.audit_log import audit_head
from mmo_trio.storage.sql.statements import SqlQuery
from mmo_trio.storage.sqlite import SqliteStore, open_sqlite
from mmo_trio.storage.sqlite.connection import READERS_MAX
from tests.conformance.driver import NOON, after_noon
from tests.conformance.inputs import reference
from tests.support.time_limits import HANGS_AFTER_S

CALLS: dict[str, Callable[[SqliteStore], Awaitable[object]]] = {
    "check": lambda store: store.check(),
    "next_wake": lambda store: store.next_wake(),
    "look_up": lambda store: store.look_up(LookUp("acme", reference(1))),
    "list_records": lambda store: store.list_records(ListRecords("acme", NOON, after_noon(1))),
    "administration": lambda store: store.admin.brands(),
    "transact": lambda store: store.transact(Reads(), lambda _: ()),
    "integrity_errors": lambda store: store.integrity_errors(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_closed_store_says_that_it_is_closed(
    tmp_path: Path, call: Callable[[SqliteStore], Awaitable[object]]
) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
            await store.check()
            await store.next_wake()
            await store.aclose()
            with pytest.raises(StoreUnavailable, match="the store is closed"):
                await call(store)


async def test_what_waits_or_comes_while_a_store_is_closed_need_not_wait_for_the_disk(
    tmp_path: Path,
) -> None:
    """The writer and all readers stand still meanwhile, as on a disk that hangs."""
    may_go_on, told = threading.Event(), list[str]()

    def decide_slowly(_: Ledger) -> Sequence[Decision]:
        assert may_go_on.wait(HANGS_AFTER_S)
        return ()

    def query_slowly() -> SqlQuery[AuditHead]:
        assert may_go_on.wait(HANGS_AFTER_S)
        return audit_head()

    async def ask(call: Callable[[SqliteStore], Awaitable[object]], store: SqliteStore) -> None:
        with pytest.raises(StoreUnavailable, match="the store is closed"):
            await call(store)
        told.append("closed")

    with trio.fail_after(HANGS_AFTER_S):
        async with (
            open_sqlite(tmp_path / "gateway.db", serving=True) as store,
            trio.open_nursery() as nursery,
        ):

            async def read_slowly() -> None:
                await store.admin.read(query_slowly)
                told.append("read")

            async def write_slowly() -> None:
                await store.transact(Reads(), decide_slowly)
                told.append("written")

            nursery.start_soon(write_slowly)
            for _ in range(READERS_MAX):
                nursery.start_soon(read_slowly)
            await wait_all_tasks_blocked()

            async with trio.open_nursery() as waiting:
                for call in CALLS.values():
                    waiting.start_soon(ask, call, store)
                await wait_all_tasks_blocked()
                nursery.start_soon(store.aclose)
            for call in CALLS.values():
                await ask(call, store)

            assert told == ["closed"] * 2 * len(CALLS)
            may_go_on.set()
    assert sorted(told[2 * len(CALLS) :]) == ["read"] * READERS_MAX + ["written"]

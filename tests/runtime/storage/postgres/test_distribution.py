"""Tables are distributed only where that is possible; `tests/citus` tries it on a cluster."""

from __future__ import annotations

import pytest
import trio

from mmo_sansio.messages import changes
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.open_store import distribute_store
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.postgres.distribution import commit_brand
from mmo_trio.storage.sql.net_effect import NetEffect
from tests.support.time_limits import HANGS_AFTER_S

_LINE = changes.JournalEntry(Instant(1), "C2bConfirmed", "provider:mtn", None, None, None, None, "")


async def test_a_server_without_citus_is_named_with_the_remedy(database: str) -> None:
    with (
        trio.fail_after(HANGS_AFTER_S),
        pytest.raises(StoreUnusable, match="CREATE EXTENSION citus"),
    ):
        await distribute_store(database)
    async with open_postgres(database, serving=True, create=False) as store:
        await store.check()


async def test_a_file_is_never_distributed() -> None:
    with pytest.raises(StoreUnusable, match=r"only tables in PostgreSQL .* look at database\.url"):
        await distribute_store("sqlite:///gateway.db")


def test_a_commit_leaves_its_row_in_the_shard_of_its_first_brand() -> None:
    effect = NetEffect()
    effect.add(_LINE)
    assert commit_brand(effect) is None
    effect.add(
        changes.JournalEntry(Instant(1), "Create", "merchant:acme", "REF", "acme", None, None, "")
    )
    assert commit_brand(effect) == "acme"


def test_a_commit_that_writes_the_coordinators_tables_leaves_its_row_there() -> None:
    effect = NetEffect()
    effect.add(
        changes.JournalEntry(Instant(1), "Create", "merchant:acme", "REF", "acme", None, None, "")
    )
    effect.add(changes.DepositRecorded("mtn", "receipt", "REF"))
    assert commit_brand(effect) is None

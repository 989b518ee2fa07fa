"""Batches of creates that are decided without a load: when that happens, and what the commit finds
out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from attrs import Factory, define, evolve

from mmo_sansio.messages.inputs import BeginSubmission, CreatePayment
from mmo_sansio.messages.queries import ListRecords
from mmo_sansio.messages.replies import Accepted, Applied, Rejected
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Stage
from mmo_trio.storage.interface.store import DecideBatch
from mmo_trio.storage.postgres import PostgresStore, open_postgres
from mmo_trio.storage.postgres import store as store_module
from mmo_trio.storage.postgres.assumptions import LOADS_BEFORE_ASSUMPTION
from mmo_trio.storage.postgres.batch_load import LoadedBatch, load_batch
from mmo_trio.storage.postgres.statements import KnownBrands
from mmo_trio.storage.postgres.tables import Tables
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from tests.conformance.driver import after_noon, create_payments, submit_batch
from tests.conformance.inputs import creation, reference
from tests.support.postgres_process import execute
from tests.support.time_limits import HANGS_AFTER_S


@define
class Loads:
    """Notes what was loaded."""

    reads: list[Reads] = Factory(list)

    async def load_batch(
        self,
        connection: PostgresConnection,
        reads: Reads,
        known_brands: KnownBrands,
        tables: Tables,
    ) -> LoadedBatch:
        self.reads.append(reads)
        return await load_batch(connection, reads, known_brands, tables)


@asynccontextmanager
async def open_used_store(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[PostgresStore, Loads]]:
    """A store that has loaded new references of late, and no others."""
    loads = Loads()
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(url, serving=True) as store:
            monkeypatch.setattr(store_module, "load_batch", loads.load_batch)
            for number in range(LOADS_BEFORE_ASSUMPTION):
                await submit_batch(store, (creation(number), after_noon(number)))
            assert len(loads.reads) == LOADS_BEFORE_ASSUMPTION
            loads.reads.clear()
            yield store, loads


async def test_new_references_need_no_load(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_used_store(database, monkeypatch) as (store, loads):
        for number in range(10, 14):
            (reply,) = await submit_batch(store, (creation(number), after_noon(number)))
            assert isinstance(reply, Accepted)
            found = await store.transaction(reference(number))
            assert found is not None
            assert found.order == reply.order
        assert not loads.reads


@pytest.mark.spec("C12")
async def test_a_reference_that_was_used_after_all_is_rejected(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_used_store(database, monkeypatch) as (store, loads),
        open_postgres(database, serving=True) as other,
    ):
        await submit_batch(other, (creation(10, merchant_reference="order-1"), after_noon(10)))
        loads.reads.clear()
        again, new = (
            creation(11, merchant_reference="order-1"),
            creation(12, merchant_reference="order-2"),
        )
        replies = await submit_batch(store, (again, after_noon(11)), (new, after_noon(12)))
        assert [type(each) for each in replies] == [Rejected, Accepted]
        assert len(loads.reads) == 1
        assert [
            each.reference for each in await store.admin.find_transactions(reference="order-1")
        ] == [reference(10)]
        assert await store.transaction(reference(11)) is None
        await submit_batch(store, (creation(13), after_noon(13)))
        assert len(loads.reads) == 2


@pytest.mark.spec("S6")
async def test_what_is_submitted_as_it_is_created_needs_no_load(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_used_store(database, monkeypatch) as (store, loads):
        reserved = evolve(creation(10), reserved_provider="sandbox")
        (reply,) = await submit_batch(store, (reserved, after_noon(10)))
        assert isinstance(reply, Accepted)
        found = await store.transaction(reference(10))
        assert found is not None
        assert found == reply.submitted
        assert found.progress.stage is Stage.SUBMITTING
        assert not loads.reads


@pytest.mark.parametrize("is_loaded_as_held", [False, True])
async def test_nothing_is_submitted_of_a_brand_that_was_put_on_hold_since_the_last_load(
    database: str, monkeypatch: pytest.MonkeyPatch, is_loaded_as_held: bool
) -> None:
    async with open_used_store(database, monkeypatch) as (store, loads):
        execute(database, "INSERT INTO brand_holds VALUES ('acme', 1, 'ada')")
        if is_loaded_as_held:
            await submit_batch(store, (BeginSubmission(reference(0)), after_noon(9)))
            loads.reads.clear()
        reserved = evolve(creation(10), reserved_provider="sandbox")
        (reply,) = await submit_batch(store, (reserved, after_noon(10)))
        assert isinstance(reply, Accepted)
        assert reply.submitted is None
        found = await store.transaction(reference(10))
        assert found is not None
        assert found.progress.stage is Stage.CREATED
        assert len(loads.reads) == (0 if is_loaded_as_held else 1)


@pytest.mark.spec("C12")
async def test_of_one_new_reference_in_one_batch_the_first_create_is_accepted(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_used_store(database, monkeypatch) as (store, loads):
        both = [
            (creation(number, merchant_reference="order-1"), after_noon(number))
            for number in (10, 11)
        ]
        assert [type(each) for each in await submit_batch(store, *both)] == [Accepted, Rejected]
        assert not loads.reads


@pytest.mark.spec("R7")
async def test_nothing_is_created_below_records_that_were_served_since_the_last_load(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger of the second attempt says from when on; a decision may not lie before that."""
    starts: list[Instant] = []
    async with open_used_store(database, monkeypatch) as (store, loads):
        end = after_noon(60_000_000)
        await store.list_records(ListRecords("acme", after_noon(0), end))

        def decide_later(given: CreatePayment, now: Instant) -> DecideBatch:
            def decide_all(ledger: Ledger) -> list[Decision]:
                starts.append(ledger.not_before)
                decision = decide(ledger, given, now=max(now, Instant(ledger.not_before + 1)))
                ledger.apply(decision.changes, decision.intents)
                return [decision]

            return decide_all

        given = creation(10)
        await store.transact(reads(given), decide_later(given, after_noon(10)))
        found = await store.transaction(reference(10))
        assert found is not None
        assert found.order.created_at > end
        assert starts == [Instant(0), end]
        assert len(loads.reads) == 1


async def test_inputs_about_payments_that_another_process_has_created_are_loaded(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_used_store(database, monkeypatch) as (store, loads),
        open_postgres(database, serving=True) as other,
    ):
        await create_payments(other, [20, 21])
        loads.reads.clear()
        (reply,) = await submit_batch(store, (BeginSubmission(reference(20)), after_noon(22)))
        assert isinstance(reply, Applied)
        create, begin = creation(10), BeginSubmission(reference(21))
        await submit_batch(store, (create, after_noon(23)), (begin, after_noon(24)))
        assert len(loads.reads) == 2


async def test_a_rejection_that_no_commit_checks_is_decided_from_what_is_stored(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_used_store(database, monkeypatch) as (store, loads):
        (reply,) = await submit_batch(store, (creation(10, currency="XXX"), after_noon(10)))
        assert isinstance(reply, Rejected)
        assert len(loads.reads) == 1

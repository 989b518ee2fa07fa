"""Steps of payments that are decided from what the same process has committed last: what is
assumed, and what the commit finds out."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    Input,
    ProviderAccepted,
    ProviderHinted,
)
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.values.model import Source, Stage
from mmo_trio.storage.postgres import PostgresStore, open_postgres
from mmo_trio.storage.postgres import store as store_module
from mmo_trio.storage.postgres.assumptions import Assumptions
from mmo_trio.storage.postgres.batch_load import LoadedBatch
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from tests.conformance.driver import after_noon, create_payments, submit_batch
from tests.conformance.inputs import DELIVERED, failed, random_inputs, reference, succeeded
from tests.support.time_limits import HANGS_AFTER_S

ACCEPTED = ProviderAccepted(reference(1), "sandbox", Source.WEBHOOK)
CONCLUDED = CallbackConcluded(reference(1), DELIVERED)
STEPS: tuple[Input, ...] = (BeginSubmission(reference(1)), ACCEPTED, succeeded(1), CONCLUDED)


async def play(store: PostgresStore, *steps: Input, begin: int = 10) -> None:
    """Play these steps, each in a batch of its own; each is applied."""
    for number, step in enumerate(steps, start=begin):
        (reply,) = await submit_batch(store, (step, after_noon(number)))
        assert isinstance(reply, Applied), step


@asynccontextmanager
async def open_noting_loads(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[PostgresStore, list[Reads]]]:
    """A store in which a payment was created, and what it loads from then on."""
    loads: list[Reads] = []
    learn_load = Assumptions.learn_load

    def note_load(self: Assumptions, reads: Reads, loaded: LoadedBatch) -> None:
        loads.append(reads)
        learn_load(self, reads, loaded)

    monkeypatch.setattr(Assumptions, "learn_load", note_load)
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(url, serving=True) as store:
            await create_payments(store, [0])  # On a new session.
            await create_payments(store, [1])
            loads.clear()
            yield store, loads


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_assumed_of_payments_is_what_is_stored(
    database: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    compared = 0
    learn_load = Assumptions.learn_load
    any_session: Any = SimpleNamespace(opened_at=-math.inf)

    def compare_load(self: Assumptions, reads: Reads, loaded: LoadedBatch) -> None:
        nonlocal compared
        assumed = self.working_set(reads, any_session)
        if assumed is not None and reads.transactions:
            compared += 1
            assert assumed.ledger.transactions == loaded.ledger.transactions
            assert assumed.ledger.intents == loaded.ledger.intents
            assert assumed.intent_fences == loaded.intent_fences
        learn_load(self, reads, loaded)

    monkeypatch.setattr(Assumptions, "learn_load", compare_load)
    monkeypatch.setattr(store_module, "is_found_out", lambda *_: False)
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(database, serving=True) as store:
            for given in random_inputs(Random(seed), 150):
                await submit_batch(store, given)
    assert compared >= 10


async def test_the_steps_of_a_payment_need_no_load(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_noting_loads(database, monkeypatch) as (store, loads):
        await play(store, *STEPS)
        assert not loads
        found = await store.transaction(reference(1))
        assert found is not None
        assert (found.progress.stage, found.progress.version) == (Stage.SUCCEEDED, 4)
        assert await store.integrity_errors() == []


@pytest.mark.spec("S1")
async def test_a_payment_that_another_process_has_ended_is_decided_from_what_is_stored(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_noting_loads(database, monkeypatch) as (store, loads),
        open_postgres(database, serving=True) as other,
    ):
        await play(store, *STEPS[:2])
        await play(other, succeeded(1), begin=20)
        loads.clear()
        (reply,) = await submit_batch(store, (failed(1), after_noon(30)))
        assert not isinstance(reply, Applied)
        assert len(loads) == 1
        found = await store.transaction(reference(1))
        assert found is not None
        assert found.progress.stage is Stage.SUCCEEDED


@pytest.mark.spec("K3")
async def test_a_callback_that_another_process_has_concluded_is_not_concluded_again(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_noting_loads(database, monkeypatch) as (store, loads),
        open_postgres(database, serving=True) as other,
    ):
        await play(store, *STEPS[:3])
        await play(other, CONCLUDED, begin=20)
        loads.clear()
        (reply,) = await submit_batch(store, (CONCLUDED, after_noon(30)))
        assert isinstance(reply, Ignored)
        assert len(loads) == 1
        assert len(await store.admin.callbacks(gateway_reference=reference(1))) == 1


async def test_an_input_of_which_the_commit_would_find_out_nothing_is_loaded(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_noting_loads(database, monkeypatch) as (store, loads):
        await play(store, *STEPS[:2])
        (reply,) = await submit_batch(store, (ACCEPTED, after_noon(20)))
        assert isinstance(reply, Ignored)
        assert len(loads) == 1
        await create_payments(store, [2])
        loads.clear()
        hint = ProviderHinted(reference(2), "sandbox", "{}")
        await submit_batch(store, (succeeded(1), after_noon(21)), (hint, after_noon(22)))
        assert len(loads) == 1


async def test_a_session_that_was_opened_later_may_be_of_a_server_that_lacks_it(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_noting_loads(database, monkeypatch) as (store, loads):
        working_set = Assumptions.working_set

        def on_a_later_session(
            self: Assumptions, reads: Reads, connection: PostgresConnection
        ) -> LoadedBatch | None:
            connection.opened_at = trio.current_time()
            return working_set(self, reads, connection)

        monkeypatch.setattr(Assumptions, "working_set", on_a_later_session)
        await play(store, *STEPS)
        assert len(loads) == len(STEPS)


async def test_a_payment_that_has_ended_is_forgotten_once_its_callback_is_concluded(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_noting_loads(database, monkeypatch) as (store, loads):
        await play(store, *STEPS)
        (reply,) = await submit_batch(store, (CONCLUDED, after_noon(20)))
        assert isinstance(reply, Ignored)
        assert len(loads) == 1

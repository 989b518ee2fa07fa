"""Bugs of the engine, and of what a store promises it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import outcome
import trio

from mmo_sansio.messages.queries import Records
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.payments.rules import submission
from mmo_sansio.providers.common.operations import OperationKey
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction
from mmo_trio.engine import engine as engine_module
from mmo_trio.engine.engine import Batch, Engine, PendingInput
from mmo_trio.storage.interface.store import DecideBatch, OutcomeUnknown, WorkItem
from mmo_trio.storage.sqlite import SqliteStore
from mmo_trio.storage.sqlite.writer import SqliteWriter
from mmo_trio.workers.providers.worker import ProviderWorker
from tests.simulation.stores.machine import StoreCall
from tests.simulation.stores.shared_server import SimulatedServer
from tests.simulation.stores.shared_store import SimulatedSharedStore
from tests.simulation.stores.transactions import ServerTransaction


def answered_before_the_commit() -> AbstractContextManager[object]:
    """The engine answers its callers once it has decided, and not once that is durable."""
    decide = Batch.decide

    def decide_and_answer(batch: Batch, ledger: Ledger) -> Sequence[Decision]:
        decisions = decide(batch, ledger)
        for call, result in zip(batch.pending_inputs, batch.results, strict=True):
            if isinstance(result, Decision):
                call.complete(outcome.Value(result.reply))
        return decisions

    return patch.object(Batch, "decide", decide_and_answer)


@contextmanager
def acted_on_before_the_commit() -> Iterator[None]:
    """Workers get an intent, or a payment to submit, once it is decided, and not once it is
    durable."""
    decide, commit = Batch.decide, Engine._commit_batch
    try_reserve, send = ProviderWorker.try_reserve, ProviderWorker.send_reserved
    workers: dict[str, ProviderWorker] = {}

    def reserve(self: ProviderWorker, reference: str, provider: str, of: OperationKey) -> bool:
        workers[reference] = self
        return try_reserve(self, reference, provider, of)

    def send_once(self: ProviderWorker, transaction: Transaction) -> None:
        if transaction.reference in self._reserved:
            send(self, transaction)

    async def commit_batch(self: Engine, calls: Sequence[PendingInput]) -> None:
        def decide_and_act(batch: Batch, ledger: Ledger) -> Sequence[Decision]:
            decisions = decide(batch, ledger)
            for each in decisions:
                if isinstance(each.reply, Accepted) and each.reply.submitted is not None:
                    send_once(workers[each.reply.submitted.reference], each.reply.submitted)
                for intent in each.intents:
                    self.outbox.put(WorkItem(intent, engine_module._transaction_of(each)))
            return decisions

        with patch.object(Batch, "decide", decide_and_act):
            await commit(self, calls)

    with (
        patch.object(ProviderWorker, "try_reserve", reserve),
        patch.object(ProviderWorker, "send_reserved", send_once),
        patch.object(Engine, "_commit_batch", commit_batch),
    ):
        yield


def lost_wake_up() -> AbstractContextManager[object]:
    """An input that arrives while nothing is decided does not always wake the task that decides."""
    start, counted = Engine._start_batch_if_possible, itertools.count(1)

    def start_sometimes(self: Engine) -> None:
        if self._active_inputs or next(counted) % 9:
            start(self)

    return patch.object(Engine, "_start_batch_if_possible", start_sometimes)


@contextmanager
def unknown_outcome_taken_for_success() -> Iterator[None]:
    """A commit whose outcome nobody knows counts as done."""
    with ExitStack() as patches:
        for kind in (SqliteStore, SimulatedSharedStore):
            patches.enter_context(patch.object(kind, "transact", _optimistic(kind.transact)))
        yield


def _optimistic(transact: Callable[..., Any]) -> Callable[..., Any]:
    async def transact_optimistically(
        self: object, reads: Reads, decide: DecideBatch
    ) -> Sequence[Decision]:
        kept: list[Decision] = []

        def keep(ledger: Ledger) -> Sequence[Decision]:
            kept[:] = decide(ledger)
            return kept

        try:
            result: Sequence[Decision] = await transact(self, reads, keep)
        except OutcomeUnknown:
            return kept
        return result

    return transact_optimistically


def commit_without_conditions() -> AbstractContextManager[object]:
    """A batch is stored although what it was decided from has changed."""
    return patch.object(ServerTransaction, "conflict", lambda self, rows, effect, horizon: None)


def commit_in_doubt_forgotten() -> AbstractContextManager[object]:
    """Nobody asks later what became of a commit in doubt."""

    async def resolve_nothing(self: SimulatedSharedStore) -> Sequence[WorkItem]:
        await trio.lowlevel.checkpoint()
        return ()

    return patch.object(SimulatedSharedStore, "_resolve_doubts", resolve_nothing)


def submission_in_doubt_dropped() -> AbstractContextManager[object]:
    """A worker that does not know whether its submission is on record never sends it."""
    return patch.object(submission, "_is_recorded", lambda *_: False)


@contextmanager
def horizon_that_does_not_wait() -> Iterator[None]:
    """Records are read while a commit that adds to them is on its way."""

    async def wait_for_nothing(self: SqliteWriter, before: Instant) -> None:
        await trio.lowlevel.checkpoint()

    def read_at_once(
        self: SimulatedServer, end: Instant, read: Callable[[], Records], call: StoreCall[Records]
    ) -> None:
        self.do(call, read)

    with (
        patch.object(SimulatedServer, "list_records", read_at_once),
        patch.object(SqliteWriter, "wait_for_creations", wait_for_nothing),
    ):
        yield

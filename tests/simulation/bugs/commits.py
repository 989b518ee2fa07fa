"""Bugs of the engine, and of what a store promises it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import outcome
import trio

from mmo_sansio.messages.replies import Accepted, Reply
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.providers.common.operations import OperationKey
from mmo_sansio.values.model import Transaction
from mmo_trio.engine import engine as engine_module
from mmo_trio.engine.engine import Batch, Engine, PendingInput
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.workers.providers.worker import ProviderWorker


@contextmanager
def answered_before_the_commit() -> Iterator[None]:
    """The engine answers its callers once it has decided, and not once that is durable; also a
    caller who decides for itself."""
    decide, complete = Batch.decide, PendingInput.complete

    def decide_and_answer(batch: Batch, ledger: Ledger) -> Sequence[Decision]:
        decisions = decide(batch, ledger)
        for call, result in zip(batch.pending_inputs, batch.results, strict=True):
            if isinstance(result, Decision):
                call.complete(outcome.Value(result.reply))
        return decisions

    def complete_once(call: PendingInput, result: outcome.Outcome[Reply]) -> None:
        if call._outcome is None:
            complete(call, result)

    with (
        patch.object(Batch, "decide", decide_and_answer),
        patch.object(PendingInput, "complete", complete_once),
    ):
        yield


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


@contextmanager
def lost_wake_up() -> Iterator[None]:
    """An input that arrives while nothing is decided does not always begin a batch, and then none
    begins for a minute."""
    add, can_start, counted = Engine._add, Engine._can_start_batch, itertools.count(1)
    deaf_until: dict[Engine, float] = {}

    def is_deaf(self: Engine) -> bool:
        return trio.current_time() < deaf_until.get(self, 0.0)

    def add_unnoticed(self: Engine, *arguments: Any) -> PendingInput:
        if not self._active_inputs and not is_deaf(self) and next(counted) % 9 == 0:
            deaf_until[self] = trio.current_time() + 60
        return add(self, *arguments)

    def can_start_if_awake(self: Engine) -> bool:
        return not is_deaf(self) and can_start(self)

    with (
        patch.object(Engine, "_add", add_unnoticed),
        patch.object(Engine, "_can_start_batch", can_start_if_awake),
    ):
        yield

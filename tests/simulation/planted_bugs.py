"""Holds bugs around commits, callbacks and submissions that are planted on purpose: the judges of simulated worlds have
to find each of them.

python -m tests.simulation.planted_bugs                      find each, within 500 seeds
python -m tests.simulation.planted_bugs lost_wake_up         find one
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partialmethod
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from unittest.mock import patch

import outcome
import trio
from attrs import evolve

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.inputs import CallbackConcluded, ProviderFailed, ProviderReport, ProviderUnreachable
from mmo_sansio.messages.queries import Records
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Transaction
from mmo_trio.engine import engine
from mmo_trio.engine.engine import Engine, PendingInput
from mmo_trio.storage.interface.store import DecideBatch, OutcomeUnknown, WorkItem
from mmo_trio.testing.machine_clock import MachineGatewayClock
from mmo_trio.testing.stores.file_store import SimulatedFileStore
from mmo_trio.testing.stores.machine import StoreCall
from mmo_trio.testing.stores.shared_server import SimulatedServer
from mmo_trio.testing.stores.shared_store import SimulatedSharedStore
from mmo_trio.testing.stores.transactions import ServerTransaction
from mmo_trio.workers.delivery.callbacks import CallbackWorker, fence_of
from mmo_trio.workers.delivery.channel_owner import ChannelOwner
from mmo_trio.workers.delivery.pool import DeliveryPool
from mmo_trio.workers.providers import worker
from mmo_trio.workers.providers.conversation import run_conversation
from mmo_trio.workers.providers.worker import ProviderWorker
from tests.simulation.play import Played, Variant, play

SEEDS_MAX: Final = 500
PAYMENTS: Final = 24

Plant: TypeAlias = Callable[[], AbstractContextManager[object]]


def find(plant: Plant, seeds: Iterable[int]) -> Played | None:
    """Return the first world of these seeds in which a judge finds a violation; None when none does. What the log tells
    does not count: users would not see it."""
    with plant():
        for seed in seeds:
            played = play(Variant(seed, payments=PAYMENTS))
            violations = tuple(each for each in played.violations if not each.startswith("no_part_has_a_fault"))
            if violations:
                return evolve(played, violations=violations)
    return None


# The engine


def answered_before_the_commit() -> AbstractContextManager[object]:
    """The engine answers its callers once it has decided, and not once that is durable."""
    decide = engine._Batch.decide

    def decide_and_answer(batch: engine._Batch, ledger: Ledger) -> Sequence[Decision]:
        decisions = decide(batch, ledger)
        for call, result in zip(batch.pending_inputs, batch.results, strict=True):
            if isinstance(result, Decision):
                call.complete(outcome.Value(result.reply))
        return decisions

    return patch.object(engine._Batch, "decide", decide_and_answer)


@contextmanager
def acted_on_before_the_commit() -> Iterator[None]:
    """Workers get an intent once it is decided, and not once it is durable."""
    decide, commit = engine._Batch.decide, Engine._commit_batch

    async def commit_batch(self: Engine, calls: Sequence[PendingInput]) -> Sequence[PendingInput]:
        def decide_and_act(batch: engine._Batch, ledger: Ledger) -> Sequence[Decision]:
            decisions = decide(batch, ledger)
            for each in decisions:
                for intent in each.intents:
                    self.outbox.put(WorkItem(intent, engine._transaction_of(each)))
            return decisions

        with patch.object(engine._Batch, "decide", decide_and_act):
            return await commit(self, calls)

    with patch.object(Engine, "_commit_batch", commit_batch):
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
        for kind in (SimulatedFileStore, SimulatedSharedStore):
            patches.enter_context(patch.object(kind, "transact", _optimistic(kind.transact)))
        yield


def _optimistic(transact: Callable[..., Any]) -> Callable[..., Any]:
    async def transact_optimistically(self: object, reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
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


def deferred_input_forgotten() -> AbstractContextManager[object]:
    """An input about a payment that another process is deciding about is never put back."""

    async def forget(self: Engine, deferred: Sequence[PendingInput]) -> None:
        await trio.sleep_forever()

    return patch.object(Engine, "_put_back_later", forget)


# Callbacks


@contextmanager
def drain_drops_callbacks() -> Iterator[None]:
    """A process that drains does not wait for deliveries, and records them as delivered."""
    process = CallbackWorker._process

    async def process_or_drop(self: CallbackWorker, work: WorkItem) -> None:
        try:
            await process(self, work)
        except trio.Cancelled:
            url = work.transaction.order.result_url or ""
            dropped = DeliveryAttempt(DeliveryOutcome.DELIVERED, url, 204)
            with trio.CancelScope(shield=True), trio.move_on_after(5):
                await self._record_outcome(CallbackConcluded(work.transaction.reference, dropped, fence_of(work)))
            raise

    with (
        patch.object(CallbackWorker, "_process", process_or_drop),
        patch.object(DeliveryPool, "run", partialmethod(DeliveryPool.run, grace_s=0.0)),
    ):
        yield


def half_claimed_channels_trusted() -> AbstractContextManager[object]:
    """A process that does not know the outcome of a claim goes on as if it had failed."""
    return patch.object(ChannelOwner, "_distrust_channels", lambda self: None)


# Providers


def unreachable_taken_for_failure() -> AbstractContextManager[object]:
    """A payment has failed when its provider does not answer the submission."""

    def fail(report: ProviderReport) -> ProviderReport:
        if isinstance(report, ProviderUnreachable):
            code = ErrorCode("provider_unavailable")
            return ProviderFailed(report.gateway_reference, report.provider, Source.POLL, code)
        return report

    return _reports_changed(fail)


def _reports_changed(change: Callable[[ProviderReport], ProviderReport]) -> AbstractContextManager[object]:
    async def run_and_change(*args: Any, **kwargs: Any) -> ProviderReport:
        return change(await run_conversation(*args, **kwargs))

    return patch.object(worker, "run_conversation", run_and_change)


def retry_doubles_a_submission() -> AbstractContextManager[object]:
    """A submission that was not answered is sent again, under another reference."""
    converse = ProviderWorker._converse_and_report

    async def converse_twice(
        self: ProviderWorker, conversation: Any, provider: Any, about: Transaction, at: float
    ) -> None:
        failures = self.statistics().unreachable
        await converse(self, conversation, provider, about, at)
        if self.statistics().unreachable > failures:
            another = f"{about.reference[:-1]}{'0' if about.reference[-1] != '0' else '1'}"
            order = evolve(about.order, gateway_reference=another)
            again = provider.submit(evolve(about, order=order), now=self.now())
            await run_conversation(
                again, self.exchange_for(provider.name), about, trio.current_time() + 20, self._counts[provider.name]
            )

    return patch.object(ProviderWorker, "_converse_and_report", converse_twice)


# Time and abandoned work


def expiry_by_the_wall_clock() -> AbstractContextManager[object]:
    """What is due is judged by the machine's wall clock, right or wrong."""
    return patch.object(MachineGatewayClock, "time", lambda self: self.wall())


# What the store promises its callers


def horizon_that_does_not_wait() -> AbstractContextManager[object]:
    """Records are read while a commit that adds to them is on its way."""

    def read_at_once(
        self: SimulatedServer, end: Instant, read: Callable[[], Records], call: StoreCall[Records]
    ) -> None:
        self.do(call, read)

    return patch.object(SimulatedServer, "list_records", read_at_once)


def commit_without_conditions() -> AbstractContextManager[object]:
    """A batch is stored although what it was decided from has changed."""
    return patch.object(ServerTransaction, "conflict", lambda self, memory, effect, horizon: None)


def commit_in_doubt_forgotten() -> AbstractContextManager[object]:
    """Nobody asks later what became of a commit in doubt."""

    async def resolve_nothing(self: SimulatedSharedStore) -> Sequence[WorkItem]:
        await trio.lowlevel.checkpoint()
        return ()

    return patch.object(SimulatedSharedStore, "_resolve_doubts", resolve_nothing)


PLANTED: Mapping[str, Plant] = MappingProxyType(
    {
        plant.__name__: plant
        for plant in (
            answered_before_the_commit,
            acted_on_before_the_commit,
            lost_wake_up,
            unknown_outcome_taken_for_success,
            deferred_input_forgotten,
            drain_drops_callbacks,
            half_claimed_channels_trusted,
            unreachable_taken_for_failure,
            retry_doubles_a_submission,
            expiry_by_the_wall_clock,
            horizon_that_does_not_wait,
            commit_without_conditions,
            commit_in_doubt_forgotten,
        )
    }
)
"""Every bug, by name."""


def main() -> int:
    """Find the bugs that are named, or all; return 1 when one is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted_bugs")
    parser.add_argument("bugs", nargs="*", default=list(PLANTED))
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    missed = 0
    for name in arguments.bugs:
        found = find(PLANTED[name], range(arguments.first, arguments.first + arguments.seeds))
        missed += found is None
        what = "not found" if found is None else f"seed {found.variant.seed}: {found.violations[0]}"
        print(f"{name}: {what}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

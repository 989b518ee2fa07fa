"""Bugs of the shell, planted one at a time, to see that the judges find each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from unittest.mock import patch

from attrs import evolve, frozen

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.changes import JournalEntry
from mmo_sansio.messages.inputs import ProviderSucceeded
from mmo_sansio.messages.intents import SubmitToProvider
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.mtn_momo.adapter import MtnMomoProvider
from mmo_sansio.values.model import Source
from mmo_trio.engine.engine import Engine
from mmo_trio.http.client.client import HttpClient
from mmo_trio.storage.interface.store import OutcomeUnknown
from mmo_trio.storage.memory import state as memory_state
from mmo_trio.storage.memory.store import MemoryStore
from mmo_trio.workers.delivery.callbacks import CallbackWorker
from mmo_trio.workers.delivery.channel_owner import OwnedChannels
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.providers.worker import ProviderWorker
from mmo_trio.workers.scheduler import Scheduler
from tests.simulation.play import Variant, play


@frozen
class PlantedBug:
    """Is one thing that is wrong."""

    name: str
    place: Any
    """The class or module that has it."""
    attribute: str
    make: Callable[[Any], Any]
    """Returns what takes the attribute's place, given what is right."""
    payments: int = 30

    @contextmanager
    def plant(self) -> Iterator[None]:
        """Let the bug be there while the block lasts."""
        with patch.object(self.place, self.attribute, self.make(getattr(self.place, self.attribute))):
            yield


def _certain_that_nothing_arrived(right: Any) -> Any:
    async def call_provider(self: HttpClient, request: HttpRequest, **options: Any) -> Any:
        try:
            return await right(self, request, **options)
        except ExchangeFailed as error:
            raise ExchangeFailed(error.reason, may_have_arrived=False) from error

    return call_provider


def _submits_without_a_record(right: Any) -> Any:
    async def submit(self: ProviderWorker, work: Any) -> None:
        provider = self.providers[work.transaction.order.provider]
        reply, began_at = await self._record_input(right.__globals__["BeginSubmission"](work.intent.gateway_reference))
        about = reply.transaction if isinstance(reply, Applied) else work.transaction
        await self._converse_and_report(provider.submit(about, now=self.now()), provider, about, began_at)

    return submit


def _trusts_notifications(right: Any) -> Any:
    def read_notification(self: MtnMomoProvider, request: HttpRequest) -> Any:
        if b'"SUCCESSFUL"' not in request.body:
            return right(self, request)
        reference = request.target.rpartition(b"/")[2].decode()
        return ProviderSucceeded(reference, self.name, Source.WEBHOOK, "forged")

    return read_notification


def _always_delivered(right: Any) -> Any:
    def limit_body(self: CallbackWorker, brand: str, attempt: Any) -> Any:
        return evolve(right(self, brand, attempt), outcome=DeliveryOutcome.DELIVERED)

    return limit_body


def _sends_twice(right: Any) -> Any:
    async def attempt(self: CallbackWorker, transaction: Any, fence: int) -> Any:
        await right(self, transaction, fence)
        return await right(self, transaction, fence)

    return attempt


def _takes_an_unknown_outcome_for_a_success(right: Any) -> Any:
    async def commit_batch(self: Engine, pending_inputs: Any) -> Any:
        store, decided = self.store, list[Sequence[Decision]]()

        class Hopeful:
            async def transact(self, reads: Any, decide: Any) -> Any:
                def remember(ledger: Ledger) -> Sequence[Decision]:
                    decided.append(decide(ledger))
                    return decided[-1]

                try:
                    return await store.transact(reads, remember)
                except OutcomeUnknown:
                    if not decided:
                        raise
                    return decided[-1]

        cast("Any", self).store = Hopeful()
        try:
            return await right(self, pending_inputs)
        finally:
            self.store = store

    return commit_batch


def _forgets_every_tenth_submission(right: Any) -> Any:
    count = 0

    def dispatch(self: Dispatcher, work: Any) -> None:
        nonlocal count
        count += isinstance(work.intent, SubmitToProvider)
        if not (isinstance(work.intent, SubmitToProvider) and count % 10 == 0):
            right(self, work)

    return dispatch


def _wakes_nothing(right: Any) -> Any:
    async def wake_due(self: Scheduler, *_: Any, **__: Any) -> int:
        return 0

    return wake_due


def _claims_nothing(right: Any) -> Any:
    async def claim_abandoned(self: Scheduler) -> int:
        return 0

    return claim_abandoned


def _remembers_look_ups(right: Any) -> Any:
    found: dict[object, bytes | None] = {}

    async def look_up(self: MemoryStore, query: Any) -> bytes | None:
        if query not in found or found[query] is None:
            found[query] = await right(self, query)
        return found[query]

    return look_up


def _leaves_out_of_the_journal(right: Any) -> Any:
    def record_change(memory: Any, change: object) -> None:
        if not (isinstance(change, JournalEntry) and change.stage_after == "submitting"):
            right(memory, change)

    return record_change


def _lists_from_the_second(right: Any) -> Any:
    async def list_records(self: MemoryStore, query: Any) -> Any:
        found = await right(self, query)
        return evolve(found, objects=found.objects[1:]) if len(found.objects) > 1 else found

    return list_records


def _owns_everything(right: Any) -> Any:
    return lambda self, brand, fence: True


BUGS = (
    PlantedBug("takes_a_lost_answer_for_a_lost_request", HttpClient, "call_provider", _certain_that_nothing_arrived),
    PlantedBug("submits_without_a_record", ProviderWorker, "_submit", _submits_without_a_record),
    PlantedBug("trusts_a_forged_notification", MtnMomoProvider, "read_notification", _trusts_notifications),
    PlantedBug("records_a_delivery_before_it_is_known", CallbackWorker, "_limit_body", _always_delivered),
    PlantedBug("sends_a_callback_twice", CallbackWorker, "_attempt", _sends_twice),
    PlantedBug(
        "takes_an_unknown_outcome_for_a_success", Engine, "_commit_batch", _takes_an_unknown_outcome_for_a_success, 0
    ),
    PlantedBug("forgets_a_submission", Dispatcher, "dispatch", _forgets_every_tenth_submission),
    PlantedBug("loses_wake_ups", Scheduler, "_wake_due", _wakes_nothing),
    PlantedBug("leaves_the_work_of_the_dead", Scheduler, "_claim_abandoned", _claims_nothing),
    PlantedBug("answers_look_ups_from_memory", MemoryStore, "look_up", _remembers_look_ups),
    PlantedBug("leaves_stages_out_of_the_journal", memory_state, "record_change", _leaves_out_of_the_journal),
    PlantedBug("leaves_a_row_out_of_a_page", MemoryStore, "list_records", _lists_from_the_second),
    PlantedBug("sends_without_looking_again", OwnedChannels, "owns", _owns_everything),
)
"""`python -m tests.simulation.planted` looks for the first seed that finds each."""


FIRST_SEEDS = 500


def main() -> None:
    """Print the first seed that finds each bug."""
    for bug in BUGS:
        with bug.plant():
            for seed in range(FIRST_SEEDS):
                played = play(Variant(seed, payments=bug.payments))
                if played.violations:
                    print(f"{bug.name}: seed {seed}: {played.violations[0][:150]}", flush=True)
                    break
            else:
                print(f"{bug.name}: not found", flush=True)


if __name__ == "__main__":
    main()

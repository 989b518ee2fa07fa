"""Sends reversals to providers and asks after them (S6).

What is due, and what was sent, is in the store, so that a killed process loses none. Several
processes may find the same reversal due: the decision to wake it lets only one of them send or ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import structlog
import trio
from attrs import Factory, define, evolve

from mmo_sansio.messages import reversals
from mmo_sansio.messages.replies import Reply, ReversalApplied
from mmo_sansio.providers.common.interface import Provider, ReversalReports, ReversesPayments
from mmo_sansio.providers.common.operations import (
    ReversalOperation,
    operation_key,
    with_version,
)
from mmo_sansio.values.model import Transaction
from mmo_sansio.values.reversals import Reversal, ReversalState, with_reported_money
from mmo_trio.storage.interface.store import log_store_failure
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.system.ids import request_id_generator
from mmo_trio.workers.providers.worker import (
    CONVERSATION_TIMEOUT_S,
    DRAIN_GRACE_S,
    TRIES_IN_PLACE,
    ProviderWorker,
    drive_by_deadline,
)

logger = structlog.get_logger(__name__)

# Seconds between two looks at what is due.
SCAN_INTERVAL_S = 1.0

# Payments whose reversals are sent or asked after at once: they leave the accounts to payments.
CONVERSATIONS_MAX = 16

# Seconds before a reversal is tried again that could not be decided; it holds up no other.
RETRY_DELAY_S = 30.0

# The label of each kind of report in the metrics.
REVERSAL_LABELS = {
    reversals.ReversalAccepted: "accepted",
    reversals.ReversalSucceeded: "succeeded",
    reversals.ReversalFailed: "failed",
    reversals.ReversalUnreachable: "unreachable",
    reversals.ReversalNeverReceived: "never_received",
    reversals.ReversalCannotTell: "cannot_tell",
}


async def _try_none(*_: object) -> bool:
    return False


@define(eq=False)
class ReversalWorker:
    """Runs once in each process; its conversations are those of the provider worker."""

    store: Store
    worker: ProviderWorker
    note_reversal: Callable[[reversals.ReversalFailed, Reply], None] = lambda *_: None
    """Called with each failure that was reported, and what was decided about it."""
    is_held: Callable[[str], bool] = lambda _: False
    """Tells whether the provider with this name takes no reversals for now."""
    begin_trial: Callable[[str], Awaitable[bool]] = _try_none
    """Tells whether one is to be sent all the same, to see whether it still takes none."""
    scan_interval_s: float = SCAN_INTERVAL_S
    reports: Counter[tuple[str, str]] = Factory(Counter)
    """Ended conversations by provider and the label of their report."""
    _active: set[str] = Factory(set)
    """The ids of reversals that are worked at, or wait after a fault."""
    _held: int = 0
    """How many that were due in the last round may not be sent for now: they take no room from
    others."""
    _next_attempt: Callable[[], str] = Factory(request_id_generator)

    async def run(
        self, *, drain: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run rounds until `drain` is set; then give what is under way some time. What is cancelled
        is asked after."""
        async with trio.open_nursery() as conversations:
            task_status.started()
            while not drain.is_set():
                try:
                    await self._run_round(conversations)
                except Exception as error:
                    log_store_failure(logger, "reversal_scan_failed", error)
                with trio.move_on_after(self.scan_interval_s):
                    await drain.wait()

            conversations.cancel_scope.deadline = trio.current_time() + DRAIN_GRACE_S

    async def _run_round(self, conversations: trio.Nursery) -> None:
        """Begin to work at what is due and may be sent now, as far as there is room."""
        # Those that are worked at, and those that are held, stay due: the round reads beyond them.
        limit = CONVERSATIONS_MAX + len(self._active) + self._held
        due = await self.store.due_reversals(self.worker.moment().time, limit=limit)
        held = {
            reversal.id
            for reversal in due
            if reversal.state is ReversalState.APPROVED and not self._may_send(reversal.provider)
        }
        self._held = len(held)
        for reversal in due:
            if reversal.id in self._active or len(self._active) >= 2 * CONVERSATIONS_MAX:
                continue
            if reversal.id in held and not await self._may_try(reversal.provider):
                continue

            self._active.add(reversal.id)
            conversations.start_soon(self._handle, reversal)

    def _may_send(self, provider: str) -> bool:
        return not self.worker.is_closed(provider) and not self.is_held(provider)

    async def _may_try(self, provider: str) -> bool:
        return not self.worker.is_closed(provider) and await self.begin_trial(provider)

    async def _handle(self, due: Reversal) -> None:
        attempt = self._next_attempt()
        try:
            reply, began_at = await self.worker.record_input(
                lambda: reversals.ReversalWoke(due.id, attempt), tries_max=TRIES_IN_PLACE
            )
            if isinstance(reply, ReversalApplied):
                report = await self._converse(reply, reply.reversal.may_send(attempt), began_at)
                label = REVERSAL_LABELS[type(report)]
                self.reports[due.provider, label] += 1
                logger.info(
                    "reversal_reported", provider=due.provider, reversal=due.id, report=label
                )
                reply, _ = await self.worker.record_input(lambda: report, tries_max=TRIES_IN_PLACE)
                if isinstance(report, reversals.ReversalFailed):
                    self.note_reversal(report, reply)
        except Exception as error:
            logger.error("reversal_work_failed", reversal=due.id, fault=describe_fault(error))
            await trio.sleep(RETRY_DELAY_S)
        finally:
            self._active.discard(due.id)

    async def _converse(
        self, woken: ReversalApplied, is_to_be_sent: bool, began_at: float
    ) -> reversals.ReversalReport:
        """Send the reversal or ask after it, and return the report, whatever happens."""
        # 1. What cannot be sent or asked about at all. What was never sent has certainly failed; of
        #    what may have been sent nobody can tell.
        reversal = woken.reversal
        name = reversal.provider
        payment = with_reported_money(reversal, woken.transaction)
        about = ReversalReports(reversal, name)
        provider = self.worker.providers.get(name)
        operation = reversal_operation(provider, payment)
        is_changed = self.worker.is_account_changed(payment.order)
        if operation is None or not isinstance(provider, ReversesPayments) or is_changed:
            no_offer = "No account that is configured takes reversals of this payment."
            if is_to_be_sent:
                return about.failed(no_offer)
            return about.cannot_tell()

        if (
            is_to_be_sent
            and not operation.can_be_partial
            and reversal.amount != payment.progress.final
        ):
            return about.failed(
                f"The operator moves back all of a payment or nothing: {payment.progress.final}."
            )

        if not is_to_be_sent and not operation.can_be_polled:
            return about.cannot_tell()

        # 2. Send it, or ask after it. Each way ends in a report.
        begin = provider.poll_reversal
        if is_to_be_sent:
            begin = provider.reverse

        if is_to_be_sent:
            exchange = self.worker.exchange_for(name)
        else:
            exchange = self.worker.ask_for(name)

        deadline = began_at + CONVERSATION_TIMEOUT_S
        report: reversals.ReversalReport
        try:
            conversation = begin(reversal, payment, now=self.worker.moment())
            report = await drive_by_deadline(
                conversation, exchange, deadline, self.worker.counts[name]
            )
        except Exception as fault:
            logger.error("reversal_conversation_failed", provider=name, fault=describe_fault(fault))
            report = about.unreachable(f"A fault of ours: {type(fault).__name__}.")

        # 3. When to ask next, where the adapter leaves that to the table of its operations.
        report = with_version(report, reversal.version)
        if (
            isinstance(report, reversals.ReversalAccepted | reversals.ReversalUnreachable)
            and report.poll_after is None
        ):
            return evolve(report, poll_after=operation.poll_interval(reversal.polls))

        return report


def reversal_operation(provider: Provider | None, payment: Transaction) -> ReversalOperation | None:
    """Return how reversals of this payment behave; None where the provider takes none."""
    if not isinstance(provider, ReversesPayments):
        return None
    return provider.reversal_operations.get(operation_key(payment))

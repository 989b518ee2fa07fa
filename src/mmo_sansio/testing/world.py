"""Simulates a small world around one `Gateway`: a merchant, a provider and a clock that moves only
on request.

    world = World(FakeProvider(on_submit=(accepts,), on_poll=(succeeds,)))
    world.create()
    world.run()
    assert world.transaction().status is Status.SUCCESS

The simulation is bounded: it steps until nothing is left to do, jumps to the next wake, and raises
when that does not end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, assert_never

from attrs import Factory, define

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    EndedPollConcluded,
    Input,
    ProviderAccepted,
    ProviderFailed,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
    QrConcluded,
    WithheldReason,
)
from mmo_sansio.messages.intents import (
    DeliverCallback,
    DeliverQr,
    Intent,
    PollEnded,
    PollProvider,
    SubmitToProvider,
)
from mmo_sansio.messages.replies import Applied, Reply
from mmo_sansio.payments.answers import answers_ended_poll
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.providers.common.operations import resubmission_ends_at, with_version
from mmo_sansio.testing.builders import REFERENCE, START, a_create_payment
from mmo_sansio.values.clock import MINUTE, Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Stage, Transaction

# More steps than these without an end are a loop.
STEPS_MAX = 1_000

# How long a world waits before it submits a payment again that the provider has never received.
RESUBMISSION_DELAY: Span = MINUTE

ProviderScript: TypeAlias = Callable[[Transaction], ProviderReport]
"""The provider's report about a payment."""


class DidNotSettle(AssertionError):
    """Raised when the world did not settle within STEPS_MAX steps."""


def accepts(transaction: Transaction) -> ProviderReport:
    """Report that the provider has the request, and has not decided."""
    return ProviderAccepted(transaction.reference, transaction.order.provider, Source.POLL)


def succeeds(transaction: Transaction) -> ProviderReport:
    """Report that the provider moved the money."""
    return ProviderSucceeded(
        transaction.reference, transaction.order.provider, Source.POLL, "PROV-1"
    )


def fails(transaction: Transaction) -> ProviderReport:
    """Report that the payer lacks the money."""
    return ProviderFailed(
        transaction.reference,
        transaction.order.provider,
        Source.POLL,
        ErrorCode.USER_INSUFFICIENT_FUNDS,
    )


def does_not_answer(transaction: Transaction) -> ProviderReport:
    """Report that no response comes back."""
    return ProviderUnreachable(transaction.reference, transaction.order.provider, "No answer.")


def never_receives(transaction: Transaction) -> ProviderReport:
    """Report the certainty that nothing was received."""
    return ProviderNeverReceived(
        transaction.reference, transaction.order.provider, transaction.progress.version
    )


@define
class FakeProvider:
    """Answers from two lists; the last answer of a list is repeated."""

    on_submit: Sequence[ProviderScript] = (accepts,)
    on_poll: Sequence[ProviderScript] = (accepts,)
    submissions: list[str] = Factory(list)
    """The references that were submitted, in order."""
    polls: list[tuple[Instant, str]] = Factory(list)
    """The time and the reference of each poll."""

    def submit(self, transaction: Transaction) -> ProviderReport:
        """Return the report on a submission."""
        self.submissions.append(transaction.reference)
        # The last answer repeats, so that a short script lasts for any number of questions.
        script = self.on_submit[min(len(self.submissions), len(self.on_submit)) - 1]
        return with_version(script(transaction), transaction.progress.version)

    def poll(self, transaction: Transaction, *, now: Instant) -> ProviderReport:
        """Return the report on a poll."""
        self.polls.append((now, transaction.reference))
        script = self.on_poll[min(len(self.polls), len(self.on_poll)) - 1]
        return with_version(script(transaction), transaction.progress.version)


@define
class World:
    """Holds one gateway, its merchant, its provider, and the time."""

    provider: FakeProvider = Factory(FakeProvider)
    callback_outcome: DeliveryOutcome = DeliveryOutcome.DELIVERED
    """The outcome of every callback."""
    now: Instant = START
    """The gateway's own time."""
    utc_offset: Span = Span(0)
    """How far wall time is ahead of it."""
    gateway: Gateway = Factory(Gateway)
    callbacks: list[Transaction] = Factory(list)
    """The transactions that the merchant was called back about, in order."""
    _pending_intents: list[Intent] = Factory(list)

    def create(self, gateway_reference: str = REFERENCE, **members: Any) -> Reply:
        """Request a payment; nothing is done about it yet."""
        return self.receive(a_create_payment(gateway_reference, **members))

    def receive(self, input_: Input) -> Reply:
        """Let this happen now; its intents wait for `settle`."""
        reply = self.gateway.receive(input_, now=self.now, utc=later(self.now, self.utc_offset))
        self._pending_intents.extend(self.gateway.take_intents())
        return reply

    def with_history(self, *inputs: Input) -> World:
        """Let these happen one microsecond apart, without carrying out their intents, and return
        the world."""
        for item in inputs:
            self.receive(item)
            self._pending_intents.clear()
            self.now = later(self.now, Span(1))
        return self

    def transaction(self, gateway_reference: str = REFERENCE) -> Transaction:
        """Return the payment as it is now."""
        return self.gateway.transaction(gateway_reference)

    def crash(self) -> None:
        """Forget everything that is not durable, and start again with the durable intents."""
        # Polls are lost: they are asked again by `wake_at`.
        self._pending_intents = list(self.gateway.ledger.intents.values())

    def step(self) -> bool:
        """Take the next action; return False when there is none."""
        if not self._pending_intents:
            return False

        # In the order in which they were requested, one at a time: no two actions overlap.
        match self._pending_intents.pop(0):
            case SubmitToProvider(gateway_reference):
                self._submit(gateway_reference)
            case PollProvider(gateway_reference):
                self.receive(self.provider.poll(self.transaction(gateway_reference), now=self.now))
            case PollEnded(gateway_reference, hint=hint, provider_reference=known):
                report = self.provider.poll(self.transaction(gateway_reference), now=self.now)
                self.receive(report)
                # As a worker does: a question without a result stays open.
                if answers_ended_poll(report, hint):
                    concluded = EndedPollConcluded(
                        gateway_reference, hint=hint, provider_reference=known
                    )
                    self.receive(concluded)
            case DeliverCallback(gateway_reference):
                self._deliver(self.transaction(gateway_reference))
            case DeliverQr(gateway_reference):
                url = self.transaction(gateway_reference).order.display_qr_url or ""
                self.receive(
                    QrConcluded(gateway_reference, DeliveryAttempt(self.callback_outcome, url))
                )
            case other:
                assert_never(other)

        return True

    def settle(self) -> None:
        """Step until there is nothing to do; no time passes. Raises DidNotSettle when that does not
        end."""
        for _ in range(STEPS_MAX):
            if not self.step():
                return
        raise DidNotSettle(
            f"{len(self._pending_intents)} intents are left, the next is {self._pending_intents[0]}"
        )

    def advance(self, span: Span) -> None:
        """Let this much time pass, with a stop at every wake."""
        until = later(self.now, span)
        self.settle()
        for _ in range(STEPS_MAX):
            at = self.gateway.next_wake()
            # Each stop at its own time, as a scheduler would wake it, and not all at the end.
            if at is None or at > until:
                self.now = until
                return
            self._wake(at)
        raise DidNotSettle(f"{STEPS_MAX} wakes before {until}")

    def run(self) -> None:
        """Let time pass until every payment has ended. Raises DidNotSettle when that does not
        happen."""
        self.settle()
        for _ in range(STEPS_MAX):
            at = self.gateway.next_wake()
            if at is None:
                return
            self._wake(at)
        raise DidNotSettle("Some payment is pending still.")

    def _wake(self, at: Instant) -> None:
        # A submission may have taken the time beyond a wake that was planned.
        self.now = max(self.now, at)
        self.gateway.wake(now=self.now, utc=later(self.now, self.utc_offset))
        self._pending_intents.extend(self.gateway.take_intents())
        self.settle()

    def _submit(self, gateway_reference: str) -> None:
        transaction = self.transaction(gateway_reference)
        # A second submission waits, as a worker does before it sends again.
        if transaction.progress.submitted_at is not None:
            self.now = later(self.now, RESUBMISSION_DELAY)
        is_too_late = self.now >= resubmission_ends_at(transaction.order)
        reply = self.receive(
            BeginSubmission(gateway_reference, WithheldReason.TOO_LATE if is_too_late else None)
        )
        # Anything else forbids to send: the payment has moved on.
        if isinstance(reply, Applied) and reply.transaction.progress.stage is Stage.SUBMITTING:
            self.receive(self.provider.submit(reply.transaction))

    def _deliver(self, transaction: Transaction) -> None:
        self.callbacks.append(transaction)
        url = transaction.order.result_url or ""
        attempt = DeliveryAttempt(self.callback_outcome, url)
        self.receive(CallbackConcluded(transaction.reference, attempt))

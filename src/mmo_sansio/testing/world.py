"""A small world: a merchant, a provider and a clock that moves only when it is told to, around one `Gateway`.

    world = World(Provider(on_submit=(accepts,), on_ask=(succeeds,)))
    world.create()
    world.run()
    assert world.transaction().status is Status.SUCCESS

The drive is bounded: it steps until nothing is left to do, jumps to the next wake, and gives up loudly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, assert_never

from attrs import Factory, define

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    Input,
    ProviderAccepted,
    ProviderFailed,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
    QrConcluded,
)
from mmo_sansio.messages.intents import (
    DeliverCallback,
    DeliverQr,
    Intent,
    PollProvider,
    SubmitToProvider,
)
from mmo_sansio.messages.replies import Applied, Reply
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.testing.builders import REFERENCE, START, a_create_payment
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Stage, Transaction

STEPS_MAX = 1_000
"""So many steps without coming to rest are a loop."""

ProviderScript: TypeAlias = Callable[[Transaction], ProviderReport]
"""What a provider answers about a payment."""


class DidNotSettle(AssertionError):
    """The world did not come to rest within STEPS_MAX steps."""


def accepts(transaction: Transaction) -> ProviderReport:
    """It has the request, and has not decided."""
    return ProviderAccepted(transaction.reference, transaction.order.provider, Source.POLL)


def succeeds(transaction: Transaction) -> ProviderReport:
    """It moved the money."""
    return ProviderSucceeded(
        transaction.reference, transaction.order.provider, Source.POLL, "PROV-1"
    )


def fails(transaction: Transaction) -> ProviderReport:
    """The payer lacks the money."""
    return ProviderFailed(
        transaction.reference,
        transaction.order.provider,
        Source.POLL,
        ErrorCode.USER_INSUFFICIENT_FUNDS,
    )


def does_not_answer(transaction: Transaction) -> ProviderReport:
    """No answer comes back."""
    return ProviderUnreachable(transaction.reference, transaction.order.provider, "No answer.")


def never_receives(transaction: Transaction) -> ProviderReport:
    """It is certain that nothing reached it."""
    return ProviderNeverReceived(
        transaction.reference, transaction.order.provider, transaction.progress.version
    )


@define
class FakeProvider:
    """A provider that answers from two lists; the last answer of a list is given again for ever."""

    on_submit: Sequence[ProviderScript] = (accepts,)
    on_poll: Sequence[ProviderScript] = (accepts,)
    submissions: list[str] = Factory(list)
    """The references that were sent to it, in order."""
    polls: list[tuple[Instant, str]] = Factory(list)
    """When it was asked, and about what."""

    def submit(self, transaction: Transaction) -> ProviderReport:
        """What it answers to a submission."""
        self.submissions.append(transaction.reference)
        script = self.on_submit[min(len(self.submissions), len(self.on_submit)) - 1]
        return script(transaction)

    def poll(self, transaction: Transaction, *, now: Instant) -> ProviderReport:
        """What it answers to a question."""
        self.polls.append((now, transaction.reference))
        script = self.on_poll[min(len(self.polls), len(self.on_poll)) - 1]
        return script(transaction)


@define
class World:
    """One gateway, whoever is around it, and the time."""

    provider: FakeProvider = Factory(FakeProvider)
    callback_outcome: DeliveryOutcome = DeliveryOutcome.DELIVERED
    """What becomes of every callback."""
    now: Instant = START
    gateway: Gateway = Factory(Gateway)
    callbacks: list[Transaction] = Factory(list)
    """What the merchant was told, in order."""
    _pending_intents: list[Intent] = Factory(list)

    def create(self, gateway_reference: str = REFERENCE, **members: Any) -> Reply:
        """The merchant asks for a payment; nothing is done about it yet."""
        return self.receive(a_create_payment(gateway_reference, **members))

    def receive(self, input_: Input) -> Reply:
        """Let this happen now; what is to be done about it waits for `settle`."""
        reply = self.gateway.receive(input_, now=self.now)
        self._pending_intents.extend(self.gateway.take_intents())
        return reply

    def with_history(self, *inputs: Input) -> World:
        """Let these happen one microsecond apart, with nobody doing what they ask for. Returns the world."""
        for each in inputs:
            self.receive(each)
            self._pending_intents.clear()
            self.now = later(self.now, Span(1))
        return self

    def transaction(self, gateway_reference: str = REFERENCE) -> Transaction:
        """The payment as it is now."""
        return self.gateway.transaction(gateway_reference)

    def crash(self) -> None:
        """Forget everything that isn't durable, and start again with the intents that are kept."""
        self._pending_intents = list(self.gateway.ledger.intents.values())

    def step(self) -> bool:
        """Do the next thing that is to be done; False when there is nothing."""
        if not self._pending_intents:
            return False
        match self._pending_intents.pop(0):
            case SubmitToProvider(gateway_reference):
                self._submit(gateway_reference)
            case PollProvider(gateway_reference):
                self.receive(self.provider.poll(self.transaction(gateway_reference), now=self.now))
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
        """Step until nothing is to be done; no time passes. Raises Restless when that doesn't end."""
        for _ in range(STEPS_MAX):
            if not self.step():
                return
        raise DidNotSettle(
            f"{len(self._pending_intents)} intents are left, the next is {self._pending_intents[0]}"
        )

    def advance(self, span: Span) -> None:
        """Let this much time pass, stopping at every wake on the way."""
        until = later(self.now, span)
        self.settle()
        for _ in range(STEPS_MAX):
            at = self.gateway.next_wake()
            if at is None or at > until:
                self.now = until
                return
            self._wake(at)
        raise DidNotSettle(f"{STEPS_MAX} wakes before {until}")

    def run(self) -> None:
        """Let time pass until every payment has ended. Raises Restless when that doesn't happen."""
        self.settle()
        for _ in range(STEPS_MAX):
            at = self.gateway.next_wake()
            if at is None:
                return
            self._wake(at)
        raise DidNotSettle("Some payment is pending still.")

    def _wake(self, at: Instant) -> None:
        self.now = max(self.now, at)
        self.gateway.wake(now=self.now)
        self._pending_intents.extend(self.gateway.take_intents())
        self.settle()

    def _submit(self, gateway_reference: str) -> None:
        reply = self.receive(BeginSubmission(gateway_reference))
        if isinstance(reply, Applied) and reply.transaction.progress.stage is Stage.SUBMITTING:
            self.receive(self.provider.submit(reply.transaction))

    def _deliver(self, transaction: Transaction) -> None:
        self.callbacks.append(transaction)
        url = transaction.order.result_url or ""
        attempt = DeliveryAttempt(self.callback_outcome, url)
        self.receive(CallbackConcluded(transaction.reference, attempt))

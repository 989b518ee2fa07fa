"""A payout whose response is lost, driven by hand without network, database or real clock.

    python examples/drive_without_io.py

The core decides; this script is the worker, the operator that moves the money and loses its
responses, and the clock.
"""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from mmo_sansio import (
    SECOND,
    Accepted,
    Applied,
    BeginSubmission,
    Brand,
    CallbackConcluded,
    CreatePayment,
    DeliverCallback,
    DeliverQr,
    DeliveryAttempt,
    DeliveryOutcome,
    Draft,
    Gateway,
    Instant,
    Intent,
    Limits,
    Method,
    Money,
    Operation,
    Party,
    PollEnded,
    PollProvider,
    ProviderSucceeded,
    ProviderUnreachable,
    Source,
    SubmitToProvider,
    format_with_seconds,
)

START = Instant(1_767_225_600 * SECOND)  # 2026-01-01T00:00:00Z
REFERENCE = "01KDVN4D00DR1VEW1TH0VT10AA"

METHOD = Method(
    key="mpesa_ke",
    provider="paper",
    provider_title="An operator made of paper",
    country="KE",
    operations=frozenset({Operation.DIRECT_PAYOUT}),
    limits={"KES": Limits(Money(1_000, "KES"), Money(15_000_000, "KES"))},
)
BRAND = Brand(id="acme", name="Acme Ltd", methods=(METHOD,))
DRAFT = Draft(
    operation=Operation.DIRECT_PAYOUT,
    method="mpesa_ke",
    amount=Decimal("2500.00"),
    currency="KES",
    country="KE",
    result_url="https://merchant.example/results",
    merchant_reference="salary-42",
    party=Party(id="employee-42", msisdn="254700000042"),
)


class PaperOperator:
    """Pays at once, but its first responses never arrive."""

    def __init__(self, responses_lost: int) -> None:
        self.responses_lost = responses_lost
        self.paid: list[str] = []

    def submit(self, reference: str) -> ProviderSucceeded | ProviderUnreachable:
        """Move the money, and respond unless the response is lost."""
        self.paid.append(reference)
        return self._respond(reference)

    def poll(self, reference: str) -> ProviderSucceeded | ProviderUnreachable:
        """Report the state of the payout."""
        return self._respond(reference)

    def _respond(self, reference: str) -> ProviderSucceeded | ProviderUnreachable:
        if self.responses_lost > 0:
            self.responses_lost -= 1
            return ProviderUnreachable(reference, METHOD.provider, "the connection broke")
        return ProviderSucceeded(
            reference, METHOD.provider, Source.POLL, "PAPER-1", fee=Money(2_500, "KES")
        )


def carry_out(gateway: Gateway, operator: PaperOperator, intent: Intent, *, now: Instant) -> None:
    """Carry out one intent, as a worker does."""
    match intent:
        case SubmitToProvider(reference):
            reply = gateway.receive(BeginSubmission(reference), now=now)
            if isinstance(reply, Applied):  # any other reply forbids it
                say(now, "the payout is sent to the operator")
                gateway.receive(operator.submit(reference), now=now)
        case PollProvider(reference):
            say(now, "the operator is polled")
            gateway.receive(operator.poll(reference), now=now)
        case DeliverCallback(reference):
            say(now, "the merchant gets the callback")
            attempt = DeliveryAttempt(DeliveryOutcome.DELIVERED, DRAFT.result_url, 200)
            gateway.receive(CallbackConcluded(reference, attempt), now=now)
        case DeliverQr() | PollEnded():
            raise AssertionError("this payout has no QR code, and ends with the operator's word")
        case _:
            assert_never(intent)


def say(now: Instant, event: str) -> None:
    """Print one line of the timeline."""
    print(f"{format_with_seconds(now)[11:19]}  {event}")


def main() -> None:
    """Create the payout, then carry out intents until none is left."""
    gateway, operator = Gateway(), PaperOperator(responses_lost=3)
    now: Instant | None = START
    reply = gateway.receive(CreatePayment(BRAND, REFERENCE, DRAFT), now=START)
    assert isinstance(reply, Accepted)
    say(START, f"accepted as {reply.order.gateway_reference}")
    while now is not None:
        gateway.wake(now=now)
        while intents := gateway.take_intents():
            for intent in intents:
                carry_out(gateway, operator, intent, now=now)
        now = gateway.next_wake()
    payment = gateway.transaction(REFERENCE)
    print(f"{payment.status}: {payment.progress.final}, paid {len(operator.paid)} time")
    for line in gateway.journal:
        move = f"{line.stage_before or ''} -> {line.stage_after}" if line.stage_after else ""
        print(f"  {line.actor:15} {line.input_name:20} {move}".rstrip())


if __name__ == "__main__":
    main()

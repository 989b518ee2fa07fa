"""A shop's test against the rules of the gateway, without a server: a payment that succeeds, and
one that expires."""

from decimal import Decimal  # noqa: I001

from mmo_sansio import (
    SECOND, Accepted, BeginSubmission, Brand, CreatePayment, DeliverCallback, Draft, ErrorCode,
    Gateway, Instant, Limits, Method, Money, Operation, Party, ProviderAccepted, ProviderSucceeded,
    Source, Status, later,
)  # fmt: skip

START = Instant(1_767_225_600 * SECOND)  # 2026-01-01T00:00:00Z
LIMITS = {"KES": Limits(Money(1_000, "KES"), Money(15_000_000, "KES"))}
MPESA = Method(
    "mpesa_ke",
    "paper",
    "An operator made of paper",
    "KE",
    frozenset({Operation.DIRECT_PAYIN}),
    LIMITS,
)
SHOP = Brand("shop", "Shop Ltd", (MPESA,))
REFERENCE = "01KDVN4D0000000000000000A1"


def created() -> Gateway:
    """Return a gateway with a payment that the operator has accepted."""
    gateway, party = Gateway(), Party("customer-7", "254700000007")
    url = "https://shop.example/results"
    draft = Draft(
        Operation.DIRECT_PAYIN,
        "mpesa_ke",
        Decimal("150.00"),
        "KES",
        "KE",
        url,
        "order-1",
        party=party,
    )
    assert isinstance(gateway.receive(CreatePayment(SHOP, REFERENCE, draft), now=START), Accepted)
    gateway.receive(BeginSubmission(REFERENCE), now=START)
    gateway.receive(ProviderAccepted(REFERENCE, "paper", Source.POLL), now=START)
    gateway.take_intents()
    return gateway


def test_a_payment_succeeds_and_its_callback_is_due() -> None:
    gateway = created()
    gateway.receive(ProviderSucceeded(REFERENCE, "paper", Source.WEBHOOK), now=later(START, SECOND))
    assert gateway.transaction(REFERENCE).status is Status.SUCCESS
    assert [type(each) for each in gateway.take_intents()] == [DeliverCallback]


def test_a_payment_without_a_result_expires() -> None:
    gateway = created()
    while (due := gateway.next_wake()) is not None:
        gateway.wake(now=due)
    assert gateway.transaction(REFERENCE).progress.error_code is ErrorCode.TRANSACTION_EXPIRED

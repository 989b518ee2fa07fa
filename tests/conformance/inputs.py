"""The inputs of the checks: payments of one brand, and random lists of everything that can
happen."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from random import Random

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages import inputs
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    Brand,
    DepositAnswerOutcome,
    DepositTrust,
    Evidence,
    Limits,
    Logo,
    Method,
    Operation,
    PageAppearance,
    Party,
    QrCode,
    ReferenceReuse,
    ReusePolicy,
    Source,
)
from mmo_sansio.values.money import Money
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl

PAYER = Party("customer-1", "254700000000", "Zoë", None, "zoe@example.com")
DELIVERED = DeliveryAttempt(
    DeliveryOutcome.DELIVERED, "https://merchant.example/results", 200, 12, "", b"\x00ok\xff"
)


def brand(id: str = "acme") -> Brand:
    """Return a brand with one method in two currencies."""
    method = Method(
        key="mobile_ke",
        provider="sandbox",
        provider_title="Sandbox",
        country="KE",
        operations=frozenset(Operation),
        limits={
            "KES": Limits(Money(1_000, "KES"), Money(15_000_000, "KES")),
            "UGX": Limits(Money(500, "UGX"), Money(5_000_000, "UGX")),
        },
    )
    return Brand(
        id,
        f"{id} Ltd",
        (method,),
        push_result_url=f"https://{id}.example/push",
        host=f"{id}.gateway.example",
        reference_reuse=ReusePolicy()
        if id == "globex"
        else ReusePolicy.same_for_all(ReferenceReuse.AFTER_WINDOW),
        redirect_schemes=frozenset({"acmeapp"}),
        result_hosts=(f"{id}.example", f"*.{id}.example", "merchant.example", "m.example"),
        appearance=PageAppearance()
        if id == "globex"
        else PageAppearance("#0a6b48", Logo("image/png", b"\x89PNG"), "order"),
    )


def reference(number: int) -> str:
    """Return the gatewayReference of this number."""
    return f"01JD{number:022d}"


def creation(
    number: int,
    *,
    merchant_reference: str | None = None,
    brand_id: str = "acme",
    operation: Operation = Operation.DIRECT_PAYIN,
    currency: str = "KES",
    labels: str = '{"shop":"Nairobi ☂","till":3}',
) -> inputs.CreatePayment:
    """Return a create request; its references come from its number."""
    return inputs.CreatePayment(
        brand=brand(brand_id),
        gateway_reference=reference(number),
        draft=inputs.Draft(
            operation=operation,
            method="mobile_ke",
            amount=Decimal(1500),
            currency=currency,
            country="KE",
            result_url="https://merchant.example/results",
            merchant_reference=merchant_reference or f"order/{number} ü",
            party=None if operation is Operation.DIRECT_TAXPAYOUT else PAYER,
            labels=labels,
            display_qr_url="https://m.example/qr" if operation is Operation.QR_PAYIN else None,
            success_redirect_url="acmeapp://done" if operation is Operation.WEB_PAYIN else None,
        ),
        page_token=f"token-{number}",
        api_key_id=f"{number % 3}" if number % 3 else None,
    )


def succeeded(number: int) -> inputs.ProviderSucceeded:
    """Return the input that the provider moved the money of this payment."""
    return inputs.ProviderSucceeded(
        reference(number),
        "sandbox",
        Source.WEBHOOK,
        f"P{number}",
        fee=Money(1_500, "KES"),
        party_data='{"name":"J*** D**"}',
    )


def failed(number: int) -> inputs.ProviderFailed:
    """Return the input that the provider did not move the money of this payment."""
    return inputs.ProviderFailed(
        reference(number), "sandbox", Source.WEBHOOK, ErrorCode.USER_CANCELLED
    )


def random_inputs(random: Random, count: int) -> Sequence[tuple[inputs.Input, Instant]]:
    """Return inputs about a few payments, with strictly increasing stamps: many are late, repeated
    or wrong."""
    now = Instant(1_700_000_000 * clock.SECOND)
    stamped: list[tuple[inputs.Input, Instant]] = []
    for number in range(count):
        pause = random.choice((1, clock.SECOND, clock.MINUTE, 20 * clock.MINUTE))
        now = later(now, Span(pause))
        if random.random() < 0.005:
            now = later(now, Span(4 * clock.DAY))
        stamped.append((_random_input(random, number), now))
    return stamped


def _random_input(random: Random, number: int) -> inputs.Input:
    if number < 8 or random.random() < 0.2:
        return creation(
            number,
            merchant_reference=f"order-{random.randrange(12)}",
            brand_id=random.choice(("acme", "globex")),
            operation=random.choice(list(Operation)),
            currency=random.choice(("KES", "KES", "UGX", "EUR")),
        )
    if random.random() < 0.15:
        return _random_notification(random, number)
    about = reference(random.randrange(number))
    provider = random.choice(("sandbox",) * 9 + ("other",))
    every: tuple[inputs.Input, ...] = (
        inputs.BeginSubmission(about),
        inputs.BeginSubmission(about),
        inputs.ConfirmPage(about),
        inputs.ConfirmPage(about, random.choice((None, "123456"))),
        inputs.PayerReturned(about),
        inputs.ProviderAccepted(
            about,
            provider,
            Source.POLL,
            f"P{about[-2:]}",
            qr=QrCode("text", "cGlj"),
            payer_action=random.choice((None, None, OpenUrl("https://pay.example/1"), EnterCode())),
        ),
        inputs.ProviderSucceeded(
            about, provider, random.choice(list(Source)), fee=Money(15, "KES")
        ),
        inputs.ProviderFailed(
            about, provider, Source.WEBHOOK, random.choice(list(ErrorCode)), None, "17"
        ),
        inputs.ProviderUnreachable(
            about, provider, "no answer", denies_payment=random.random() < 0.5
        ),
        inputs.ProviderNeverReceived(
            about, provider, random.randrange(1, 6), random.choice((None, EnterCode()))
        ),
        inputs.ProviderCannotTell(about, provider, random.choice((2, 3, 4))),
        inputs.ProviderHinted(
            about, provider, "?", evidence=random.choice((None, Evidence("RECEIPT1", "0")))
        ),
        inputs.ResolveManually(
            about, provider, "ada", "statement", random.choice((None, ErrorCode.USER_CANCELLED))
        ),
        inputs.CorrectTimes(about, "ada"),
        inputs.MarkRestored(about, "ada"),
        inputs.TransactionWoke(about),
        inputs.CallbackConcluded(about, DELIVERED),
        inputs.CallbackConcluded(
            about, DeliveryAttempt(DeliveryOutcome.BREAKER_OPEN, "https://m.example/")
        ),
        inputs.QrConcluded(about, DELIVERED),
        inputs.EndedPollConcluded(about),
    )
    return random.choice(every)


def _random_notification(random: Random, number: int) -> inputs.Input:
    if random.random() < 0.2:
        return inputs.UnmatchedNotified("sandbox", f"What? {random.randrange(3)}")
    if random.random() < 0.5:
        return _random_claim_input(random, number)
    return inputs.DepositNotified(
        provider="sandbox",
        provider_reference=f"D{random.randrange(5)}",
        provider_title="Sandbox",
        gateway_reference=reference(number),
        brand=random.choice((brand("acme"), brand("globex"), None)),
        method="mobile_ke",
        amount=Money(random.choice((1_000, 2_000)), random.choice(("KES", "KES", "EUR"))),
        party=PAYER,
    )


def _random_claim_input(random: Random, number: int) -> inputs.Input:
    """Return an input about one of a few claims, each of which always names the same payment, or
    none."""
    nth = random.randrange(6)
    receipt, payment = f"C{nth} ü", reference(nth) if nth % 2 else None
    match random.randrange(4):
        case 0:
            return inputs.DepositClaimWoke("sandbox", receipt, payment)
        case 1:
            outcome = random.choice(list(DepositAnswerOutcome))
            amount = Money(random.choice((150_000, 2_000)), "KES")
            owner = brand("acme") if payment is None else None
            return inputs.DepositAnswered(
                "sandbox",
                receipt,
                outcome,
                True,
                amount,
                payment=payment,
                brand=owner,
                method="mobile_ke",
            )
        case _:
            return claimed(
                receipt, number, payment=payment, trust=random.choice(list(DepositTrust))
            )


def claimed(
    receipt: str,
    number: int,
    *,
    payment: str | None = None,
    trust: DepositTrust = DepositTrust.UNCONFIRMED,
) -> inputs.DepositNotified:
    """Return the unsigned report of a deposit of KES 1,500."""
    return inputs.DepositNotified(
        provider="sandbox",
        provider_reference=receipt,
        provider_title="Sandbox",
        gateway_reference=reference(number),
        brand=brand("acme") if payment is None else None,
        method="mobile_ke",
        amount=Money(150_000, "KES"),
        party=PAYER,
        trust=trust,
        account="600966",
        bill_reference="SHOP ü",
        payment=payment,
    )

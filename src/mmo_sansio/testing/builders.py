"""Builds valid values, each with any field replaced by name, so that a test names only its
subject."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from attrs import evolve

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.changes import DepositRecorded
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    ConfirmPage,
    CreatePayment,
    DepositNotified,
    Draft,
    PayerReturned,
    ProviderAccepted,
    ProviderCannotTell,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderSucceeded,
    ProviderUnreachable,
    ResolveManually,
    StopPayment,
    TransactionWoke,
)
from mmo_sansio.messages.intents import DeliverCallback, DurableIntent, SubmitToProvider
from mmo_sansio.payments.ledger import Ledger, ReferenceUse
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import (
    Brand,
    Flow,
    Limits,
    Method,
    Operation,
    Order,
    Page,
    Party,
    Progress,
    ProviderData,
    Source,
    Stage,
    Terms,
    Transaction,
)
from mmo_sansio.values.money import Money
from mmo_sansio.values.payer_actions import EnterCode

START = Instant(1_790_000_000 * clock.SECOND)
"""The time at which tests begin: a second in September 2026."""

REFERENCE = "01K5TESTTESTTESTTESTTEST00"
"""The gatewayReference of the payment that a test is about."""

UNUSED_REFERENCE = "01K5TESTTESTTESTTESTTEST0Z"
"""A gatewayReference that no builder uses."""

PROVIDER_TITLE = "Test Money"
"""The display name of the provider `test`."""

# Crockford's Base32: no I, L, O or U.
_ULID_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def KES(value: str | int) -> Money:  # It reads as the currency that it is.
    """Return an amount of Kenyan shillings: `KES("150.00")`."""
    return Money(int(Decimal(value) * 100), "KES")


def numbered_reference(number: int) -> str:
    """Return the gatewayReference with this number: distinct for distinct numbers, a ULID in
    form."""
    return "01K5TESTTESTTEST00" + ulid_digits(number)


def ulid_digits(number: int, count: int = 8) -> str:
    """Return a number as this many characters of a ULID."""
    digits = ""
    for _ in range(count):
        # The last digit first, each put before the others.
        number, digit = divmod(number, 32)
        digits = _ULID_ALPHABET[digit] + digits
    return digits


def a_party(**members: Any) -> Party:
    """Build a payer."""
    return Party(**{"id": "customer-1", "msisdn": "+254700000200", **members})


def a_method(**members: Any) -> Method:
    """Build a method for every operation in Kenya, from KES 10 to KES 150000."""
    limits = {"KES": Limits(KES(10), KES(150_000))}
    method = Method("test_ke", "test", PROVIDER_TITLE, "KE", frozenset(Operation), limits)
    return evolve(method, **members)


def a_brand(**members: Any) -> Brand:
    """Build a merchant with one method, and a URL for results of deposits."""
    url = "https://acme.example/push"
    return evolve(Brand("acme", "Acme Ltd", (a_method(),), push_result_url=url), **members)


def a_draft(**members: Any) -> Draft:
    """Build a direct pay-in of KES 150."""
    standard: dict[str, Any] = {
        "operation": Operation.DIRECT_PAYIN,
        "method": "test_ke",
        "amount": Decimal("150.00"),
        "currency": "KES",
        "country": "KE",
        "result_url": "https://acme.example/result",
        "merchant_reference": "order-1",
        "party": a_party(),
    }
    return Draft(**{**standard, **members})


def a_create_payment(
    gateway_reference: str = REFERENCE,
    *,
    brand: Brand | None = None,
    terms: Terms | None = None,
    page_token: str = "page-token",
    **draft: Any,
) -> CreatePayment:
    """Build a merchant's request for a payment; further fields are those of its draft."""
    return CreatePayment(
        brand or a_brand(), gateway_reference, a_draft(**draft), page_token, terms or Terms()
    )


def a_begin_submission(gateway_reference: str = REFERENCE) -> BeginSubmission:
    """Build the report that a worker is about to send the payment."""
    return BeginSubmission(gateway_reference)


def a_stop(gateway_reference: str = REFERENCE) -> StopPayment:
    """Build the stop of a payment whose brand is on hold."""
    return StopPayment(gateway_reference, user="amina")


def a_confirmation(gateway_reference: str = REFERENCE, *, code: str | None = None) -> ConfirmPage:
    """Build the payer's press of the button."""
    return ConfirmPage(gateway_reference, code)


def a_return(gateway_reference: str = REFERENCE) -> PayerReturned:
    """Build the return of a browser from the operator's page."""
    return PayerReturned(gateway_reference)


def a_wake(gateway_reference: str = REFERENCE) -> TransactionWoke:
    """Build the input that the payment may be due."""
    return TransactionWoke(gateway_reference)


def a_resolution(gateway_reference: str = REFERENCE, **members: Any) -> ResolveManually:
    """Build a success by hand; with an `error_code`, a failure."""
    reason = "The provider's statement of today shows it."
    return evolve(
        ResolveManually(gateway_reference, "test", user="amina", reason=reason), **members
    )


def accepted(gateway_reference: str = REFERENCE, **members: Any) -> ProviderAccepted:
    """Build the provider's acceptance."""
    return evolve(ProviderAccepted(gateway_reference, "test", Source.POLL), **members)


def succeeded(gateway_reference: str = REFERENCE, **members: Any) -> ProviderSucceeded:
    """Build the provider's notification of a success."""
    return evolve(ProviderSucceeded(gateway_reference, "test", Source.WEBHOOK), **members)


def failed(gateway_reference: str = REFERENCE, **members: Any) -> ProviderFailed:
    """Build the provider's notification of a failure."""
    standard = {
        "provider": "test",
        "source": Source.WEBHOOK,
        "error_code": ErrorCode.USER_CANCELLED,
        "native_code": "1032",
        "native_message": "Request cancelled by user",
    }
    return ProviderFailed(gateway_reference, **{**standard, **members})


def unreachable(gateway_reference: str = REFERENCE, **members: Any) -> ProviderUnreachable:
    """Build a report without a usable response."""
    report = ProviderUnreachable(gateway_reference, "test", "The connection was reset.")
    return evolve(report, **members)


def never_received(
    gateway_reference: str = REFERENCE,
    *,
    provider: str = "test",
    version: int = 2,
    payer_action: EnterCode | None = None,
) -> ProviderNeverReceived:
    """Build the provider's certainty that it never received the payment; by default, the first
    submission of a direct payment."""
    return ProviderNeverReceived(gateway_reference, provider, version, payer_action)


def cannot_tell(
    gateway_reference: str = REFERENCE, *, provider: str = "test", version: int = 2
) -> ProviderCannotTell:
    """Build the report that the provider cannot be polled; by default, about the first submission
    of a direct payment."""
    return ProviderCannotTell(gateway_reference, provider, version)


def hinted(gateway_reference: str = REFERENCE, **members: Any) -> ProviderHinted:
    """Build an unsigned notification in the name of the provider `test`."""
    return evolve(ProviderHinted(gateway_reference, "test"), **members)


def a_deposit(**members: Any) -> DepositNotified:
    """Build a deposit of KES 75 through the provider's own channel."""
    standard: dict[str, Any] = {
        "provider": "test",
        "provider_reference": "DEP-1",
        "provider_title": PROVIDER_TITLE,
        "gateway_reference": REFERENCE,
        "brand": a_brand(),
        "method": "test_ke",
        "amount": KES(75),
        "party": a_party(id="account-7"),
    }
    return DepositNotified(**{**standard, **members})


def an_attempt(
    outcome: DeliveryOutcome = DeliveryOutcome.DELIVERED, **members: Any
) -> DeliveryAttempt:
    """Build an attempt to deliver a callback."""
    status = None
    if outcome is DeliveryOutcome.DELIVERED:
        status = 200

    return evolve(DeliveryAttempt(outcome, "https://acme.example/result", status), **members)


def callback_concluded(
    gateway_reference: str = REFERENCE, outcome: DeliveryOutcome = DeliveryOutcome.DELIVERED
) -> CallbackConcluded:
    """Build the end of the callback's one attempt."""
    return CallbackConcluded(gateway_reference, an_attempt(outcome))


def a_transaction(stage: Stage = Stage.CREATED, **members: Any) -> Transaction:
    """Build a payment in this stage, as the payment rules would have brought it there; fields of
    its order or progress are given by name.

    One that awaits its customer is a web pay-in whose page closes after 30 minutes.
    """
    # Both records have attributes of their own, with no name in common.
    progress_names = {attrs_attr.name for attrs_attr in Progress.__attrs_attrs__}
    progress = {name: value for name, value in members.items() if name in progress_names}
    order = {name: value for name, value in members.items() if name not in progress_names}
    return Transaction(evolve(_an_order(stage), **order), evolve(_a_progress(stage), **progress))


def ledger_with(*transactions: Transaction) -> Ledger:
    """Build a ledger that holds these transactions, with their references, deposits and intents."""
    ledger = Ledger()
    for transaction in transactions:
        order, stage = transaction.order, transaction.progress.stage
        ledger.transactions[transaction.reference] = transaction
        # What the decisions that led here would have left: its reference, its deposit, its open
        # intent.
        if order.merchant_reference is not None:
            key = (order.brand, order.merchant_reference)
            ledger.references[key] = ReferenceUse(transaction.reference, order.created_at)

        if order.flow is Flow.PUSH:
            known = transaction.progress.provider_reference or ""
            deposit = DepositRecorded(order.provider, known, transaction.reference)
            ledger.apply((deposit,))

        intent: DurableIntent
        if stage is Stage.CREATED:
            intent = SubmitToProvider(transaction.reference)
        elif stage.is_terminal and order.result_url is not None:
            intent = DeliverCallback(transaction.reference)
        else:
            continue

        ledger.intents[transaction.reference, intent.kind] = intent

    return ledger


def _an_order(stage: Stage) -> Order:
    operation, page = Operation.DIRECT_PAYIN, None
    # Only a web pay-in waits for its customer.
    if stage is Stage.AWAITING_CUSTOMER:
        operation = Operation.WEB_PAYIN
        page = Page("page-token", later(START, Span(30 * clock.MINUTE)))

    return Order(
        gateway_reference=REFERENCE,
        brand="acme",
        type=operation.type,
        flow=operation.flow,
        method="test_ke",
        country="KE",
        provider="test",
        provider_title=PROVIDER_TITLE,
        requested=KES(150),
        party=a_party(),
        merchant_reference="order-1",
        reconciliation_reference="order-1",
        labels=None,
        result_url="https://acme.example/result",
        created_at=START,
        expires_at=later(START, Span(3 * clock.DAY)),
        page=page,
    )


def _a_progress(stage: Stage) -> Progress:
    expires_at = later(START, Span(3 * clock.DAY))
    data = ProviderData("test", PROVIDER_TITLE)
    match stage:
        case Stage.CREATED:
            return Progress(stage, 1, expires_at)
        case Stage.AWAITING_CUSTOMER:
            return Progress(stage, 1, later(START, Span(30 * clock.MINUTE)))
        # Created, submitted at once, and for the second accepted: versions 1, 2 and 3.
        case Stage.SUBMITTING | Stage.AWAITING_RESULT:
            version, wait_s = (2, 30) if stage is Stage.SUBMITTING else (3, 2)
            wake_at = later(START, Span(wait_s * clock.SECOND))
            return Progress(
                stage,
                version,
                wake_at,
                provider_data=data,
                submitted_at=START,
                sent_version=2,
            )
        case Stage.SUCCEEDED | Stage.FAILED:
            progress = Progress(
                stage,
                4,
                None,
                provider_data=data,
                completed_at=later(START, clock.SECOND),
                completion_source=Source.WEBHOOK,
            )
            if stage is Stage.SUCCEEDED:
                return evolve(progress, final=KES(150))
            code = ErrorCode.USER_CANCELLED
            return evolve(progress, error_code=code, error_message=EXPLANATIONS[code].meaning)

"""May this brand have this payment? The business half of creation, in the order of C9 (clauses C6 to C14)."""

from __future__ import annotations

from attrs import frozen

from mmo_sansio.messages.changes import ReferenceConsumed, TransactionCreated
from mmo_sansio.messages.inputs import CreatePayment, Draft
from mmo_sansio.messages.intents import SubmitToProvider
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.payments.decision import Decision, refused
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values import problems
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import (
    Brand,
    Method,
    Operation,
    Order,
    Page,
    Party,
    Progress,
    ReferenceReuse,
    Stage,
    Terms,
    Transaction,
)
from mmo_sansio.values.money import AmountError, Money, money
from mmo_sansio.values.problems import FieldFault, Problem


def create(ledger: Ledger, given: CreatePayment, *, now: Instant) -> Decision:
    """Take the payment, or refuse it with the first cause that applies. A refusal consumes nothing (C12)."""
    match _offer(given.brand, given.draft):
        case Problem() as problem:
            return refused(problem)
        case offer:
            pass
    if _is_consumed(ledger, given, now=now):
        return refused(_duplicate(given.draft.merchant_reference))
    transaction = _begin(_order(given, offer, now=now))
    used = ReferenceConsumed(
        given.brand.id, given.draft.merchant_reference, given.gateway_reference, now
    )
    intents = (SubmitToProvider(given.gateway_reference),) if transaction.order.page is None else ()
    return Decision(Accepted(transaction.order), (used, TransactionCreated(transaction)), intents)


@frozen
class _Offer:
    """What the brand's configuration makes of a draft."""

    method: Method
    amount: Money


def _offer(brand: Brand, draft: Draft) -> _Offer | Problem:
    """Method, country, currency, decimals, minimum, maximum: one condition, one answer, next line (C9)."""
    operation = draft.operation
    methods = [
        each for each in brand.methods if each.key == draft.method and operation in each.operations
    ]
    if not methods:
        return problems.UNSUPPORTED_METHOD.problem(
            f"The method '{draft.method}' is not configured for {operation} of this brand."
        )
    method = next((each for each in methods if each.country == draft.country), None)
    if method is None:
        return problems.UNSUPPORTED_COUNTRY.problem(
            f"The country '{draft.country}' is not configured for the method '{draft.method}'."
        )
    limits = method.limits.get(draft.currency)
    if limits is None:
        return problems.UNSUPPORTED_CURRENCY.problem(
            f"The currency '{draft.currency}' is not configured for the method '{draft.method}'."
        )
    try:
        amount = money(draft.amount, draft.currency)
    except AmountError as error:
        return problems.fields_refused([FieldFault("amount.value", f"'amount.value' {error}.")])
    if amount.minor < limits.minimum.minor:
        return problems.BELOW_MINIMUM.problem(
            f"The amount {amount} is below the minimum of {limits.minimum}."
        )
    if amount.minor > limits.maximum.minor:
        return problems.ABOVE_MAXIMUM.problem(
            f"The amount {amount} is above the maximum of {limits.maximum}."
        )
    return _Offer(method, amount)


def _is_consumed(ledger: Ledger, given: CreatePayment, *, now: Instant) -> bool:
    used = ledger.reference_use(given.brand.id, given.draft.merchant_reference)
    if used is None:
        return False
    if given.brand.reference_reuse is ReferenceReuse.NEVER:
        return True
    return now - used.at < given.terms.idempotency_window


def _duplicate(merchant_reference: str) -> Problem:
    return problems.DUPLICATE_REFERENCE.problem(
        f"The merchantReference '{merchant_reference}' was used before."
        " Look the payment up by it, or send a new reference."
    )


def _order(given: CreatePayment, offer: _Offer, *, now: Instant) -> Order:
    draft, method, terms = given.draft, offer.method, given.terms
    return Order(
        gateway_reference=given.gateway_reference,
        brand=given.brand.id,
        type=draft.operation.type,
        flow=draft.operation.flow,
        method=method.key,
        country=method.country,
        provider=method.provider,
        provider_title=method.provider_title,
        requested=offer.amount,
        party=draft.party or _tax_authority(method),
        merchant_reference=draft.merchant_reference,
        reconciliation_reference=draft.reconciliation_reference or draft.merchant_reference,
        labels=draft.labels,
        result_url=draft.result_url,
        created_at=now,
        expires_at=now + terms.pending_timeout,
        display_qr_url=draft.display_qr_url,
        page=_page(given, terms, now=now) if draft.operation is Operation.WEB_PAYIN else None,
        scenario=draft.scenario,
    )


def _tax_authority(method: Method) -> Party:
    """Whom a tax payout pays: implied by method and country (M5)."""
    return Party(method.tax_authority_id or method.key, method.tax_authority_account)


def _page(given: CreatePayment, terms: Terms, *, now: Instant) -> Page:
    session = terms.pending_timeout if terms.page_session is None else terms.page_session
    return Page(
        given.page_token,
        now + min(session, terms.pending_timeout),
        given.draft.success_redirect_url,
        given.draft.error_redirect_url,
    )


def _begin(order: Order) -> Transaction:
    """A web payment waits for its payer until the page closes; any other wants to be submitted (W1)."""
    if order.page is None:
        return Transaction(order, Progress(Stage.CREATED, 1, order.expires_at))
    return Transaction(order, Progress(Stage.AWAITING_CUSTOMER, 1, order.page.closes_at))

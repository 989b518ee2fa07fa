"""Decides whether this brand may create this payment: the business half of creation, in the order of C9 (clauses C6 to
C14)."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from mmo_sansio.messages.changes import TransactionCreated, UsageChanged
from mmo_sansio.messages.inputs import CreatePayment, Draft
from mmo_sansio.messages.intents import SubmitToProvider
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.payments.brand_usage import reserve_usage
from mmo_sansio.payments.decision import Decision, reject
from mmo_sansio.payments.evidence import SUBMISSION_TIMEOUT
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.reference_reuse import consume_reference
from mmo_sansio.payments.rules.timers import is_too_late_to_submit
from mmo_sansio.values import problems
from mmo_sansio.values.clock import Moment, elapsed, later
from mmo_sansio.values.model import (
    Brand,
    Method,
    Operation,
    Order,
    Page,
    Party,
    Progress,
    ProviderData,
    Stage,
    Terms,
    Transaction,
    UsageShare,
)
from mmo_sansio.values.money import AmountError, Money, to_money
from mmo_sansio.values.near_match import near_match
from mmo_sansio.values.problems import FieldError, Problem


def create(ledger: Ledger, input_: CreatePayment, *, now: Moment) -> Decision:
    """Accept the payment, or reject it with the first cause that applies. A rejection consumes nothing (C12)."""
    match _select_method(input_.brand, input_.draft):
        case Problem() as problem:
            return reject(problem)
        case offer:
            pass
    match consume_reference(ledger, input_, now=now):
        case Problem() as problem:
            return reject(problem)
        case used:
            pass
    match reserve_usage(ledger, input_, offer.method, offer.amount, now=now):
        case Problem() as problem:
            return reject(problem)
        case bounded:
            pass
    usage = tuple(each.share for each in bounded)
    order = _build_order(input_, offer, usage, now=now)
    is_submitted = _may_submit_now(ledger, input_, order, now=now)
    transaction = _submitted_transaction(order, now=now) if is_submitted else _initial_transaction(order)
    counted = (UsageChanged(input_.brand.id, each.share, each.limit) for each in bounded)
    waits = order.page is not None or is_submitted
    intents = () if waits else (SubmitToProvider(input_.gateway_reference),)
    reply = Accepted(order, transaction if is_submitted else None)
    return Decision(reply, (used, TransactionCreated(transaction), *counted), intents)


@frozen
class _SelectedMethod:
    """Holds what the brand's configuration says about a draft."""

    method: Method
    amount: Money


def _select_method(brand: Brand, draft: Draft) -> _SelectedMethod | Problem:
    """Check method, country, currency, decimals, minimum and maximum: one condition and one problem in each step
    (C9)."""
    operation = draft.operation
    methods = [each for each in brand.methods if each.key == draft.method and operation in each.operations]
    if not methods:
        return problems.UNSUPPORTED_METHOD.problem(
            f"The method '{draft.method}' is not configured for {operation} of this brand."
            + _hint(draft.method, (each.key for each in brand.methods if operation in each.operations))
        )
    method = next((each for each in methods if each.country == draft.country), None)
    if method is None:
        return problems.UNSUPPORTED_COUNTRY.problem(
            f"The country '{draft.country}' is not configured for the method '{draft.method}'."
            + _hint(draft.country, (each.country for each in methods))
        )
    limits = method.limits.get(draft.currency)
    if limits is None:
        return problems.UNSUPPORTED_CURRENCY.problem(
            f"The currency '{draft.currency}' is not configured for the method '{draft.method}'."
            + _hint(draft.currency, method.limits)
        )
    try:
        amount = to_money(draft.amount, draft.currency)
    except AmountError as error:
        return problems.validation_problem([FieldError("amount.value", f"'amount.value' {error}.")])
    if amount.minor < limits.minimum.minor:
        return problems.BELOW_MINIMUM.problem(f"The amount {amount} is below the minimum of {limits.minimum}.")
    if amount.minor > limits.maximum.minor:
        return problems.ABOVE_MAXIMUM.problem(f"The amount {amount} is above the maximum of {limits.maximum}.")
    return _SelectedMethod(method, amount)


def _hint(name: str, own: Iterable[str]) -> str:
    """Return the sentence that helps with a name that the brand does not have; it tells only what the brand has."""
    return f" {near_match(name, set(own))}".rstrip()


def _build_order(
    input_: CreatePayment, selected: _SelectedMethod, usage: tuple[UsageShare, ...], *, now: Moment
) -> Order:
    draft, method, terms = input_.draft, selected.method, input_.terms
    return Order(
        gateway_reference=input_.gateway_reference,
        brand=input_.brand.id,
        type=draft.operation.type,
        flow=draft.operation.flow,
        method=method.key,
        country=method.country,
        provider=method.provider,
        provider_title=method.provider_title,
        requested=selected.amount,
        party=draft.party or _tax_authority(method),
        merchant_reference=draft.merchant_reference,
        reconciliation_reference=draft.reconciliation_reference or draft.merchant_reference,
        labels=draft.labels,
        result_url=draft.result_url,
        created_at=now.utc,
        expires_at=later(now.time, terms.pending_timeout),
        utc_offset=elapsed(now.time, now.utc),
        display_qr_url=draft.display_qr_url,
        page=_build_page(input_, terms, now=now) if draft.operation is Operation.WEB_PAYIN else None,
        scenario=draft.scenario,
        usage=usage,
        api_key_id=input_.api_key_id,
    )


def _tax_authority(method: Method) -> Party:
    """Return the recipient of a tax payout, implied by method and country (M5)."""
    return Party(method.tax_authority_id or method.key, method.tax_authority_account)


def _build_page(input_: CreatePayment, terms: Terms, *, now: Moment) -> Page:
    session = terms.pending_timeout if terms.page_session is None else terms.page_session
    return Page(
        input_.page_token,
        later(now.time, min(session, terms.pending_timeout)),
        input_.draft.success_redirect_url,
        input_.draft.error_redirect_url,
    )


def _may_submit_now(ledger: Ledger, input_: CreatePayment, order: Order, *, now: Moment) -> bool:
    """Tell whether the payment is recorded as submitted in the commit that creates it. What a later submission would
    not send is left to it, such as a payment of a brand on hold."""
    if input_.reserved_provider != order.provider or order.page is not None or is_too_late_to_submit(order, now=now):
        return False
    return not ledger.is_held(order.brand)


def _submitted_transaction(order: Order, *, now: Moment) -> Transaction:
    """Return the new transaction with its submission on record (S6)."""
    progress = Progress(
        Stage.SUBMITTING,
        1,
        later(now.time, SUBMISSION_TIMEOUT),
        provider_data=ProviderData(order.provider, order.provider_title),
        submitted_at=now.time,
        submissions=1,
    )
    return Transaction(order, progress)


def _initial_transaction(order: Order) -> Transaction:
    """Return the new transaction. A web payment waits for its payer until the page closes; any other is to be submitted
    (W1)."""
    if order.page is None:
        return Transaction(order, Progress(Stage.CREATED, 1, order.expires_at))
    return Transaction(order, Progress(Stage.AWAITING_CUSTOMER, 1, order.page.closes_at))

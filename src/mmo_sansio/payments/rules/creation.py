"""Decides whether this brand may create this payment: the business half of creation, in the order
of C9 (clauses C6 to C14), and what the payer's confirmation on its hosted page does (W1).

A request that is repeated pays once, as a merchantReference is never used twice within its window
(C12). After it the brand's policy decides, by how the payments under the reference ended. A new use
needs all of them to have ended, and what has ended never changes (S1): so only the newest can be
pending, and each use records how those before it ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, assert_never

from mmo_sansio.messages.changes import ReferenceConsumed, TransactionCreated
from mmo_sansio.messages.inputs import CreatePayment, Draft, RecordLostUse
from mmo_sansio.messages.intents import SubmitToProvider
from mmo_sansio.messages.replies import Accepted, Ignored
from mmo_sansio.payments.brand_usage import reserve_usage, usage_keys
from mmo_sansio.payments.decision import Decision, ignore, reject
from mmo_sansio.payments.evidence import SUBMISSION_TIMEOUT
from mmo_sansio.payments.ledger import Ledger, Reads, ReferenceUse
from mmo_sansio.values import model, problems
from mmo_sansio.values.clock import Moment, elapsed, later
from mmo_sansio.values.money import AmountError, Money, to_money
from mmo_sansio.values.near_match import near_match
from mmo_sansio.values.problems import FieldError, Problem

# The inputs that this module decides.
CreationInput: TypeAlias = CreatePayment | RecordLostUse


def reads(input_: CreationInput) -> Reads:
    """Return the keys that `decide` will look at."""
    match input_:
        case CreatePayment():
            key = (input_.brand.id, input_.draft.merchant_reference)
            # Only what is submitted at once asks whether its brand is on hold.
            is_reserved = input_.reserved_provider is not None
            return Reads(
                references=frozenset((key,)), usage=usage_keys(input_), held_brands=is_reserved
            )
        case RecordLostUse(brand, merchant_reference):
            return Reads(references=frozenset(((brand, merchant_reference),)))
        case _:
            assert_never(input_)


def decide(ledger: Ledger, input_: CreationInput, *, now: Moment) -> Decision:
    """Decide a creation, or a use of a merchantReference that a restored store lacks."""
    match input_:
        case CreatePayment():
            return create(ledger, input_, now=now)
        case RecordLostUse():
            return record_lost_use(ledger, input_, now=now)
        case _:
            assert_never(input_)


def actor(input_: CreationInput) -> str:
    """Return who acts, for the journal."""
    match input_:
        case CreatePayment():
            return "merchant"
        case RecordLostUse(user=user):
            return f"user:{user}"
        case _:
            assert_never(input_)


def detail(input_: CreationInput) -> dict[str, object]:
    """Return what the journal holds of the input."""
    match input_:
        case CreatePayment(draft=draft):
            return {"method": draft.method, "operation": draft.operation}
        case RecordLostUse(gateway_reference=reference):
            return {"gatewayReference": reference}
        case _:
            assert_never(input_)


def create(ledger: Ledger, input_: CreatePayment, *, now: Moment) -> Decision:
    """Accept the payment, or reject it with the first cause that applies. A rejection consumes
    nothing (C12)."""
    # 1. What the brand has: method, country, currency, amount (C9).
    selected = _select_method(input_.brand, input_.draft)
    if isinstance(selected, Problem):
        return reject(selected)

    method, amount = selected

    # 2. The reference. It comes after that, as a refused request must not use it up (C12).
    used = _consume_reference(ledger, input_, now=now)
    if isinstance(used, Problem):
        return reject(used)

    # 3. The limits of pending payments and of the day. What is accepted adds to their counters.
    counted = reserve_usage(ledger, input_, method, amount, now=now)
    if isinstance(counted, Problem):
        return reject(counted)

    # 4. It is accepted. Where the caller has reserved a conversation, its submission is on record
    # in this commit, before the request leaves (S6).
    usage = tuple(addition.share for addition in counted)
    order = _build_order(input_, method, amount, usage, now=now)
    is_submitted = _may_submit_now(ledger, input_, order, now=now)
    if is_submitted:
        transaction = _submitted_transaction(order, now=now)
    else:
        transaction = _initial_transaction(order)

    # A page waits for its payer; and what is on record as submitted is sent by the caller itself.
    waits = order.page is not None or is_submitted
    intents = () if waits else (SubmitToProvider(input_.gateway_reference),)
    reply = Accepted(order, transaction if is_submitted else None)
    return Decision(reply, (used, TransactionCreated(transaction), *counted), intents)


def _select_method(brand: model.Brand, draft: Draft) -> tuple[model.Method, Money] | Problem:
    """Check method, country, currency, decimals, minimum and maximum: one condition and one problem
    in each step (C9)."""
    operation = draft.operation
    # The key first: it may be configured for several countries, and each has limits of its own.
    methods = [
        method
        for method in brand.methods
        if method.key == draft.method and operation in method.operations
    ]
    if not methods:
        return problems.UNSUPPORTED_METHOD.problem(
            f"The method '{draft.method}' is not configured for {operation} of this brand."
            + _hint(
                draft.method,
                (method.key for method in brand.methods if operation in method.operations),
            )
        )

    method = next((method for method in methods if method.country == draft.country), None)
    if method is None:
        return problems.UNSUPPORTED_COUNTRY.problem(
            f"The country '{draft.country}' is not configured for the method '{draft.method}'."
            + _hint(draft.country, (method.country for method in methods))
        )

    limits = method.limits.get(draft.currency)
    if limits is None:
        return problems.UNSUPPORTED_CURRENCY.problem(
            f"The currency '{draft.currency}' is not configured for the method '{draft.method}'."
            + _hint(draft.currency, method.limits)
        )

    # How many decimals are allowed depends on the currency, so they follow its check (M1).
    try:
        amount = to_money(draft.amount, draft.currency)
    except AmountError as error:
        return problems.validation_problem([FieldError("amount.value", f"'amount.value' {error}.")])

    # The bounds themselves are allowed (C11).
    if amount.minor < limits.minimum.minor:
        return problems.BELOW_MINIMUM.problem(
            f"The amount {amount} is below the minimum of {limits.minimum}."
        )

    if amount.minor > limits.maximum.minor:
        return problems.ABOVE_MAXIMUM.problem(
            f"The amount {amount} is above the maximum of {limits.maximum}."
        )

    return method, amount


def _hint(name: str, own: Iterable[str]) -> str:
    """Return the sentence that helps with a name that the brand does not have; it tells only what
    the brand has."""
    return f" {near_match(name, set(own))}".rstrip()


def _build_order(
    input_: CreatePayment,
    method: model.Method,
    amount: Money,
    usage: tuple[model.UsageShare, ...],
    *,
    now: Moment,
) -> model.Order:
    draft, terms = input_.draft, input_.terms
    page = None
    if draft.operation is model.Operation.WEB_PAYIN:
        page = _build_page(input_, terms, now=now)

    return model.Order(
        gateway_reference=input_.gateway_reference,
        brand=input_.brand.id,
        type=draft.operation.type,
        flow=draft.operation.flow,
        method=method.key,
        country=method.country,
        provider=method.provider,
        provider_title=method.provider_title,
        requested=amount,
        # The recipient of a tax payout is implied by method and country (M5).
        party=draft.party
        or model.Party(method.tax_authority_id or method.key, method.tax_authority_account),
        merchant_reference=draft.merchant_reference,
        # A tax payout has its own: there it is required (C5, C7).
        reconciliation_reference=draft.reconciliation_reference or draft.merchant_reference,
        labels=draft.labels,
        result_url=draft.result_url,
        # What people read is wall time; what is judged is the gateway's own, which never jumps.
        created_at=now.utc,
        expires_at=later(now.time, terms.pending_timeout),
        utc_offset=elapsed(now.time, now.utc),
        display_qr_url=draft.display_qr_url,
        page=page,
        scenario=draft.scenario,
        usage=usage,
        api_key_id=input_.api_key_id,
        is_simulated=method.provider in input_.simulated_providers,
    )


def _build_page(input_: CreatePayment, terms: model.Terms, *, now: Moment) -> model.Page:
    # No page outlives its payment. Without a session it stays open as long (W1).
    open_for = terms.pending_timeout
    if terms.page_session is not None:
        open_for = min(terms.page_session, terms.pending_timeout)

    return model.Page(
        input_.page_token,
        later(now.time, open_for),
        input_.draft.success_redirect_url,
        input_.draft.error_redirect_url,
    )


def _may_submit_now(
    ledger: Ledger, input_: CreatePayment, order: model.Order, *, now: Moment
) -> bool:
    """Tell whether the payment is recorded as submitted in the commit that creates it. What a later
    submission would not send is left to it, such as a payment of a brand on hold."""
    # The caller sends only by the conversation that it has reserved.
    if input_.reserved_provider != order.provider:
        return False
    if order.page is not None or order.expires_within(SUBMISSION_TIMEOUT, now=now):
        return False

    # Last, as `reads` names it only where a conversation is reserved.
    return not ledger.is_held(order.brand)


def _submitted_transaction(order: model.Order, *, now: Moment) -> model.Transaction:
    """Return the new transaction with its submission on record (S6)."""
    progress = model.Progress(
        model.Stage.SUBMITTING,
        1,
        # When it is first asked about if no answer comes: no request is under way by then.
        later(now.time, SUBMISSION_TIMEOUT),
        provider_data=model.ProviderData(order.provider, order.provider_title),
        submitted_at=now.time,
        submissions=1,
        # What answers this submission names this version of the payment.
        sent_version=1,
    )
    return model.Transaction(order, progress)


def _initial_transaction(order: model.Order) -> model.Transaction:
    """Return the new transaction. A web payment waits for its payer until the page closes; any
    other is to be submitted (W1)."""
    if order.page is None:
        return model.Transaction(order, model.Progress(model.Stage.CREATED, 1, order.expires_at))
    return model.Transaction(
        order, model.Progress(model.Stage.AWAITING_CUSTOMER, 1, order.page.closes_at)
    )


def _consume_reference(
    ledger: Ledger, input_: CreatePayment, *, now: Moment
) -> ReferenceConsumed | Problem:
    """Return the use of the request's merchantReference, or the problem that it may not be used
    again."""
    brand, merchant_reference = input_.brand, input_.draft.merchant_reference
    used = ledger.reference_use(brand.id, merchant_reference)
    earlier = model.Status.FAILED
    if used is not None:
        earlier = _outcome(ledger, used)
        reuse = brand.reference_reuse.for_type(input_.draft.operation.type)
        # Within the window nothing is used twice, whatever became of it; after it, what the brand
        # has chosen for this type of payment (C12).
        is_in_window = elapsed(used.at, now.time) < input_.terms.idempotency_window
        if is_in_window or not _is_reusable(reuse, earlier):
            # A merchant must not take this for a failure and send it under another reference.
            advice = "Look the payment up by it, and send a new reference only for another payment."
            # A store restored from a backup may know the use of a payment that it lacks.
            if ledger.transaction(used.gateway_reference) is None:
                advice = (
                    "Its payment is not stored any more: ask the gateway's staff what became of it."
                )

            return problems.DUPLICATE_REFERENCE.problem(
                f"The merchantReference '{merchant_reference}' was used before. {advice}"
            )

    # How those before it ended is kept with this use: only the newest is ever read.
    return ReferenceConsumed(
        brand.id, merchant_reference, input_.gateway_reference, now.time, earlier
    )


def record_lost_use(ledger: Ledger, input_: RecordLostUse, *, now: Moment) -> Decision:
    """Let a merchantReference count as used by a payment that a restored store lacks, unless it
    does already."""
    used = ledger.reference_use(input_.brand, input_.merchant_reference)
    earlier = model.Status.FAILED
    if used is not None:
        earlier = _outcome(ledger, used)
        if used.gateway_reference == input_.gateway_reference or earlier is not model.Status.FAILED:
            return ignore("The merchantReference counts as used.")

    # All that is stored has failed, so the reference would be free for another payment.
    lost = ReferenceConsumed(
        input_.brand,
        input_.merchant_reference,
        input_.gateway_reference,
        now.time,
        earlier,
        is_lost=True,
    )
    return Decision(Ignored("The merchantReference counts as used from now on."), (lost,))


def _outcome(ledger: Ledger, used: ReferenceUse) -> model.Status:
    """Return how all payments under a reference ended: PENDING while one has not, else SUCCESS when
    one was paid, else FAILED. One that a restored store lacks counts as pending: nobody may know
    how it ended."""
    newest = ledger.transaction(used.gateway_reference)
    outcome = newest.status if newest is not None else model.Status.PENDING
    if outcome is model.Status.FAILED:
        return used.earlier
    return outcome


def _is_reusable(reuse: model.ReferenceReuse, earlier: model.Status) -> bool:
    match reuse:
        case model.ReferenceReuse.UNLESS_PAID:
            return earlier is model.Status.FAILED
        case model.ReferenceReuse.NEVER:
            return False
        case model.ReferenceReuse.AFTER_WINDOW:
            return earlier is not model.Status.PENDING
        case _:
            assert_never(reuse)

"""Creates a payment once, whatever is lost on the way (C12, P5).

The one rule: after the first request nothing is sent again before a look-up by the
merchantReference says 404. So an answer that was lost costs a look-up and no second payment, within
the window in which the gateway remembers a reference and beyond it.

One thing remains that no client can know: whether a request is held up on the way to the gateway,
by a proxy, and arrives after a look-up said 404 and the payment was sent again. Within the window
(15 minutes) the gateway rejects it. Beyond the window it is rejected too where the brand's
`reference_reuse` is `never`, or `unless_paid` and the payment has not failed."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final, TypeAlias, TypeVar

from attrs import frozen

from mmo_merchant.api.api_errors import (
    ApiRejection,
    GatewayUnavailable,
    MerchantApiError,
    OutcomeUnclear,
    ReferenceMismatch,
    ReferenceUsed,
    TransactionNotFound,
)
from mmo_merchant.api.gateway_requests import (
    Answer,
    ApiAccess,
    StartedPayment,
    creation_request,
    read_found,
    read_started,
    reference_look_up_request,
)
from mmo_merchant.api.new_payments import NewPayment, PayOut, operation_of
from mmo_merchant.api.transaction_objects import TransactionObject
from mmo_sansio.http.messages import HttpRequest

# Seconds before each further attempt; after the last one the outcome counts as unclear. Longer each
# time, so that a gateway that is overloaded is not asked by everybody at once.
PAUSES_S: Final = (1.0, 3.0, 9.0, 27.0)

# The longest `Retry-After`, in seconds, that is waited for: a payer may wait for the caller.
PAUSE_MAX_S: Final = 60.0

T = TypeVar("T")


@frozen
class Ask:
    """Asks the driver to send a request, and to send its answer back."""

    request: HttpRequest
    pause_s: float = 0.0
    """Seconds to wait before."""


Exchange: TypeAlias = Generator[Ask, Answer, T]
"""A conversation with the gateway without I/O: it yields what to send, is sent the answer, and
returns its result."""


def create_or_get(
    access: ApiAccess,
    payment: NewPayment,
    *,
    is_first_attempt: bool = False,
    pauses_s: Sequence[float] = PAUSES_S,
) -> Exchange[StartedPayment]:
    """Return the payment under this reference, which is created unless it exists.

    Set `is_first_attempt` only where no request with this reference can have left before, for
    example because it was generated a moment ago: then it is sent without a look-up before.

    Raises ApiRejection when the gateway rejects the payment, ReferenceMismatch when the reference
    belongs to another payment, GatewayUnavailable when nothing was sent, and OutcomeUnclear when it
    cannot be learnt what happened."""
    create = creation_request(access, payment)
    look_up = reference_look_up_request(access, payment.merchant_reference)

    # Which of the two leaves next. A creation leaves only where none left before, or after a 404.
    looks_up = not is_first_attempt
    # Whether a creation has left of which nobody has said what became of it.
    was_unclear = False
    # Whether the gateway has said that the reference has a payment: then nothing is created.
    is_used = False

    pauses = iter(pauses_s)
    pause_s = 0.0
    while True:
        request = look_up if looks_up else create
        answer = yield Ask(request, pause_s)
        pause_s = 0.0
        failure: MerchantApiError
        try:
            if looks_up:
                return _found_payment(read_found(answer), payment)
            return read_started(answer)
        except TransactionNotFound as error:
            # Nothing is stored under the reference: the creation may leave, at once. A 404 to a
            # creation, or for a reference that was called used, is a failure like others.
            if looks_up and not is_used:
                looks_up = False
                continue
            failure = error
        except ReferenceUsed:
            # Not ours to judge: the payment may be that of a lost answer, or of another program.
            # The look-up tells, at once.
            looks_up = True
            is_used = True
            continue
        except ApiRejection as error:
            # The gateway rejects this request, but an earlier one may have made the payment (P5).
            if was_unclear:
                raise OutcomeUnclear(payment.merchant_reference, str(error)) from error
            raise
        except GatewayUnavailable as error:
            # A look-up makes nothing, so its failure leaves nothing unclear.
            was_unclear = was_unclear or not (looks_up or _has_stored_nothing(error))
            looks_up = True
            failure = error

        delay_s = next(pauses, None)
        if delay_s is None and (was_unclear or is_used):
            raise OutcomeUnclear(payment.merchant_reference, str(failure)) from failure
        if delay_s is None:
            raise failure

        pause_s = max(delay_s, _advised_pause_s(failure))


def _has_stored_nothing(error: GatewayUnavailable) -> bool:
    """Tell whether the gateway itself says that it has not stored the request (P4, P5)."""
    # Without a problem document it may be a proxy that speaks, behind which the request went on.
    return error.problem is not None and error.problem.status in (408, 429, 503)


def _advised_pause_s(failure: MerchantApiError) -> float:
    """Return the seconds that the gateway asks to wait, bounded; 0 when it names none."""
    problem = None
    if isinstance(failure, GatewayUnavailable | ApiRejection):
        problem = failure.problem

    if problem is None:
        return 0.0
    return min(float(problem.retry_after_s or 0), PAUSE_MAX_S)


def _found_payment(transaction: TransactionObject, payment: NewPayment) -> StartedPayment:
    """Return the payment that a look-up has found. Raises ReferenceMismatch when another one was
    asked for."""
    operation = operation_of(payment)

    # The gateway stores these as they were sent, so any difference means another payment.
    compared = (
        ("type", transaction.type, operation.type),
        ("flow", transaction.flow, operation.flow),
        ("method", transaction.method, payment.method),
        ("country", transaction.country, payment.country),
        ("amount", transaction.requested_amount, payment.amount),
    )
    differences = tuple(name for name, theirs, ours in compared if theirs != ours)

    # The same number may have been sent with its "+" the first time, and without it now (M3).
    if isinstance(payment, PayOut):
        msisdn = payment.payee.msisdn.lstrip("+")
        if transaction.party.msisdn.lstrip("+") != msisdn:
            differences += ("payee",)

    if differences:
        raise ReferenceMismatch(transaction.gateway_reference, transaction.status, differences)

    return StartedPayment(
        gateway_reference=transaction.gateway_reference,
        merchant_reference=payment.merchant_reference,
        reconciliation_reference=transaction.reconciliation_reference or payment.merchant_reference,
        created_at=transaction.created_at,
        found=transaction,
    )

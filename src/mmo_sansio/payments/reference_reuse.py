"""Decides whether a merchantReference may be used, so that a request that is repeated pays once (clause C12).

A reference is never used twice within its window. After it the brand's policy decides, by how the payments under the
reference ended. A new use needs all of them to have ended, and what has ended never changes (S1): so only the
newest can be pending, and each use records how those before it ended.
"""

from __future__ import annotations

from typing import assert_never

from mmo_sansio.messages.changes import ReferenceConsumed
from mmo_sansio.messages.inputs import CreatePayment, RecordLostUse
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.decision import Decision, ignore
from mmo_sansio.payments.ledger import Ledger, ReferenceUse
from mmo_sansio.values import problems
from mmo_sansio.values.clock import Moment, elapsed
from mmo_sansio.values.model import ReferenceReuse, Status
from mmo_sansio.values.problems import Problem


def consume_reference(ledger: Ledger, input_: CreatePayment, *, now: Moment) -> ReferenceConsumed | Problem:
    """Return the use of the request's merchantReference, or the problem that it may not be used again."""
    brand, merchant_reference = input_.brand, input_.draft.merchant_reference
    used = ledger.reference_use(brand.id, merchant_reference)
    earlier = Status.FAILED
    if used is not None:
        earlier = _outcome(ledger, used)
        reuse = brand.reference_reuse.for_type(input_.draft.operation.type)
        is_in_window = elapsed(used.at, now.time) < input_.terms.idempotency_window
        if is_in_window or not _is_reusable(reuse, earlier):
            return problems.DUPLICATE_REFERENCE.problem(
                f"The merchantReference '{merchant_reference}' was used before."
                " Look the payment up by it, and send a new reference only for another payment."
            )
    return ReferenceConsumed(brand.id, merchant_reference, input_.gateway_reference, now.time, earlier)


def record_lost_use(ledger: Ledger, input_: RecordLostUse, *, now: Moment) -> Decision:
    """Let a merchantReference count as used by a payment that a restored store lacks, unless it does already."""
    used = ledger.reference_use(input_.brand, input_.merchant_reference)
    earlier = Status.FAILED
    if used is not None:
        earlier = _outcome(ledger, used)
        if used.gateway_reference == input_.gateway_reference or earlier is not Status.FAILED:
            return ignore("The merchantReference counts as used.")
    lost = ReferenceConsumed(
        input_.brand, input_.merchant_reference, input_.gateway_reference, now.time, earlier, is_lost=True
    )
    return Decision(Ignored("The merchantReference counts as used from now on."), (lost,))


def _outcome(ledger: Ledger, used: ReferenceUse) -> Status:
    """Return how all payments under a reference ended: PENDING while one has not, else SUCCESS when one was paid, else
    FAILED. One that a restored store lacks counts as pending: nobody may know how it ended."""
    newest = ledger.transaction(used.gateway_reference)
    outcome = newest.status if newest is not None else Status.PENDING
    return used.earlier if outcome is Status.FAILED else outcome


def _is_reusable(reuse: ReferenceReuse, earlier: Status) -> bool:
    match reuse:
        case ReferenceReuse.UNLESS_PAID:
            return earlier is Status.FAILED
        case ReferenceReuse.NEVER:
            return False
        case ReferenceReuse.AFTER_WINDOW:
            return earlier is not Status.PENDING
        case _:
            assert_never(reuse)

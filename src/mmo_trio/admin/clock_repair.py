"""Finds and corrects what a wrong clock has written into a store (clause S3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from attrs import evolve, frozen

from mmo_sansio.messages.inputs import CorrectTimes
from mmo_sansio.messages.queries import Position
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.misdated import (
    MISDATED_FROM,
    is_claim_misdated,
    is_misdated,
    is_reversal_misdated,
)
from mmo_sansio.values.clock import (
    LAST_INSTANT,
    Instant,
    Moment,
    format_with_microseconds,
    later,
)
from mmo_sansio.values.model import DepositClaim, Transaction
from mmo_sansio.values.reversals import Reversal
from mmo_trio.storage.interface.admin_types import PaymentFilter
from mmo_trio.storage.sql.store import Store

PAGE_SIZE = 500

# Open claims that are looked at; what is beyond is found once these are corrected.
CLAIMS_MAX = 10_000

# Payments that are corrected in one commit.
ROUND_SIZE = 100

# Payments that are named one by one.
NAMED_MAX = 20


@frozen
class ClockErrors:
    """Holds what lies in the future of a store's clock."""

    payments: Sequence[Transaction]
    """The newest first."""
    held_until: Instant | None
    """The wall time before which nothing new may be dated, if it lies in the future (R7)."""

    reversals: Sequence[Reversal] = ()
    """Those that were asked for, sent, or wait, in the future."""
    claims: Sequence[DepositClaim] = ()
    """Open claims of deposits that were received in the future."""

    def __bool__(self) -> bool:
        misdated = (*self.payments, *self.reversals, *self.claims)
        return bool(misdated) or self.held_until is not None

    @property
    def corrections(self) -> Sequence[tuple[str, tuple[str, str] | None]]:
        """Return the payment, and the claim where there is one, of each correction, the oldest
        payments first."""
        payments = [payment.reference for payment in reversed(self.payments)]
        payments += [reversal.payment for reversal in self.reversals]
        claims = (
            (claim.payment or claim.gateway_reference, (claim.provider, claim.receipt))
            for claim in self.claims
        )
        return (*((payment, None) for payment in dict.fromkeys(payments)), *claims)

    def sentences(self) -> Sequence[str]:
        """Return a sentence for each error."""
        # The newest by name, the others by their number: a person mends all of them at once.
        sentences = [
            f"transaction {payment.reference}: its createdAt "
            f"{format_with_microseconds(payment.order.created_at)} lies in the future, as a wrong "
            "clock wrote it: see `mmo db mend-clock`"
            for payment in self.payments[:NAMED_MAX]
        ]
        unnamed = len(self.payments) - NAMED_MAX
        if unnamed > 0:
            sentences.append(
                f"transactions with a createdAt in the future, not named here: {unnamed}"
            )

        counts = {"reversals": len(self.reversals), "claims of deposits": len(self.claims)}
        for what, count in counts.items():
            if count:
                sentences.append(
                    f"{what} with times in the future, as a wrong clock wrote them: {count}; see "
                    "`mmo db mend-clock`"
                )

        if self.held_until is not None:
            sentences.append(
                f"stamps reach to {format_with_microseconds(self.held_until)}, which lies in the "
                "future, as a wrong clock wrote them: see `mmo db mend-clock`"
            )

        return sentences


async def find_clock_errors(store: Store, *, now: Moment) -> ClockErrors:
    """Return what lies in the future. Raises StoreUnavailable."""
    # 1. The stamps. A small difference between the clocks of two machines is no error.
    stamped_until = await store.held_until()
    held_until: Instant | None = None
    if stamped_until > later(now.utc, MISDATED_FROM):
        held_until = stamped_until

    # 2. Payments, page by page.
    payments: list[Transaction] = []
    selection = PaymentFilter(limit=PAGE_SIZE)
    while True:
        page = await store.admin.list_payments(selection)
        misdated = [
            transaction for transaction in page.transactions if is_misdated(transaction, now=now)
        ]
        payments += misdated

        # The newest come first: the first that is dated right ends the search.
        if len(misdated) < len(page.transactions) or page.next_position is None:
            break

        selection = evolve(selection, before=page.next_position)

    # 3. Open claims, then reversals.
    claims = await store.due_claims(LAST_INSTANT, limit=CLAIMS_MAX)
    misdated_claims = tuple(claim for claim in claims if is_claim_misdated(claim, now=now))
    reversals = await _misdated_reversals(store, now=now)
    return ClockErrors(payments, held_until, reversals, misdated_claims)


async def _misdated_reversals(store: Store, *, now: Moment) -> Sequence[Reversal]:
    """Return those among all reversals, as one that was asked for in time may have been sent in the
    future."""
    misdated: list[Reversal] = []
    before: Position | None = None
    while page := await store.list_reversals(before=before, limit=PAGE_SIZE):
        misdated += [reversal for reversal in page if is_reversal_misdated(reversal, now=now)]

        # Reversals are listed by their payments, in the order of each one's newest.
        last = [reversal for reversal in page if reversal.payment == page[-1].payment]
        newest_at = max(reversal.asked_at for reversal in last)
        before = Position(newest_at, page[-1].payment)
    return tuple(misdated)


async def correct_clock_errors(
    store: Store,
    submit: Callable[[Sequence[CorrectTimes]], Awaitable[Sequence[Reply]]],
    errors: ClockErrors,
    *,
    now: Instant,
    user: str,
    report: Callable[[int], object] = lambda count: None,
) -> None:
    """Correct these times, the oldest payments first, and let new ones be dated from now on.
    `submit` commits a round of them, `report` is called with its size. Raises StoreUnavailable and
    OutcomeUnknown; to repeat it does no harm."""
    # First, so that no new payment is dated by the wrong time while the old ones are corrected.
    await store.release_held(now)
    inputs = [CorrectTimes(payment, user, claim) for payment, claim in errors.corrections]
    for first in range(0, len(inputs), ROUND_SIZE):
        replies = await submit(inputs[first : first + ROUND_SIZE])
        report(len(replies))

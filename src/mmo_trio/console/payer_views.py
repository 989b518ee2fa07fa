"""Says what the payers of a brand see, and how far they come: an example of its payment page, and
how many of its latest web pay-ins were pressed and paid."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from mmo_sansio.values.error_codes import EXPLANATIONS
from mmo_sansio.values.model import Brand, Flow, Operation, Status, Transaction
from mmo_sansio.values.number_format import format_amount


@frozen
class PagePreview:
    """Holds what the example of a brand's payment page shows."""

    amount: str
    """The smallest of the first method that takes web pay-ins."""
    provider: str
    order_label: str | None


def preview_of(brand: Brand) -> PagePreview | None:
    """Return the example for a brand; None where it takes no web pay-ins."""
    for method in brand.methods:
        if Operation.WEB_PAYIN in method.operations and method.limits:
            least = next(iter(method.limits.values())).minimum
            return PagePreview(
                format_amount(least), method.provider_title, brand.appearance.order_label
            )
    return None


@frozen
class FunnelStep:
    """Says how many payments have come so far."""

    title: str
    count: int
    share: int
    """Of the pages that were made, in per cent."""


@frozen
class Funnel:
    """Says how far the latest web pay-ins of a brand have come. All of it is read from the payments
    themselves: who opens a page leaves nothing in the store."""

    steps: Sequence[FunnelStep]
    pending: int
    """Those that were sent and have no result."""
    payer: int
    """Those that were sent and failed where the payer could have done otherwise."""
    other: int
    """Those that were sent and failed for another reason."""


def funnel_of(newest: Sequence[Transaction]) -> Funnel | None:
    """Return the funnel of the web pay-ins among these payments; None where there is none."""
    made = [payment for payment in newest if payment.order.flow is Flow.WEB]
    if not made:
        return None

    pressed = [payment for payment in made if payment.progress.submitted_at is not None]
    paid = [payment for payment in pressed if payment.status is Status.SUCCESS]
    codes = [payment.progress.error_code for payment in pressed if payment.progress.error_code]
    payer = sum(EXPLANATIONS[code].who_acts == "payer" for code in codes)
    steps = [
        FunnelStep(title, len(reached), round(100 * len(reached) / len(made)))
        for title, reached in (
            ("Page made", made),
            ("Button pressed, sent to the operator", pressed),
            ("Paid", paid),
        )
    ]
    pending = len(pressed) - len(paid) - len(codes)
    return Funnel(steps, pending, payer, len(codes) - payer)

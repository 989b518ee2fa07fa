"""Digests the payments of a day, so that two sides can compare theirs before they exchange rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

from attrs import frozen

from mmo_merchant.reconciliation.held_records import RecordedPayment
from mmo_sansio.values.model import Status


@frozen
class DailyDigest:
    """Holds what two sides compare about one day of one brand."""

    sha256: str
    """Of the canonical lines, in hexadecimal."""
    count: int
    """Payments that ended on the day."""
    sums: dict[str, int]
    """Minor units of the payments that have succeeded, by `type currency`, such as `payin KES`;
    those of simulated ones, which moved none, apart by `simulated payin KES`."""
    fees: dict[str, int]
    """Minor units of the fees that providers have told, by `provider currency`, such as `mpesa
    KES`; not part of what is digested, as no operator tells every fee."""


def canonical_line(payment: RecordedPayment) -> str:
    """Return the line of a payment that has ended: gatewayReference, type, amount with exactly the
    decimals of its currency, currency and status, separated by tabs, with a line feed."""
    # The format is a contract: whoever computes the digest elsewhere writes the same bytes.
    amount = payment.amount
    fields = (
        payment.gateway_reference,
        payment.type.value,
        amount.text,
        amount.currency,
        payment.status.value,
    )
    return "\t".join(fields) + "\n"


def digest_day(payments: Iterable[RecordedPayment]) -> DailyDigest:
    """Return the digest of the payments of a brand that ended on one day, in any order: their
    canonical lines, sorted as ASCII, in UTF-8. Pending payments are left out."""
    ended = [payment for payment in payments if payment.status is not Status.PENDING]
    sums = Counter[str]()
    fees = Counter[str]()
    for payment in ended:
        if payment.status is Status.SUCCESS:
            name = f"{payment.mark}{payment.type.value} {payment.amount.currency}"
            sums[name] += payment.amount.minor
        if payment.fee is not None:
            fees[f"{payment.mark}{payment.provider} {payment.fee.currency}"] += payment.fee.minor

    # Sorted, as two sides have their payments in different orders.
    text = "".join(sorted(map(canonical_line, ended)))
    return DailyDigest(
        sha256(text.encode()).hexdigest(),
        len(ended),
        dict(sorted(sums.items())),
        dict(sorted(fees.items())),
    )

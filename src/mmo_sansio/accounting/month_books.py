"""Keeps the book of one month: each payment and reversal that moved money, at the time at which it
ended, with a sign; and what each account had before and has afterwards.

An account is the money of a brand by one method in one currency; simulated payments, by which none
moves, have accounts of their own. Its closing sum is its opening sum
and all amounts of the month; fees are summed apart, as no operator tells every fee."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from attrs import Factory, define, field, frozen

from mmo_sansio.accounting.calendar_months import Month
from mmo_sansio.values.clock import Instant


class EntryKind(StrEnum):
    """Says what an entry is about."""

    PAYMENT = "payment"
    REVERSAL = "reversal"
    """Money of a payment that has gone back."""
    LATE = "late"
    """Money of a payment that had failed: it had moved all the same, as its reversal shows."""


@frozen(order=True)
class Account:
    """Is the money of a brand by one method in one currency."""

    brand: str
    method: str
    currency: str
    is_simulated: bool = False
    """Whether no money moves in it."""


@frozen(kw_only=True)
class BookEntry:
    """Is money that moved, or a fee."""

    booked_at: Instant
    """When the payment or reversal ended, by the records."""
    kind: EntryKind
    account: Account
    type: str
    """The type of the payment, also of its reversal."""
    country: str
    minor: int
    """Minor units; positive: money came in. 0 for a payment that failed and had a fee."""
    fee_minor: int | None
    """Minor units of the fee, negative; None: the records know of none."""
    gateway_reference: str
    merchant_reference: str | None
    reconciliation_reference: str | None
    reversal: str | None
    """The id of the reversal; None of a payment."""
    receipt: str | None
    """The operator's own reference."""


@define
class AccountSums:
    """Holds what an account had, and what moved in the month, in minor units with signs."""

    opening: int = 0
    """All that moved before the month."""
    moved: int = 0
    """All that moved in it."""
    opening_fees: int = 0
    fees: int = 0

    @property
    def closing(self) -> int:
        """Return what the account has at the end of the month."""
        return self.opening + self.moved

    @property
    def closing_fees(self) -> int:
        """Return all fees until the end of the month."""
        return self.opening_fees + self.fees


@frozen(order=True)
class TotalKey:
    """Names a total: what moved for a brand by one kind of entry and type in one currency."""

    brand: str
    kind: EntryKind
    type: str
    currency: str
    is_simulated: bool = False


@define
class Total:
    """Holds a total, in minor units with a sign."""

    count: int = 0
    """Entries that moved money."""
    minor: int = 0
    fees: int = 0


@define
class MonthBook:
    """Takes entries in any order, and keeps those of the month: about 900 bytes each."""

    month: Month
    sums: dict[Account, AccountSums] = field(factory=dict)
    _entries: list[BookEntry] = Factory(list)

    def add(self, entry: BookEntry) -> None:
        """Book an entry; what is later than the month is left out."""
        # Later entries are no part of the closing sum: the same month gives the same book at any
        # time.
        if entry.booked_at >= self.month.end:
            return

        sums = self.sums.setdefault(entry.account, AccountSums())
        fee = entry.fee_minor or 0
        # What came before is needed as a sum alone, however long an account has existed.
        if entry.booked_at < self.month.begin:
            sums.opening += entry.minor
            sums.opening_fees += fee
            return

        sums.moved += entry.minor
        sums.fees += fee
        self._entries.append(entry)

    def entries(self) -> Sequence[BookEntry]:
        """Return the entries of the month: by brand, and then in the order of their time."""
        # In place: a month may have a million entries, and sorting what is sorted costs little.
        self._entries.sort(key=_order)
        return self._entries

    def totals(self) -> dict[TotalKey, Total]:
        """Return the totals of the month. Those of payments are what the digests of its days say,
        with signs."""
        totals: dict[TotalKey, Total] = {}
        for entry in self._entries:
            account = entry.account
            key = TotalKey(
                account.brand, entry.kind, entry.type, account.currency, account.is_simulated
            )
            total = totals.setdefault(key, Total())
            # A fee in another currency is an entry of its own, and no payment.
            total.count += entry.minor != 0
            total.minor += entry.minor
            total.fees += entry.fee_minor or 0

        return dict(sorted(totals.items()))


def _order(entry: BookEntry) -> tuple[str, Instant, str, str, str]:
    account = entry.account
    # Late money stands before the reversal that shows it: None sorts as the empty text.
    by_id = entry.reversal or ""
    return account.brand, entry.booked_at, entry.gateway_reference, by_id, account.currency

"""Compares a statement, a merchant's ledger or an operator's, with the records, to the minor unit.

Give the records first, then the lines of the statement, one by one: each line returns its
differences at once, and `missing_lines` those that only show at the end. Only the records are held,
and lines that no record is found for but have a number to pair them by; a statement may have any
length."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from attrs import define, field, frozen

from mmo_merchant.reconciliation.held_records import (
    SHORT_REFERENCE_CHARACTERS,
    Held,
    HeldRecords,
    RecordedPayment,
)
from mmo_sansio.values.model import Status, Type
from mmo_sansio.values.money import Money

# Payments by which money comes to the merchant; pay-outs and taxes go out.
MONEY_IN: Final = frozenset({Type.PAYIN})


class DifferenceKind(StrEnum):
    """Says how a line of a statement and the records differ."""

    MISSING_IN_RECORDS = "missing_in_records"
    """Money moved by the statement, and no record has its receipt or reference."""
    MISSING_IN_STATEMENT = "missing_in_statement"
    """A payment, or its reversal, has succeeded by the records, and no line has its receipt or
    reference."""
    RECEIPT_DIFFERS = "receipt_differs"
    """No receipt or reference agrees, but the number, the amount and the direction do."""
    AMOUNT_DIFFERS = "amount_differs"
    CURRENCY_DIFFERS = "currency_differs"
    DIRECTION_DIFFERS = "direction_differs"
    """Money came in by one side and went out by the other."""
    STATUS_DIFFERS = "status_differs"
    """Both sides have the payment, with another status."""
    DUPLICATE_LINE = "duplicate_line"
    """A second line has the receipt or reference of a payment that an earlier line has settled."""
    FEE_DIFFERS = "fee_differs"
    """Both sides name the fee of a payment, and not the same."""


@frozen
class StatementLine:
    """Holds what one line of a statement says."""

    number: int
    """The line of the file, from 1."""
    receipt: str | None
    reference: str | None
    """A merchantReference or gatewayReference; None where the statement has none."""
    amount: Money
    """Without a sign; of a fee, the fee."""
    is_incoming: bool | None = None
    """Whether money came to the merchant; None if the statement does not say."""
    status: Status = Status.SUCCESS
    fee: Money | None = None
    is_fee: bool = False
    """Whether the line is about the fee of a payment and not about the payment itself."""
    msisdn: str = field(default="", repr=False)
    """The digits of the number that paid or was paid; empty where the statement has none."""


@frozen
class Difference:
    """One difference; the side that has nothing is None."""

    kind: DifferenceKind
    record: RecordedPayment | None
    line: StatementLine | None

    def members(self) -> dict[str, object]:
        """Return what JSON, or the row of a table, says of it."""
        record = self.record
        line = self.line

        # Each name from the side that is at hand: the line's receipt is what people search for.
        receipt = None
        if line is not None and line.receipt:
            receipt = line.receipt
        elif record is not None:
            receipt = record.receipt

        reference = None
        if record is not None:
            reference = record.merchant_reference
        elif line is not None:
            reference = line.reference

        return {
            "kind": self.kind.value,
            "line": line and line.number,
            "receipt": receipt,
            "gatewayReference": record and record.gateway_reference,
            "merchantReference": reference,
            "records": record and self._record_text(record),
            "statement": line and self._line_text(line),
        }

    def _record_text(self, record: RecordedPayment) -> str:
        if self.kind is DifferenceKind.FEE_DIFFERS:
            return str(record.fee)

        what = record.type.value
        if record.reverses:
            what = "reversal"
        return f"{record.mark}{what} {record.amount} {record.status.value}"

    def _line_text(self, line: StatementLine) -> str:
        if self.kind is DifferenceKind.FEE_DIFFERS:
            if line.is_fee:
                return str(line.amount)
            return str(line.fee)

        direction = {True: "in ", False: "out ", None: ""}[line.is_incoming]
        return f"{direction}{line.amount} {line.status.value}"


@define
class Reconciliation:
    """Compares records with the lines of one statement."""

    tolerance: Mapping[str, int] = field(factory=dict)
    """By how many minor units of a currency amounts may differ and agree all the same."""
    matched: int = 0
    """Lines that are about a payment of the records."""
    matched_simulated: int = 0
    """Those of them whose payment is simulated: no money moved by the gateway's own records."""
    unsettled: int = 0
    """Lines of payments by which no money moved, and which the records do not have."""
    fees: Counter[str] = field(factory=Counter)
    """Minor units of all fee lines and fee columns by currency."""
    tolerated: Counter[str] = field(factory=Counter)
    """Minor units by which amounts differ that agree by the tolerance, by currency: what the
    statement has more than the records, less what it has fewer."""
    _records: HeldRecords = field(factory=HeldRecords)
    _recorded_fees: Counter[str] = field(factory=Counter)
    _settled: bytearray = field(factory=bytearray)
    """For each payment, by its number: whether it has succeeded by a line."""
    _contradicted: bytearray = field(factory=bytearray)
    """For each payment: whether it has not succeeded by a line."""
    _unpaired: list[StatementLine] = field(factory=list)
    """Lines about money for which no record was found, and which have a number."""

    def add_record(self, record: RecordedPayment) -> None:
        """Add a payment of the records; all of them come before the first line."""
        before = self._records.add(record)
        self._settled.append(False)
        self._contradicted.append(False)
        self._count_fee(record, 1)
        # The payment's last record counts: the fee of the one before is taken back.
        if before is not None:
            self._count_fee(before, -1)

    def _count_fee(self, record: RecordedPayment, times: int) -> None:
        if record.is_expected and record.fee is not None:
            name = f"{record.mark}{record.provider} {record.fee.currency}"
            self._recorded_fees[name] += times * record.fee.minor

    def recorded_fees(self) -> dict[str, int]:
        """Return the minor units of the fees of the payments that the statement must have, by
        `provider currency`, such as `mpesa KES`."""
        return dict(sorted(self._recorded_fees.items()))

    def check_line(self, line: StatementLine) -> list[Difference]:
        """Return how the next line of the statement differs from the records."""
        candidates = self._find(line)
        self._count_line_fee(line)

        # 1. A line about a fee alone: nothing else of it is compared.
        if line.is_fee:
            about = None
            if candidates:
                about = candidates[0].record
            return _fee_differences(line, line.amount, about)

        # 2. No payment has its receipt or reference.
        if not candidates:
            return self._without_record(line)

        self.matched += 1
        self.matched_simulated += _nearest(candidates, line).record.is_simulated

        # 3. Money moved, and by none of these payments in the line's direction.
        if line.status is Status.SUCCESS and all(
            _is_other_direction(held.record, line) for held in candidates
        ):
            number, record = _nearest(candidates, line)
            self._contradicted[number] = True
            return self._differences(record, line)

        # 4. Money moved once more than by these payments, each of which another line has settled.
        free = [held for held in candidates if not self._settled[held.number]]
        if not free and line.status is Status.SUCCESS:
            return [Difference(DifferenceKind.DUPLICATE_LINE, candidates[0].record, line)]

        # 5. The payment itself is said to have failed, and all of its money went back (reversals).
        number, record = _nearest(free or candidates, line)
        if line.status is Status.FAILED and (back := self._sent_back(record)):
            for settled in (number, *(held.number for held in back)):
                self._settled[settled] = True
            return []

        # 6. The line is about this payment, and agrees with it or not.
        if line.status is Status.SUCCESS:
            self._settled[number] = True
        else:
            self._contradicted[number] = True

        differences = self._differences(record, line)
        if line.fee:
            differences += _fee_differences(line, line.fee, record)
        return differences

    def _count_line_fee(self, line: StatementLine) -> None:
        """Add the fee of a line to the sums; a fee that comes back is taken off."""
        fee = line.fee
        if line.is_fee:
            fee = line.amount
        if fee is None:
            return

        if line.is_fee and line.is_incoming is True:
            self.fees[fee.currency] -= fee.minor
        else:
            self.fees[fee.currency] += fee.minor

    def _without_record(self, line: StatementLine) -> list[Difference]:
        """Return what follows from a line for which no payment was found."""
        # No money moved by it: there is nothing that the records could lack.
        if line.status is not Status.SUCCESS:
            self.unsettled += 1
            return []

        # Its number may pair it at the end, with a payment under another receipt.
        if line.msisdn:
            self._unpaired.append(line)
            return []

        return [Difference(DifferenceKind.MISSING_IN_RECORDS, None, line)]

    def missing_lines(self) -> Iterator[Difference]:
        """Return what only the end shows: lines without a record, and payments that the statement
        should have and does not, each in their order; a line and a payment that are one but for
        the receipt are paired."""
        missing = self._missing_payments()
        by_what_moved = defaultdict[tuple[object, ...], list[Held]](list)

        # Only where a line may need it: most statements have no line without a payment.
        if self._unpaired:
            for held in missing:
                by_what_moved[(held.record.msisdn, held.record.amount)].append(held)

        # In the order of both sides: of several payments of one amount the first in the line's
        # direction goes with the first line. What came in may have gone out to the same number.
        paired = set[int]()
        for line in self._unpaired:
            alike = by_what_moved.get((line.msisdn, line.amount), [])
            fitting = (held for held in alike if not _is_other_direction(held.record, line))
            first = next(fitting, None)
            if first is None:
                yield Difference(DifferenceKind.MISSING_IN_RECORDS, None, line)
                continue

            alike.remove(first)
            paired.add(first.number)
            yield Difference(DifferenceKind.RECEIPT_DIFFERS, first.record, line)

        for number, record in missing:
            if number not in paired:
                yield Difference(DifferenceKind.MISSING_IN_STATEMENT, record, None)

    def _missing_payments(self) -> list[Held]:
        """Return the payments that the statement should have and does not."""
        without_line = (
            Held(payment, self._records.latest(payment))
            for payment in self._records.payments()
            if not (self._settled[payment] or self._contradicted[payment])
        )
        return [
            held
            for held in without_line
            if held.record.is_expected and held.record.status is Status.SUCCESS
        ]

    def _find(self, line: StatementLine) -> list[Held]:
        """Return the payments that a line may be about: those of its receipt, else those of its
        reference; if money moved in its direction by some of them, only these."""
        by_receipt = self._records.find(line.receipt or "")
        by_reference = self._records.find(line.reference or "")

        # A column's own names come first: an order's number may be another payment's receipt. What
        # else a payment is known by, or was once, may stand in either column of a ledger.
        for payments in (
            [held for held in by_receipt if line.receipt in _receipts_of(held.record)],
            [held for held in by_reference if line.reference in _references_of(held.record)],
            by_receipt,
            by_reference,
        ):
            # A payment and its reversal share names: the direction tells them apart.
            if payments:
                return [
                    held for held in payments if not _is_other_direction(held.record, line)
                ] or payments

        # M-Pesa's account numbers hold only the end of a gatewayReference.
        short = line.reference or ""
        if len(short) != SHORT_REFERENCE_CHARACTERS:
            return []

        held = self._records.find_by_end(short.upper())
        if held is None:
            return []

        return [held]

    def _differences(self, record: RecordedPayment, line: StatementLine) -> list[Difference]:
        """Return how a line differs from the payment that it is about."""
        # Of another status: what else differs follows from that.
        if record.status is not line.status:
            return [Difference(DifferenceKind.STATUS_DIFFERS, record, line)]
        if line.status is not Status.SUCCESS:
            return []

        differences = list[Difference]()
        if _is_other_direction(record, line):
            differences.append(Difference(DifferenceKind.DIRECTION_DIFFERS, record, line))

        # The currency first: amounts of two currencies can't be compared.
        currency = line.amount.currency
        more = line.amount.minor - record.amount.minor
        if record.amount.currency != currency:
            differences.append(Difference(DifferenceKind.CURRENCY_DIFFERS, record, line))
        elif abs(more) > self.tolerance.get(currency, 0):
            differences.append(Difference(DifferenceKind.AMOUNT_DIFFERS, record, line))
        elif more:
            self.tolerated[currency] += more

        return differences

    def _sent_back(self, record: RecordedPayment) -> list[Held]:
        """Return the reversals of a payment if all of its money has gone back by them: some
        statements then say of the payment itself that it is reversed."""
        # A reversal is not reversed itself.
        if record.reverses:
            return []

        payments = self._records.find(record.gateway_reference)

        back = [
            held
            for held in payments
            if held.record.reverses and held.record.status is Status.SUCCESS
        ]
        returned = sum(held.record.amount.minor for held in back)
        if returned == record.amount.minor:
            return back

        return []


def _receipts_of(record: RecordedPayment) -> tuple[str | None, ...]:
    return (record.receipt, *record.reverses)


def _references_of(record: RecordedPayment) -> tuple[str | None, ...]:
    return (record.gateway_reference, record.merchant_reference, *record.reverses)


def _nearest(candidates: list[Held], line: StatementLine) -> Held:
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda held: _distance(held.record, line))


def _distance(record: RecordedPayment, line: StatementLine) -> tuple[bool, bool]:
    """Return how unlike a line is to a payment that has its reference; a reference may have been
    used again (C12)."""
    # False sorts before True: the same status counts more than the same amount.
    return record.status is not line.status, record.amount != line.amount


def _is_other_direction(record: RecordedPayment, line: StatementLine) -> bool:
    return line.is_incoming is not None and line.is_incoming is not (record.type in MONEY_IN)


def _fee_differences(
    line: StatementLine, fee: Money, record: RecordedPayment | None
) -> list[Difference]:
    """Return the difference of a fee; where one side names none there is nothing to compare."""
    if record is None or record.fee is None or record.fee == fee:
        return []
    return [Difference(DifferenceKind.FEE_DIFFERS, record, line)]

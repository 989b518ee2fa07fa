"""Compares a statement, a merchant's ledger or an operator's, with the records, to the minor unit.

Give the records first, then the lines of the statement, one by one: each line returns its
differences at once, and `missing_lines` those that only show at the end. Only the records are held,
and lines that no record is found for but have a number to pair them by; a statement may have any
length."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from attrs import define, field, frozen

from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Status, Type
from mmo_sansio.values.money import Money

SHORT_REFERENCE_CHARACTERS: Final = 12
"""How much of a gatewayReference M-Pesa takes as an account number: its end."""
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
class RecordedPayment:
    """Holds what the records say of a payment."""

    gateway_reference: str
    merchant_reference: str | None
    receipt: str | None
    """The operator's own reference: `providerReference`."""
    type: Type
    status: Status
    amount: Money
    """What moved; of a payment that has not succeeded, what was asked for."""
    provider: str = ""
    """The provider that it was sent to; empty where it was sent to none."""
    fee: Money | None = None
    """What the provider has told of its fee; None: nothing."""
    is_expected: bool = True
    """Whether a statement of the period must have it. Others may be matched, as they lie near its
    borders."""
    reverses: tuple[str | None, ...] = ()
    """Of money that goes back: what its payment is known by. The gatewayReference is then the
    reversal's id, and the receipt that of the reversal."""
    msisdn: str = field(default="", repr=False)
    """The digits of the payer's or payee's number; empty where they are not kept."""
    ended_at: Instant | None = None


def sum_fees(payments: Iterable[RecordedPayment]) -> dict[str, int]:
    """Return the minor units of the fees that providers have told, by `provider currency`, such as
    `mpesa KES`."""
    sums = Counter[str]()
    for each in payments:
        if each.fee is not None:
            sums[f"{each.provider} {each.fee.currency}"] += each.fee.minor
    return dict(sorted(sums.items()))


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
        record, line = self.record, self.line
        return {
            "kind": self.kind.value,
            "line": line and line.number,
            "receipt": line.receipt if line and line.receipt else record and record.receipt,
            "gatewayReference": record and record.gateway_reference,
            "merchantReference": record.merchant_reference if record else line and line.reference,
            "records": record and self._record_text(record),
            "statement": line and self._line_text(line),
        }

    def _record_text(self, record: RecordedPayment) -> str:
        if self.kind is DifferenceKind.FEE_DIFFERS:
            return str(record.fee)
        what = "reversal" if record.reverses else record.type.value
        return f"{what} {record.amount} {record.status.value}"

    def _line_text(self, line: StatementLine) -> str:
        if self.kind is DifferenceKind.FEE_DIFFERS:
            return str(line.amount if line.is_fee else line.fee)
        direction = {True: "in ", False: "out ", None: ""}[line.is_incoming]
        return f"{direction}{line.amount} {line.status.value}"


@define
class Reconciliation:
    """Compares records with the lines of one statement."""

    tolerance: Mapping[str, int] = field(factory=dict)
    """By how many minor units of a currency amounts may differ and agree all the same."""
    matched: int = 0
    """Lines that are about a payment of the records."""
    unsettled: int = 0
    """Lines of payments by which no money moved, and which the records do not have."""
    fees: Counter[str] = field(factory=Counter)
    """Minor units of all fee lines and fee columns by currency."""
    tolerated: Counter[str] = field(factory=Counter)
    """Minor units by which amounts differ that agree by the tolerance, by currency: what the
    statement has more than the records, less what it has fewer."""
    _by_key: dict[str, RecordedPayment | list[RecordedPayment]] = field(factory=dict)
    """By receipt and reference; a list, which takes memory, only where several have the same."""
    _settled: set[str] = field(factory=set)
    """The gatewayReferences of the payments that have succeeded by a line."""
    _contradicted: set[str] = field(factory=set)
    """Payments that have not succeeded by a line."""
    _records: dict[str, RecordedPayment] = field(factory=dict)
    _by_short_reference: dict[str, RecordedPayment | None] | None = None
    """None until a line asks; the payment is None where several have the same end."""
    _unpaired: list[StatementLine] = field(factory=list)
    """Lines about money for which no record was found, and which have a number."""

    def add_record(self, record: RecordedPayment) -> None:
        """Add a payment of the records; all of them come before the first line."""
        self._records[record.gateway_reference] = record
        names = (
            record.gateway_reference,
            record.merchant_reference,
            record.receipt,
            *record.reverses,
        )
        for key in {*names} - {None, ""}:
            assert key is not None
            known = self._by_key.setdefault(key, record)
            if known is record:
                continue
            if isinstance(known, list):
                known.append(record)
            else:
                self._by_key[key] = [known, record]

    def recorded_fees(self) -> dict[str, int]:
        """Return the fees, as of `sum_fees`, of the payments that the statement must have."""
        return sum_fees(each for each in self._records.values() if each.is_expected)

    def check_line(self, line: StatementLine) -> list[Difference]:
        """Return how the next line of the statement differs from the records."""
        candidates = self._find(line)
        fee = line.amount if line.is_fee else line.fee
        if fee is not None:
            is_returned = line.is_fee and line.is_incoming is True
            self.fees[fee.currency] += -fee.minor if is_returned else fee.minor
        if line.is_fee:
            return _fee_differences(line, line.amount, candidates[0] if candidates else None)
        if not candidates:
            if line.status is Status.SUCCESS and line.msisdn:
                self._unpaired.append(line)
                return []
            if line.status is Status.SUCCESS:
                return [Difference(DifferenceKind.MISSING_IN_RECORDS, None, line)]
            self.unsettled += 1
            return []
        self.matched += 1
        if line.status is Status.SUCCESS and all(
            _is_other_direction(each, line) for each in candidates
        ):
            record = min(candidates, key=lambda each: _distance(each, line))
            self._contradicted.add(record.gateway_reference)
            return self._differences(record, line)
        free = [each for each in candidates if each.gateway_reference not in self._settled]
        if not free and line.status is Status.SUCCESS:
            return [Difference(DifferenceKind.DUPLICATE_LINE, candidates[0], line)]
        record = min(free or candidates, key=lambda each: _distance(each, line))
        if line.status is Status.FAILED and (back := self._sent_back(record)):
            self._settled.update(each.gateway_reference for each in (record, *back))
            return []
        if line.status is Status.SUCCESS:
            self._settled.add(record.gateway_reference)
        else:
            self._contradicted.add(record.gateway_reference)
        return [
            *self._differences(record, line),
            *(_fee_differences(line, line.fee, record) if line.fee else ()),
        ]

    def missing_lines(self) -> Iterator[Difference]:
        """Return what only the end shows: lines without a record, and payments that the statement
        should have and does not, each in their order; a line and a payment that are one but for
        the receipt are paired."""
        missing = [each for each in self._records.values() if self._is_missing(each)]
        by_what_moved = defaultdict[tuple[object, ...], deque[RecordedPayment]](deque)
        if self._unpaired:
            for record in missing:
                by_what_moved[(record.msisdn, record.amount)].append(record)

        paired = set[str]()
        for line in self._unpaired:
            alike = by_what_moved.get((line.msisdn, line.amount))
            if not alike or _is_other_direction(alike[0], line):
                yield Difference(DifferenceKind.MISSING_IN_RECORDS, None, line)
                continue
            record = alike.popleft()
            paired.add(record.gateway_reference)
            yield Difference(DifferenceKind.RECEIPT_DIFFERS, record, line)
        for record in missing:
            if record.gateway_reference not in paired:
                yield Difference(DifferenceKind.MISSING_IN_STATEMENT, record, None)

    def _is_missing(self, record: RecordedPayment) -> bool:
        return record.is_expected and record.status is Status.SUCCESS and not self._has_line(record)

    def _has_line(self, record: RecordedPayment) -> bool:
        return (
            record.gateway_reference in self._settled
            or record.gateway_reference in self._contradicted
        )

    def _find(self, line: StatementLine) -> list[RecordedPayment]:
        """Return the payments that a line may be about: those of its receipt, else those of its
        reference; if money moved in its direction by some of them, only these."""
        for key in (line.receipt, line.reference):
            if key and (found := self._known(key)):
                return [each for each in found if not _is_other_direction(each, line)] or found
        short = line.reference or ""
        known = self._short_references() if len(short) == SHORT_REFERENCE_CHARACTERS else {}
        record = known.get(short.upper())
        return [] if record is None else [record]

    def _known(self, key: str) -> list[RecordedPayment]:
        """Return the payments that have a receipt or reference."""
        found = self._by_key.get(key, [])
        return found if isinstance(found, list) else [found]

    def _short_references(self) -> Mapping[str, RecordedPayment | None]:
        """Return the payments by the end of their gatewayReferences."""
        if self._by_short_reference is None:
            self._by_short_reference = {}
            for reference, record in self._records.items():
                end = reference[-SHORT_REFERENCE_CHARACTERS:]
                is_new = end not in self._by_short_reference
                self._by_short_reference[end] = record if is_new else None
        return self._by_short_reference

    def _differences(self, record: RecordedPayment, line: StatementLine) -> list[Difference]:
        """Return how a line differs from the payment that it is about."""
        if record.status is not line.status:
            return [Difference(DifferenceKind.STATUS_DIFFERS, record, line)]
        if line.status is not Status.SUCCESS:
            return []

        found = list[Difference]()
        if _is_other_direction(record, line):
            found.append(Difference(DifferenceKind.DIRECTION_DIFFERS, record, line))
        currency, more = line.amount.currency, line.amount.minor - record.amount.minor
        if record.amount.currency != currency:
            found.append(Difference(DifferenceKind.CURRENCY_DIFFERS, record, line))
        elif abs(more) > self.tolerance.get(currency, 0):
            found.append(Difference(DifferenceKind.AMOUNT_DIFFERS, record, line))
        elif more:
            self.tolerated[currency] += more
        return found

    def _sent_back(self, record: RecordedPayment) -> list[RecordedPayment]:
        """Return the reversals of a payment if all of its money has gone back by them: some
        statements then say of the payment itself that it is reversed."""
        known = [] if record.reverses else self._known(record.gateway_reference)
        back = [each for each in known if each.reverses and each.status is Status.SUCCESS]
        return back if sum(each.amount.minor for each in back) == record.amount.minor else []


def _distance(record: RecordedPayment, line: StatementLine) -> tuple[bool, bool]:
    """Return how unlike a line is to a payment that has its reference; a reference may have been
    used again (C12)."""
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

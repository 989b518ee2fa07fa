"""Holds the records of a comparison in memory, a million of them: each as a short run of bytes, and
what it is known by as an entry of eight."""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from attrs import define, field, frozen

from mmo_merchant.reconciliation.key_index import KeyIndex
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Status, Type
from mmo_sansio.values.money import Money

# How much of a gatewayReference M-Pesa takes as an account number: its end.
SHORT_REFERENCE_CHARACTERS: Final = 12

# Type, status, currency, provider, whether a statement must have the payment, and whether that is
# simulated.
_Alike: TypeAlias = tuple[Type, Status, str, str, bool, bool]


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
    is_simulated: bool = False
    """Whether the gateway's own records say that no money moved by it."""

    @property
    def mark(self) -> str:
        """Return what sums of it and words about it begin with, as it is not added to money."""
        if self.is_simulated:
            return "simulated "
        return ""

    @property
    def names(self) -> tuple[str | None, ...]:
        """Return what a line may know it by; None and empty texts are no names."""
        return (self.gateway_reference, self.merchant_reference, self.receipt, *self.reverses)


class Held(NamedTuple):
    """Is a payment that is held, with its number, from 0, in the order of the records."""

    number: int
    record: RecordedPayment


@define
class HeldRecords:
    """Holds payments, and finds them by what they are known by."""

    _packed: bytearray = field(factory=bytearray)
    _ends: array[int] = field(factory=lambda: array("Q"))
    """Where the bytes of each record end."""
    _alike: list[_Alike] = field(factory=list)
    """What many records have alike, which is held once."""
    _alike_numbers: dict[_Alike, int] = field(factory=dict)
    _by_name: KeyIndex = field(factory=KeyIndex)
    _by_end: KeyIndex | None = None
    """By the ends of gatewayReferences; None until a line asks."""
    _first: dict[int, int] = field(factory=dict)
    """Of a record whose payment was added before, by its number: the payment's number."""
    _last: dict[int, int] = field(factory=dict)
    """Of a payment that was added more than once: the number of its last record."""

    def add(self, record: RecordedPayment) -> RecordedPayment | None:
        """Hold a record; return the one that the same payment had before, of which lines may still
        know the names."""
        # Records stand behind each other in one run of bytes; the ends tell where each begins.
        number = len(self._ends)
        self._packed += self._pack(record)
        self._ends.append(len(self._packed))

        names = {name for name in record.names if name}
        known_names = [name for name in names if not self._by_name.add(name, number)]
        if record.gateway_reference not in known_names:
            return None

        payment = self._find_payment(record.gateway_reference)

        # Another payment may have this text as its merchantReference: that is no second record.
        if payment == number:
            return None

        before = self.latest(payment)
        self._first[number] = payment
        self._last[payment] = number
        return before

    def _find_payment(self, gateway_reference: str) -> int:
        """Return the number of the payment with this reference, of which there is a record."""
        return next(
            number
            for number in self._by_name.find(gateway_reference)
            if self._record(number).gateway_reference == gateway_reference
        )

    def payments(self) -> Iterator[int]:
        """Yield the numbers of the payments."""
        return (number for number in range(len(self._ends)) if number not in self._first)

    def latest(self, payment: int) -> RecordedPayment:
        """Return what the records say of a payment, by its number: the last that was added."""
        return self._record(self._last.get(payment, payment))

    def find(self, name: str) -> list[Held]:
        """Return the payments that are known by a name, or were by an earlier record, in their
        order: each once, as the records say of it at last."""
        # The index only says which records may have the name.
        payments = dict[int, RecordedPayment]()
        for number in self._by_name.find(name):
            if name in (record := self._record(number)).names:
                payments[self._first.get(number, number)] = record

        held = []
        for payment, record in payments.items():
            # Unpacked again only where a later record has taken its place.
            if payment in self._last:
                held.append(Held(payment, self.latest(payment)))
            else:
                held.append(Held(payment, record))

        return held

    def find_by_end(self, end: str) -> Held | None:
        """Return the payment whose gatewayReference ends so; None where none or several do."""
        # Made when the first line asks: most statements have whole references.
        if self._by_end is None:
            self._by_end = KeyIndex()
            for payment in self.payments():
                reference = self._record(payment).gateway_reference
                self._by_end.add(reference[-SHORT_REFERENCE_CHARACTERS:], payment)

        payments = [
            payment
            for payment in self._by_end.find(end)
            if self._record(payment).gateway_reference.endswith(end)
        ]
        # Two payments with one end: which of them is meant, nobody can tell.
        if len(payments) == 1:
            return Held(payments[0], self.latest(payments[0]))

        return None

    def _record(self, number: int) -> RecordedPayment:
        begin = 0
        if number:
            begin = self._ends[number - 1]
        return self._unpack(self._packed[begin : self._ends[number]])

    def _pack(self, record: RecordedPayment) -> bytes:
        """Return the bytes of a record: an eighth of what the object takes."""
        alike = (
            record.type,
            record.status,
            record.amount.currency,
            record.provider,
            record.is_expected,
            record.is_simulated,
        )
        if alike not in self._alike_numbers:
            self._alike_numbers[alike] = len(self._alike)
            self._alike.append(alike)

        fee = None
        if record.fee is not None:
            fee = (record.fee.minor, record.fee.currency)

        # Only for bytes that this process has packed itself: those of others may crash it.
        return marshal.dumps(
            (
                record.gateway_reference,
                record.merchant_reference,
                record.receipt,
                record.amount.minor,
                self._alike_numbers[alike],
                fee,
                record.reverses,
                record.msisdn,
                record.ended_at,
            )
        )

    def _unpack(self, packed: bytearray) -> RecordedPayment:
        (
            gateway_reference,
            merchant_reference,
            receipt,
            minor,
            alike_number,
            fee,
            reverses,
            msisdn,
            ended_at,
        ) = marshal.loads(packed)
        type_, status, currency, provider, is_expected, is_simulated = self._alike[alike_number]
        told_fee = None
        if fee is not None:
            told_fee = Money(*fee)

        return RecordedPayment(
            gateway_reference=gateway_reference,
            merchant_reference=merchant_reference,
            receipt=receipt,
            type=type_,
            status=status,
            amount=Money(minor, currency),
            provider=provider,
            fee=told_fee,
            is_expected=is_expected,
            reverses=reverses,
            msisdn=msisdn,
            ended_at=ended_at,
            is_simulated=is_simulated,
        )

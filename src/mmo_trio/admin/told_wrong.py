"""Finds payments whose provider now says otherwise than their merchants were told, and writes what
to send them (S5).

The result of a payment never changes and its callback is sent once, so only a person can tell the
merchant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve, frozen

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.payments.evidence import CONTRARY_REASONS, contradicts
from mmo_sansio.values.clock import Instant, format_with_microseconds
from mmo_sansio.values.model import Status, Transaction, Type
from mmo_sansio.values.money import Money, parse_number, to_money
from mmo_sansio.values.number_format import format_amount, format_amounts_in
from mmo_sansio.values.reversals import Reversal, left_of, reversed_minor
from mmo_trio.storage.interface.admin_types import SuspenseEntry
from mmo_trio.storage.sql.store import Store

# Entries of the suspense book that are read from the store at once.
ENTRIES_READ = 100


@frozen
class ReceiptOwner:
    """Says what else than the payment has the receipt of a report: its money was credited once."""

    reference: str | None
    """The gatewayReference of a payment or deposit of the same brand; None: it is another brand's,
    which a merchant never learns, or a deposit that belongs to no payment yet."""


@frozen
class ToldWrong:
    """Describes a payment with a report that says the opposite of what its merchant was told."""

    transaction: Transaction
    entry: SuspenseEntry
    """The open entry of the suspense book with the report: the newest, one that the provider has
    confirmed first."""
    called_back_at: Instant | None
    """When the merchant took the callback; None: look-ups and records alone tell the result."""
    reversals: Sequence[Reversal] = ()
    """The payment's reversals: what has gone back, or may."""
    receipt_owner: ReceiptOwner | None = None
    """What else has the receipt of the report; None: nothing has, or the report names none."""

    @property
    def told_at(self) -> Instant:
        """Return when the merchant took the callback, or since when look-ups have told the
        result."""
        ended_at = self.transaction.progress.completed_at
        assert ended_at is not None  # Only what has ended was told.
        return self.called_back_at or ended_at

    @property
    def reported(self) -> Status:
        """Return what the provider says now."""
        if self.transaction.status is Status.SUCCESS:
            return Status.FAILED
        return Status.SUCCESS

    @property
    def is_confirmed(self) -> bool:
        """Tell whether the report is more than a notification that the provider has not confirmed
        when asked."""
        return _is_confirmed(self.entry)

    @property
    def receipt(self) -> str | None:
        """Return the receipt of the report, or of the success that was told; None when neither
        names one."""
        told = None
        if self.transaction.status is Status.SUCCESS:
            told = self.transaction.progress.provider_reference
        # A later report may name none; the success itself had one.
        return _member(self.entry, "providerReference") or told

    @property
    def amount(self) -> str | None:
        """Return the amount of the report, such as `450.00 KES`; None when it names none."""
        return _member(self.entry, "amount")

    @property
    def reported_money(self) -> Money:
        """Return what the provider has moved by its report: what was requested where that names no
        amount."""
        if self.amount is None:
            return self.transaction.order.requested

        number, currency = self.amount.split()
        return to_money(parse_number(number), currency)

    @property
    def _own_reversals(self) -> Sequence[Reversal]:
        """Return those of the reported money: one by another receipt has moved other money back."""
        receipts = (None, self.receipt)
        if self.receipt is None:
            return self.reversals
        return [reversal for reversal in self.reversals if reversal.receipt in receipts]

    @property
    def has_other_returns(self) -> bool:
        """Tell whether money has gone back, or may, by another receipt: an operator may know the
        same money by two ids, so only a person can tell whether this is other money."""
        own = self._own_reversals
        return any(reversal.is_counted for reversal in self.reversals if reversal not in own)

    @property
    def back(self) -> Money:
        """Return what has gone back."""
        moved = (reversal for reversal in self._own_reversals if reversal.state.has_moved)
        return Money(reversed_minor(moved), self.transaction.order.requested.currency)

    @property
    def may_go_back(self) -> Money:
        """Return what is asked back, and may go back."""
        open_ = (reversal for reversal in self._own_reversals if not reversal.state.has_ended)
        return Money(reversed_minor(open_), self.transaction.order.requested.currency)

    @property
    def left(self) -> Money:
        """Return what neither has gone back nor may."""
        left = left_of(self.reported_money, self._own_reversals)
        # More may have gone back than was reported: nothing is left then, and nothing is owed.
        return Money(max(left.minor, 0), left.currency)

    @property
    def is_settled(self) -> bool:
        """Tell whether all that was paid after the payment had failed has gone back: what the
        merchant was told is right then."""
        is_paid = self.reported is Status.SUCCESS and self.is_confirmed
        return is_paid and self.back.minor >= self.reported_money.minor


def find_told_wrong(
    transaction: Transaction,
    suspense: Iterable[SuspenseEntry],
    callbacks: Iterable[CallbackRecorded],
    reversals: Sequence[Reversal] = (),
) -> ToldWrong | None:
    """Return the payment with the report that contradicts its end; None when no open entry of its
    suspense does, or all of the money has gone back."""
    if transaction.status is Status.PENDING:
        return None

    # Open entries only: what people have looked into needs no message any more.
    succeeded = transaction.status is Status.SUCCESS
    contrary = [
        entry
        for entry in suspense
        if entry.closed_at is None
        and entry.reason in CONTRARY_REASONS
        and contradicts(succeeded, entry.reason, entry.content)
    ]
    if not contrary:
        return None

    # From the first delivery on the merchant has believed it.
    delivered = [
        callback.at
        for callback in callbacks
        if callback.attempt.outcome is DeliveryOutcome.DELIVERED
    ]
    # A report that the provider has confirmed counts more than a newer one that it has not.
    entry = max(contrary, key=lambda entry: (_is_confirmed(entry), entry.id))
    wrong = ToldWrong(transaction, entry, min(delivered, default=None), reversals)
    if wrong.is_settled:
        return None

    return wrong


async def list_told_wrong(
    store: Store, *, brand: str | None = None, before: int | None = None, limit: int
) -> list[ToldWrong]:
    """Return such payments, once each, by their entries with ids below a number, the newest
    first."""
    told_wrong: list[ToldWrong] = []
    while True:
        entries = await store.admin.suspense_entries(
            reasons=CONTRARY_REASONS, before=before, limit=ENTRIES_READ
        )
        # The payments of all entries at once, then only those that an entry contradicts.
        references = [
            entry.gateway_reference
            for entry in entries
            if entry.gateway_reference and brand in (None, entry.brand)
        ]
        payments = await store.transactions(references)
        for entry in entries:
            payment = payments.get(entry.gateway_reference or "")
            if payment is None or find_told_wrong(payment, [entry], ()) is None:
                continue

            # Of several entries of one payment the one that counts names it, so it comes once.
            wrong = await _load(store, payment)
            if wrong is not None and wrong.entry.id == entry.id:
                told_wrong.append(wrong)

            if len(told_wrong) == limit:
                return told_wrong

        if len(entries) < ENTRIES_READ:
            return told_wrong

        before = entries[-1].id


async def load_told_wrong(
    store: Store,
    transaction: Transaction,
    suspense: Iterable[SuspenseEntry],
    callbacks: Iterable[CallbackRecorded],
    reversals: Sequence[Reversal],
) -> ToldWrong | None:
    """Return what `find_told_wrong` does, with what else has the receipt of the report."""
    wrong = find_told_wrong(transaction, suspense, callbacks, reversals)
    if wrong is None or wrong.reported is not Status.SUCCESS or wrong.receipt is None:
        return wrong

    owner = await _find_receipt_owner(store, transaction, wrong.receipt)
    return evolve(wrong, receipt_owner=owner)


async def _find_receipt_owner(
    store: Store, transaction: Transaction, receipt: str
) -> ReceiptOwner | None:
    # A deposit that was booked, or a claim of this receipt by something else.
    provider = transaction.order.provider
    reference = await store.deposit_of(provider, receipt)
    if reference is None:
        claim = await store.deposit_claim(provider, receipt)
        if claim is None or claim.payment == transaction.reference:
            return None

        reference = claim.payment

    if reference is None:
        return ReceiptOwner(None)

    # Another brand's payment is never named to this merchant.
    owner = await store.transaction(reference)
    is_own = owner is not None and owner.order.brand == transaction.order.brand
    return ReceiptOwner(reference if is_own else None)


async def _load(store: Store, payment: Transaction) -> ToldWrong | None:
    return await load_told_wrong(
        store,
        payment,
        await store.admin.suspense_of_payment(payment.reference),
        await store.admin.callbacks(gateway_reference=payment.reference),
        await store.reversals(payment.reference),
    )


def merchant_message(wrong: ToldWrong) -> str:
    """Return a text in plain English that staff can send to the merchant."""
    order = wrong.transaction.order
    progress = wrong.transaction.progress
    entry = wrong.entry

    # 1. Which payment, by the merchant's own name.
    name = "an offline deposit"
    if order.merchant_reference:
        name = f"your reference {order.merchant_reference}"

    # 2. What we told, how, and when.
    words = {Status.SUCCESS: "was paid", Status.FAILED: "failed"}
    told = words[wrong.transaction.status]
    if progress.error_code:
        told += f" ({progress.error_code})"

    how = f"We told you by callback on {_time(wrong.told_at)} that it {told}."
    if wrong.called_back_at is None:
        how = (
            f"Since {_time(wrong.told_at)} our API has said that it {told}. You have not "
            f"confirmed a callback."
        )

    # 3. What the provider says instead, with what the report has of it.
    details = [
        _member(entry, "errorCode"),
        wrong.amount,
        wrong.receipt and f"receipt {wrong.receipt}",
    ]
    report = format_amounts_in(", ".join(detail for detail in details if detail))
    reported = words[wrong.reported]
    if report:
        reported += f", {report}"

    amount = format_amount(order.requested)
    return "\n".join(
        (
            f"Payment {order.gateway_reference} ({name}), {order.type} of {amount} by "
            f"{order.provider_title}:",
            how,
            f"{order.provider_title} has reported otherwise on {_time(entry.first_at)}: it "
            f"{reported}.",
            *_returns(wrong),
            _advice(wrong),
            "Our API does not change the result, and no second callback follows: please correct "
            "your own books.",
            f"For questions, answer to this message and name the payment and our entry {entry.id}.",
        )
    )


def _returns(wrong: ToldWrong) -> Iterator[str]:
    """Tell what has gone back of the money, and what may."""
    to = "from the payee"
    if wrong.transaction.order.type is Type.PAYIN:
        to = "to the payer"

    if wrong.back.minor:
        yield f"{format_amount(wrong.back)} of it has gone back {to}."
    if wrong.may_go_back.minor:
        yield f"{format_amount(wrong.may_go_back)} of it is asked back, and may go back {to}."


def _advice(wrong: ToldWrong) -> str:
    # The first case that fits, the one in which most can go wrong first.
    is_payin = wrong.transaction.order.type is Type.PAYIN

    # 1. We told "success", and the money may not be there.
    if wrong.reported is Status.FAILED:
        if is_payin:
            return (
                "You may not have the money. Do not deliver, if you have not yet, before we write "
                "to you again."
            )
        return "The payee may not have the money. Do not pay again before we write to you again."

    # 2. We told "failed", and nobody knows yet.
    if not wrong.is_confirmed:
        forbidden = "pay again"
        if is_payin:
            forbidden = "ask the payer to pay again, and do not deliver,"
        return f"It has not confirmed that yet. Do not {forbidden} before we write to you again."

    # 3. The money was credited as something else: delivering would be for the second time.
    if wrong.receipt_owner is not None:
        return _advice_on_credited(wrong.receipt_owner, is_payin=is_payin)

    # 4. Money went back by another receipt: only a person can tell whether it is the same.
    if wrong.has_other_returns:
        forbidden = "pay again"
        if is_payin:
            forbidden = "deliver, and do not pay it back yourself,"
        return (
            "Money of this payment has gone back, or may, by another receipt. Do not "
            f"{forbidden} before we write to you again."
        )

    # 5. Some or all went back, or may.
    if wrong.back.minor or wrong.may_go_back.minor:
        return _advice_on_returns(wrong, is_payin=is_payin)

    # 6. The money has moved, and stays.
    if is_payin:
        return "You have the money: deliver, or pay it back. Do not ask the payer to pay again."

    return (
        "The payee has the money: do not pay again. If you have already, answer to this "
        "message at once."
    )


def _advice_on_credited(owner: ReceiptOwner, *, is_payin: bool) -> str:
    """Return what to do where the money of the report was credited as something else."""
    if not is_payin:
        return "Its receipt is that of another payment. Do not pay again before we write to you."

    if owner.reference is None:
        return (
            "Its receipt is that of another payment or deposit. Do not deliver, and do not ask the "
            "payer to pay again, before we write to you again."
        )

    return (
        f"This money is already credited to you as {owner.reference}: do not deliver again. Do not "
        "ask the payer to pay again."
    )


def _advice_on_returns(wrong: ToldWrong, *, is_payin: bool) -> str:
    """Return what to do where money of a payment that was paid after all has gone back, or may."""
    if not is_payin:
        return "Do not pay again before we write to you again."

    if not wrong.left.minor:
        return (
            "Do not deliver, and do not pay it back yourself: it would go back twice. Do not ask "
            "the payer to pay again before we write to you again."
        )

    return (
        f"You keep {format_amount(wrong.left)}: agree with the payer what to deliver for that, or "
        "pay that back, and no more. Do not ask the payer to pay again."
    )


def _is_confirmed(entry: SuspenseEntry) -> bool:
    # Claims and unsigned notifications say whether the provider has confirmed them; other reports
    # are its own word.
    return json.loads(entry.content).get("confirmed") is not False


def _member(entry: SuspenseEntry, name: str) -> str | None:
    value = json.loads(entry.content).get(name)
    if value is None:
        return None
    return str(value)


def _time(at: Instant) -> str:
    return f"{format_with_microseconds(at)[:19].replace('T', ' ')} UTC"

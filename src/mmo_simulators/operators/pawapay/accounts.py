"""Holds the money of the simulated pawaPay: wallets, payments that wait for a result, and their
callbacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import Factory, define

from mmo_sansio.values.clock import MINUTE, SECOND, Instant, Span, later, to_datetime
from mmo_sansio.values.money import Money, parse_number, to_money
from mmo_simulators.common.faults import CallBack, EndAfter, EndWith, Fault, PollWith, find_fault
from mmo_simulators.common.simulator import DueQueue, account_row, earliest, payment_row
from mmo_simulators.operators.pawapay.markets import (
    STUCK,
    WALLETS,
    OperationType,
    SimulatedCountry,
    SimulatedProvider,
)

# The balance in whole units of a wallet that was not opened before.
OPENING_BALANCE: Final = "10000000"

COMPLETED: Final = "COMPLETED"

# What the availability of a provider may be (documented). While it is delayed pay-outs wait for it,
# and deposits are refused.
OPERATIONAL: Final = "OPERATIONAL"
DELAYED: Final = "DELAYED"
CLOSED: Final = "CLOSED"

# How long after a callback without a response of 200 the next one is sent: for 15 minutes in all
# (documented; when in them is not).
REPETITION_DELAYS: Final = tuple(Span(minutes * MINUTE) for minutes in (0, 1, 2, 4, 8))

# How long after its acceptance a deposit has its page.
PAGE_DELAY: Final = Span(SECOND)

# How long a payer may approve there.
PAGE_LASTS: Final = Span(15 * MINUTE)

NOT_APPROVED: Final = "PAYMENT_NOT_APPROVED"

# The code of a payer that the operator does not take; it takes any other.
WRONG_CODE: Final = "000000"


@define(eq=False)
class SimulatedPawapayPayment:
    """A deposit, pay-out or refund that was accepted."""

    operation: OperationType
    id: str
    """The merchant's id: a UUID."""
    country: SimulatedCountry
    provider: SimulatedProvider
    msisdn: str
    amount: Money
    document: Mapping[str, Any]
    """The submission's body."""
    created_at: Instant
    ending: str
    """The result to come: COMPLETED or a failure code; a lack of money may prevent the former."""
    callback_delays: tuple[Span, ...] = (Span(0),)
    message: str | None = None
    polled_code: str | None = None
    """The failure code that status checks are answered with; None: its own result."""
    refunded: SimulatedPawapayPayment | None = None
    """The deposit that a refund gives back."""
    takes: Span | None = None
    """How long the result takes; None: there is none."""
    is_enqueued: bool = False
    page_url: str | None = None
    """Where its payer approves; None: elsewhere."""
    is_approved: bool | None = None
    """What the payer has said there; None: nothing."""
    ends_at: Instant | None = None
    """When its result is due; None: it is not known."""
    result: str | None = None
    receipt: str | None = None
    callback_count: int = 0

    def page_at(self, now: Instant) -> str | None:
        """Return the page where the payer may approve now, if there is one."""
        is_open = self.is_approved is None and self.result is None
        if is_open and now >= later(self.created_at, PAGE_DELAY):
            return self.page_url
        return None

    @property
    def debited_and_credited(self) -> tuple[str, str]:
        """The holder of the wallet that pays, and of the one that is paid."""
        ours = self.country.code
        theirs = self.msisdn
        if self.operation is OperationType.DEPOSIT:
            return (theirs, ours)
        return (ours, theirs)


@define(eq=False)
class SimulatedPawapayAccounts:
    """Holds the merchant's wallets, one for each country and currency, and everybody else's.

    A wallet is called `UGA/UGX` or `256783456789/UGX`.
    """

    approval_delay: Span = Span(2 * SECOND)
    """How long a payer takes to approve."""
    payments: dict[tuple[OperationType, str], SimulatedPawapayPayment] = Factory(dict)
    _balances: dict[str, Money] = Factory(dict)
    _availability: dict[tuple[str, OperationType], str] = Factory(dict)
    """By provider; OPERATIONAL where there is no entry."""
    _enqueued: Sequence[SimulatedPawapayPayment] = ()
    _pending_results: DueQueue[SimulatedPawapayPayment] = Factory(DueQueue)
    _pending_callbacks: DueQueue[tuple[SimulatedPawapayPayment, int]] = Factory(DueQueue)
    """Each with the number of callbacks that were in vain before it."""

    def __attrs_post_init__(self) -> None:
        for country, currency in WALLETS:
            self.open_wallet(f"{country.code}/{currency}", OPENING_BALANCE)

    def open_wallet(self, wallet: str, balance: str) -> None:
        """Open a wallet, or change it. Raises ValueError for an invalid name or balance."""
        holder, _, currency = wallet.partition("/")
        if not holder or currency not in {wallet_currency for _, wallet_currency in WALLETS}:
            raise ValueError("account must be a country or a number, and a currency: ZMB/ZMW")
        # Read before anything changes: a bad balance opens nothing.
        self._balances[wallet] = to_money(parse_number(balance), currency)

    def balance(self, holder: str, currency: str) -> Money:
        """Return the balance of a country's wallet or of a number's, which is opened if there is
        none."""
        wallet = f"{holder}/{currency}"
        if wallet not in self._balances:
            self.open_wallet(wallet, OPENING_BALANCE)
        return self._balances[wallet]

    def set_availability(self, provider: str, operation: OperationType, status: str) -> None:
        """Set what a provider can process. Raises ValueError."""
        if status not in (OPERATIONAL, DELAYED, CLOSED):
            raise ValueError(f"{operation} must be {OPERATIONAL}, {DELAYED} or {CLOSED}")
        self._availability[provider, operation] = status

    def status_of(self, provider: SimulatedProvider, operation: OperationType) -> str:
        """Return the availability of an operation."""
        return self._availability.get((provider.code, operation), OPERATIONAL)

    def has_funds_for(self, payment: SimulatedPawapayPayment) -> bool:
        """Return whether the wallet that pays has the amount."""
        balance = self.balance(payment.debited_and_credited[0], payment.amount.currency)
        return balance.minor >= payment.amount.minor

    def refunds_of(self, deposit: SimulatedPawapayPayment) -> Iterator[SimulatedPawapayPayment]:
        """Yield the refunds of a deposit that have not failed."""
        for payment in self.payments.values():
            if payment.refunded is deposit and payment.result in (None, COMPLETED):
                yield payment

    def accept(
        self, payment: SimulatedPawapayPayment, faults: Sequence[Fault], *, now: Instant
    ) -> None:
        """Accept a submission; a fault decides its result, or else the test number."""
        # 1. What a script says of this submission.
        scripted = find_fault(EndWith, faults)
        if scripted is not None:
            payment.ending = scripted.code
            payment.message = scripted.message

        polled = find_fault(PollWith, faults)
        if polled is not None:
            payment.polled_code = polled.code

        callback = find_fault(CallBack, faults)
        if callback is not None:
            payment.callback_delays = callback.after

        # 2. How long it takes: as long as a payer, or for ever, where nothing says otherwise.
        payment.takes = self.approval_delay
        if payment.ending == STUCK:
            payment.takes = None

        delayed = find_fault(EndAfter, faults)
        if delayed is not None:
            payment.takes = delayed.span

        self.payments[payment.operation, payment.id] = payment
        # What was enqueued before it goes first, where its provider works again.
        self._process([*self._enqueued, payment], now=now)

    def complete_due(self, *, now: Instant) -> None:
        """Process what was enqueued, where that is possible again, and give every payment its
        result that is due."""
        self._process(self._enqueued, now=now)
        for at, payment in self._pending_results.take_due(now=now):
            # Its payer has said something before the page had ended: another time is scheduled.
            if at != payment.ends_at:
                continue

            payment.result = self._transfer(payment)
            if payment.result == COMPLETED:
                # Made of the id, so that a payment has the same receipt in each run; of its end, as
                # it begins with the time.
                payment.receipt = str(int(payment.id[-12:], 16) % 9_000_000_000 + 1_000_000_000)

            for delay in payment.callback_delays:
                self._pending_callbacks.schedule((payment, 0), at=later(at, delay))

    def approve(self, payment: SimulatedPawapayPayment, is_approved: bool, *, now: Instant) -> None:
        """Record what the payer says at the page, once."""
        if payment.page_at(now) is None:
            return

        payment.is_approved = is_approved
        takes: Span | None = Span(0)
        if is_approved:
            takes = payment.takes

        # Never: a stuck payment stays so, and its page's own end is called off.
        if takes is None:
            payment.ends_at = None
        else:
            self._schedule_result(payment, at=later(now, takes))

    def call_back(self, payment: SimulatedPawapayPayment, vain: int = 0, *, now: Instant) -> None:
        """Schedule the callback after this number of callbacks in vain, if there is another one."""
        if vain < len(REPETITION_DELAYS):
            self._pending_callbacks.schedule(
                (payment, vain), at=later(now, REPETITION_DELAYS[vain])
            )

    def take_due_callbacks(self, *, now: Instant) -> Iterator[tuple[SimulatedPawapayPayment, int]]:
        """Remove and yield the payments to call back now, each with the number of callbacks in vain
        before."""
        for _, (payment, vain) in self._pending_callbacks.take_due(now=now):
            payment.callback_count += 1
            yield payment, vain

    def next_due_at(self) -> Instant | None:
        """Return when the next result or callback is due."""
        return earliest(self._pending_results.next_due_at(), self._pending_callbacks.next_due_at())

    def snapshot(self) -> Mapping[str, Any]:
        """Return every balance and every payment that was accepted."""
        accounts = [account_row(wallet, balance) for wallet, balance in self._balances.items()]
        rows = []
        for payment in self.payments.values():
            result = payment.result
            if result == COMPLETED:
                result = "success"

            rows.append(
                payment_row(
                    payment.operation.lower(),
                    payment.document.get("clientReferenceId", payment.id),
                    payment.receipt,
                    payment.msisdn,
                    payment.amount,
                    result,
                    payment.callback_count,
                )
            )

        return {"accounts": accounts, "payments": rows}

    def _process(self, payments: Sequence[SimulatedPawapayPayment], *, now: Instant) -> None:
        """Enqueue the payments whose provider does not process them yet, and let the others
        begin."""
        for payment in payments:
            payment.is_enqueued = self.status_of(payment.provider, payment.operation) != OPERATIONAL
            if payment.is_enqueued:
                continue

            # A page ends by itself, whoever comes or doesn't.
            takes = payment.takes
            if payment.page_url is not None:
                takes = PAGE_LASTS
            if takes is not None:
                self._schedule_result(payment, at=later(now, takes))
        self._enqueued = [payment for payment in payments if payment.is_enqueued]

    def _schedule_result(self, payment: SimulatedPawapayPayment, *, at: Instant) -> None:
        """Schedule the result of a payment, in the place of any that was scheduled before."""
        payment.ends_at = at
        self._pending_results.schedule(payment, at=at)

    def _transfer(self, payment: SimulatedPawapayPayment) -> str:
        # 1. What the payer has said, or not said.
        if payment.page_url is not None and not payment.is_approved:
            return NOT_APPROVED
        if payment.document.get("preAuthorisationCode") == WRONG_CODE:
            return NOT_APPROVED

        # 2. What a script or the test number says; 3. whose wallet is enough.
        if payment.ending not in (COMPLETED, STUCK):
            return payment.ending

        if not self.has_funds_for(payment):
            is_deposit = payment.operation is OperationType.DEPOSIT
            if is_deposit:
                return "INSUFFICIENT_BALANCE"
            return "PAWAPAY_WALLET_OUT_OF_FUNDS"

        currency = payment.amount.currency
        minor = payment.amount.minor
        for holder, change in zip(payment.debited_and_credited, (-minor, minor), strict=True):
            self._balances[f"{holder}/{currency}"] = Money(
                self.balance(holder, currency).minor + change, currency
            )

        return COMPLETED


def timestamp(instant: Instant) -> str:
    """Write `2020-10-19T11:17:01Z`."""
    return to_datetime(instant).strftime("%Y-%m-%dT%H:%M:%SZ")


def payment_document(payment: SimulatedPawapayPayment, result: str | None) -> dict[str, Any]:
    """Return the payment as callbacks and status checks tell it, with this result."""
    # Of pawaPay's words between acceptance and result these two are enough for a merchant.
    if result == COMPLETED:
        status = COMPLETED
    elif result is not None:
        status = "FAILED"
    elif payment.is_enqueued:
        status = "ENQUEUED"
    else:
        status = "PROCESSING"

    account = {"phoneNumber": payment.msisdn, "provider": payment.provider.code}
    document: dict[str, Any] = {
        payment.operation.id_member: payment.id,
        "status": status,
        "amount": payment.amount.text,
        "currency": payment.amount.currency,
        "country": payment.country.code,
        payment.operation.party_member: {"type": "MMO", "accountDetails": account},
        "created": timestamp(payment.created_at),
    }
    if "customerMessage" in payment.document:
        document["customerMessage"] = payment.document["customerMessage"]

    if result == COMPLETED:
        document["providerTransactionId"] = payment.receipt
    elif result is not None:
        words = payment.message or f"{result.replace('_', ' ').capitalize()}."
        document["failureReason"] = {"failureCode": result, "failureMessage": words}

    # What was a list of objects comes back as one object, without the marks of personal data.
    if "metadata" in payment.document:
        fields = [
            entry.items() - {("isPII", True), ("isPII", False)}
            for entry in payment.document["metadata"]
        ]
        document["metadata"] = dict(field for entry in fields for field in entry)

    return document

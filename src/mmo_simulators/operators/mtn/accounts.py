"""Holds the money of the simulated MTN MoMo: wallets, payments that wait for a result, and their
callbacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import SECOND, Instant, Span, later
from mmo_sansio.values.money import Money, parse_number, to_money
from mmo_simulators.common.faults import CallBack, EndAfter, EndWith, Fault, find_fault
from mmo_simulators.common.messages import JSON_HEADERS, json_response
from mmo_simulators.common.simulator import DueQueue, account_row, earliest, payment_row
from mmo_simulators.operators.mtn.sandbox_numbers import (
    DELAYED,
    ONGOING,
    OUTCOMES_BY_NUMBER,
    SUCCESSFUL,
)
from mmo_simulators.operators.mtn.submissions import PRODUCTS, REFUNDED, SubmissionKind

# The balance in whole units of a wallet or account that was not opened before.
OPENING_BALANCE: Final = "1000000"

# The sandbox's own description of 46733123453: pending, then paid after half a minute.
ONGOING_DELAY = Span(30 * SECOND)


@define(eq=False)
class SimulatedMtnPayment:
    """A submission that was accepted."""

    kind: SubmissionKind
    reference_id: str
    document: Mapping[str, Any]
    """The submission's body."""
    amount: Money
    party: str
    """The number of the other party; empty for a refund of a payment that does not exist."""
    callback_url: str | None
    outcome: str
    """The result to come: SUCCESSFUL or a reason; a lack of money may prevent the former."""
    message: str | None
    callback_delays: tuple[Span, ...]
    result: str | None = None
    receipt: str | None = None
    callback_count: int = 0
    ended_at: Instant | None = None
    refunded_minor: int = 0
    """How much of a request to pay was given back."""


@define(eq=False)
class SimulatedMtnAccounts:
    """Holds the accounts of one market, with one merchant."""

    currency: str = "EUR"
    approval_delay: Span = Span(2 * SECOND)
    """How long a payer takes to approve."""
    has_implicit_wallets: bool = True
    """Whether a number without an opened wallet has one all the same."""
    has_reason_objects: bool = False
    """Whether a failed payment's reason is `{"code", "message"}`; otherwise it is the code alone.
    """
    numbers_as_seen: bool = False
    """Whether …453 and …454 do what MTN's sandbox was seen to do (nkap, September 2026): the first
    fails as EXPIRED after a while, the second is CREATED and never ends. Otherwise they do what the
    documentation says; another report of 2026 saw …453 succeed."""
    callback_method: str = "PUT"
    refundable_for: Span | None = None
    """How long after its result a request to pay can be refunded; None: always, as the
    documentation names no limit."""
    _balances: dict[str, Money] = Factory(dict)
    _payments: dict[str, SimulatedMtnPayment] = Factory(dict)
    _pending_results: DueQueue[SimulatedMtnPayment] = Factory(DueQueue)
    _pending_callbacks: DueQueue[HttpRequest] = Factory(DueQueue)
    _callback_payments: dict[HttpRequest, SimulatedMtnPayment] = Factory(dict)

    def __attrs_post_init__(self) -> None:
        for account in PRODUCTS:
            self.open_account(account, OPENING_BALANCE)

    def open_account(self, account: str, balance: str) -> None:
        """Open an account, or change it. Raises ValueError for an invalid balance."""
        self._balances[account] = to_money(parse_number(balance), self.currency)

    def balance(self, account: str) -> Money | None:
        """Return the balance of an account; None when there is no such wallet."""
        if account not in self._balances and self.has_implicit_wallets:
            self.open_account(account, OPENING_BALANCE)
        return self._balances.get(account)

    def find_payment(self, reference_id: str) -> SimulatedMtnPayment | None:
        """Return the payment with this X-Reference-Id."""
        return self._payments.get(reference_id)

    def accept_submission(
        self,
        kind: SubmissionKind,
        reference_id: str,
        document: Mapping[str, Any],
        amount: Money,
        callback_url: str | None,
        faults: Sequence[Fault],
        *,
        now: Instant,
    ) -> None:
        """Accept a submission; a fault decides its result, or else its test value."""
        # 1. The result: a script's, the test number's, or a success.
        scripted = find_fault(EndWith, faults)
        outcome = OUTCOMES_BY_NUMBER[kind.name].get(kind.test_value(document), SUCCESSFUL)
        message = None
        if scripted is not None:
            outcome = scripted.code
            message = scripted.message

        # 2. The other party: of a refund that of the payment, if there is one.
        party = ""
        refunded = self._refunded_payment(document)
        if kind.party:
            party = kind.test_value(document)
        elif refunded is not None:
            party = refunded.party

        # 3. Its callbacks: one at once, unless a script says otherwise.
        callback_delays: tuple[Span, ...] = (Span(0),)
        callback = find_fault(CallBack, faults)
        if callback is not None:
            callback_delays = callback.after

        payment = SimulatedMtnPayment(
            kind=kind,
            reference_id=reference_id,
            document=document,
            amount=amount,
            party=party,
            callback_url=callback_url,
            outcome=outcome,
            message=message,
            callback_delays=callback_delays,
        )
        self._payments[reference_id] = payment

        # 4. When its result comes; None: never.
        after = self._result_delay(outcome)
        delayed = find_fault(EndAfter, faults)
        if delayed is not None:
            after = delayed.span

        if after is not None:
            self._pending_results.schedule(payment, at=later(now, after))

    def complete_due(self, *, now: Instant) -> None:
        """Give every payment its result that is due."""
        for at, payment in self._pending_results.take_due(now=now):
            payment.result = self._transfer(payment, now=at)
            payment.ended_at = at
            # Made of the id, so that a payment has the same receipt in each run.
            if payment.result == SUCCESSFUL and payment.kind.has_receipt:
                payment.receipt = str(1_000_000_000 + int(payment.reference_id[:8], 16))

            if payment.callback_url is not None:
                body = json_response(200, self.payment_document(payment)).body
                target = payment.callback_url.encode()
                request = HttpRequest(self.callback_method, target, JSON_HEADERS, body)
                self._callback_payments[request] = payment
                for delay in payment.callback_delays:
                    self._pending_callbacks.schedule(request, at=later(at, delay))

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Return the callbacks to send now."""
        requests = [request for _, request in self._pending_callbacks.take_due(now=now)]
        for request in requests:
            self._callback_payments[request].callback_count += 1
        return requests

    def next_due_at(self) -> Instant | None:
        """Return when the next result or callback is due."""
        return earliest(self._pending_results.next_due_at(), self._pending_callbacks.next_due_at())

    def payment_document(self, payment: SimulatedMtnPayment) -> dict[str, Any]:
        """Return the payment in the operator's form: its amount formatted again, a receipt only
        with success."""
        # What the submission has said, and nothing of what the operator knows besides.
        names = ("externalId", "currency", "payerMessage", "payeeNote")
        document = {name: payment.document[name] for name in names}
        if payment.kind.party:
            document[payment.kind.party] = payment.document[payment.kind.party]
        elif payment.party:
            document["payee"] = {"partyIdType": "MSISDN", "partyId": payment.party}

        document["amount"] = format_plain(payment.amount)

        # 1. No result yet.
        if payment.result is None:
            status = "PENDING"
            if self.numbers_as_seen and payment.outcome == DELAYED:
                status = "CREATED"
            return {**document, "status": status}

        # 2. Paid. A deposit names no receipt (documented).
        if payment.result == SUCCESSFUL:
            receipt = {}
            if payment.receipt:
                receipt = {"financialTransactionId": payment.receipt}
            return {**receipt, **document, "status": SUCCESSFUL}

        # 3. Failed. Clients have seen the reason as text, the documentation shows an object.
        reason: str | dict[str, str] = payment.result
        if self.has_reason_objects:
            message = payment.message or payment.result.replace("_", " ").capitalize()
            reason = {"code": payment.result, "message": message}

        return {**document, "status": "FAILED", "reason": reason}

    def snapshot(self) -> Mapping[str, Any]:
        """Return every balance and every submission that was accepted."""
        accounts = [account_row(account, balance) for account, balance in self._balances.items()]
        rows = []
        for payment in self._payments.values():
            result = payment.result
            if result == SUCCESSFUL:
                result = "success"

            rows.append(
                payment_row(
                    payment.kind.name,
                    payment.document["externalId"],
                    payment.receipt,
                    payment.party,
                    payment.amount,
                    result,
                    payment.callback_count,
                )
            )

        return {"accounts": accounts, "payments": rows}

    def _result_delay(self, outcome: str) -> Span | None:
        if outcome == DELAYED:
            return None
        if outcome == ONGOING:
            return ONGOING_DELAY
        return self.approval_delay

    def _transfer(self, payment: SimulatedMtnPayment, *, now: Instant) -> str:
        # 1. What the number stands for.
        if self.numbers_as_seen and payment.outcome == ONGOING:
            return "EXPIRED"
        if payment.outcome not in (SUCCESSFUL, ONGOING):
            return payment.outcome

        # 2. What a refund may give back: no more than was paid, and not for ever.
        is_payin = payment.kind.is_payin
        refunded = self._refunded_payment(payment.document)
        if payment.kind.party is None:
            if refunded is None:
                return "TRANSACTION_NOT_FOUND"
            if refunded.refunded_minor + payment.amount.minor > refunded.amount.minor:
                return "NOT_ALLOWED"

            if (
                self.refundable_for is not None
                and now - (refunded.ended_at or now) > self.refundable_for
            ):
                return "NOT_ALLOWED"

        # 3. Who has a wallet, and whose money is enough.
        if self.balance(payment.party) is None:
            if is_payin:
                return "PAYER_NOT_FOUND"
            return "PAYEE_NOT_FOUND"

        debited = payment.kind.product
        credited = payment.party
        if is_payin:
            debited = payment.party
            credited = payment.kind.product

        if self._balances[debited].minor < payment.amount.minor:
            return "NOT_ENOUGH_FUNDS"

        self._add_to_balance(debited, -payment.amount.minor)
        self._add_to_balance(credited, payment.amount.minor)
        if refunded is not None:
            refunded.refunded_minor += payment.amount.minor

        return SUCCESSFUL

    def _refunded_payment(self, document: Mapping[str, Any]) -> SimulatedMtnPayment | None:
        """Return the request to pay that a submission refunds; None when it refunds none that was
        paid."""
        payment = self._payments.get(str(document.get(REFUNDED, "")).lower())
        is_paid = (
            payment is not None
            and payment.kind.name == "requesttopay"
            and payment.result == SUCCESSFUL
        )
        if is_paid:
            return payment

        return None

    def _add_to_balance(self, account: str, minor: int) -> None:
        self._balances[account] = Money(self._balances[account].minor + minor, self.currency)


def format_plain(amount: Money) -> str:
    """Format the amount without trailing zeros."""
    whole, _, decimals = amount.text.partition(".")
    if decimals.strip("0"):
        return f"{whole}.{decimals.rstrip('0')}"
    return whole

"""The money of a make-believe MTN MoMo: wallets, payments on their way to a result, and callbacks about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final

from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import SECOND, Instant, Span, later
from mmo_sansio.values.money import Money, parse_number, to_money
from mmo_trio.simulators.base import (
    JSON_HEADERS,
    CallBack,
    CallbackQueue,
    EndAfter,
    EndWith,
    Fault,
    find_fault,
    json_response,
)
from mmo_trio.simulators.mtn.sandbox_numbers import DELAYED, ONGOING, OUTCOMES_BY_NUMBER, SUCCESSFUL

PRODUCTS_BY_OPERATION: Final = {
    "requesttopay": "collection",
    "transfer": "disbursement",
    "deposit": "disbursement",
}
"""Which product offers an operation; it is the merchant's account, too."""

PARTY_FIELDS: Final = {"requesttopay": "payer", "transfer": "payee", "deposit": "payee"}
"""What an operation calls the one at the other end."""

OPENING_BALANCE: Final = "1000000"
"""What a wallet or account holds in whole units that nobody has opened before."""

ONGOING_DELAY = Span(30 * SECOND)


@define(eq=False)
class SimulatedMtnPayment:
    """A submission that was taken."""

    kind: str
    reference_id: str
    document: Mapping[str, Any]
    """What was submitted."""
    amount: Money
    callback_url: str | None
    outcome: str
    """What it will come to: SUCCESSFUL or a reason; money may be too short for the former."""
    message: str | None
    callback_delays: tuple[Span, ...]
    result: str | None = None
    receipt: str | None = None
    callback_count: int = 0

    @property
    def party(self) -> str:
        """Whose wallet it is about."""
        return str(self.document[PARTY_FIELDS[self.kind]]["partyId"])


@define(eq=False)
class SimulatedMtnAccounts:
    """The accounts of one market, with one merchant."""

    currency: str = "EUR"
    approval_delay: Span = Span(2 * SECOND)
    """How long a payer takes to approve."""
    has_implicit_wallets: bool = True
    """Whether a number that nobody opened a wallet for has one all the same."""
    has_reason_objects: bool = False
    """Whether a failed payment's reason is `{"code", "message"}`; otherwise it is the code alone."""
    callback_method: str = "PUT"
    _balances: dict[str, Money] = Factory(dict)
    _payments: dict[str, SimulatedMtnPayment] = Factory(dict)
    _pending_results: list[tuple[Instant, int, SimulatedMtnPayment]] = Factory(list)
    _callbacks: CallbackQueue = Factory(CallbackQueue)
    _callback_payments: dict[HttpRequest, SimulatedMtnPayment] = Factory(dict)

    def __attrs_post_init__(self) -> None:
        for account in PRODUCTS_BY_OPERATION.values():
            self.open_account(account, OPENING_BALANCE)

    def open_account(self, account: str, balance: str) -> None:
        """Open an account, or set it; raises ValueError for what is no balance."""
        self._balances[account] = to_money(parse_number(balance), self.currency)

    def balance(self, account: str) -> Money | None:
        """What an account holds; None when there is no such wallet."""
        if account not in self._balances and self.has_implicit_wallets:
            self.open_account(account, OPENING_BALANCE)
        return self._balances.get(account)

    def find_payment(self, reference_id: str) -> SimulatedMtnPayment | None:
        """The payment with this X-Reference-Id."""
        return self._payments.get(reference_id)

    def accept_submission(
        self,
        kind: str,
        reference_id: str,
        document: Mapping[str, Any],
        amount: Money,
        callback_url: str | None,
        faults: Sequence[Fault],
        *,
        now: Instant,
    ) -> None:
        """Take a submission; a fault that met it says what it comes to, or else its number."""
        scripted, span, told = (
            find_fault(EndWith, faults),
            find_fault(EndAfter, faults),
            find_fault(CallBack, faults),
        )
        party = document[PARTY_FIELDS[kind]]["partyId"]
        ending = scripted.code if scripted else OUTCOMES_BY_NUMBER[kind].get(party, SUCCESSFUL)
        payment = self._payments[reference_id] = SimulatedMtnPayment(
            kind,
            reference_id,
            document,
            amount,
            callback_url,
            ending,
            scripted.message if scripted else None,
            told.after if told else (Span(0),),
        )
        after = span.span if span else self._result_delay(ending)
        if after is not None:
            heappush(self._pending_results, (later(now, after), len(self._payments), payment))

    def complete_due(self, *, now: Instant) -> None:
        """Let everything come to its result whose time has come."""
        while self._pending_results and self._pending_results[0][0] <= now:
            at, _, payment = heappop(self._pending_results)
            payment.result = self._transfer(payment)
            if payment.result == SUCCESSFUL and payment.kind != "deposit":
                payment.receipt = str(1_000_000_000 + int(payment.reference_id[:8], 16))
            if payment.callback_url is not None:
                body = json_response(200, self.payment_document(payment)).body
                target = payment.callback_url.encode()
                request = HttpRequest(self.callback_method, target, JSON_HEADERS, body)
                self._callback_payments[request] = payment
                for delay in payment.callback_delays:
                    self._callbacks.schedule(request, at=later(at, delay))

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """The callbacks to send now."""
        requests = self._callbacks.take_due(now=now)
        for each in requests:
            self._callback_payments[each].callback_count += 1
        return requests

    def next_due_at(self) -> Instant | None:
        """When something happens by itself."""
        dues = [
            self._callbacks.next_due_at(),
            self._pending_results[0][0] if self._pending_results else None,
        ]
        return min((at for at in dues if at is not None), default=None)

    def payment_document(self, payment: SimulatedMtnPayment) -> dict[str, Any]:
        """The payment as the operator tells it: its amount formatted anew, a receipt only with success."""
        names = ("externalId", "currency", PARTY_FIELDS[payment.kind], "payerMessage", "payeeNote")
        document = {name: payment.document[name] for name in names}
        document["amount"] = format_plain(payment.amount)
        if payment.result is None:
            return {**document, "status": "PENDING"}
        if payment.result == SUCCESSFUL:
            receipt = {"financialTransactionId": payment.receipt} if payment.receipt else {}
            return {**receipt, **document, "status": SUCCESSFUL}
        message = payment.message or payment.result.replace("_", " ").capitalize()
        as_object = {"code": payment.result, "message": message}
        reason = as_object if self.has_reason_objects else payment.result
        return {**document, "status": "FAILED", "reason": reason}

    def snapshot(self) -> Mapping[str, Any]:
        """Every balance and every submission that was taken."""
        return {
            "accounts": [
                {"account": account, "currency": balance.currency, "balance": balance.text}
                for account, balance in self._balances.items()
            ],
            "payments": [
                {
                    "kind": each.kind,
                    "reference": each.document["externalId"],
                    "receipt": each.receipt,
                    "account": each.party,
                    "amount": each.amount.text,
                    "currency": each.amount.currency,
                    "result": "success" if each.result == SUCCESSFUL else each.result,
                    "told": each.callback_count,
                }
                for each in self._payments.values()
            ],
        }

    def _result_delay(self, outcome: str) -> Span | None:
        if outcome == DELAYED:
            return None
        return ONGOING_DELAY if outcome == ONGOING else self.approval_delay

    def _transfer(self, payment: SimulatedMtnPayment) -> str:
        """Move the money, if it is to be moved and there is enough; the result."""
        if payment.outcome not in (SUCCESSFUL, ONGOING):
            return payment.outcome
        is_payin = payment.kind == "requesttopay"
        if self.balance(payment.party) is None:
            return "PAYER_NOT_FOUND" if is_payin else "PAYEE_NOT_FOUND"
        ours = PRODUCTS_BY_OPERATION[payment.kind]
        debited, credited = (payment.party, ours) if is_payin else (ours, payment.party)
        if self._balances[debited].minor < payment.amount.minor:
            return "NOT_ENOUGH_FUNDS"
        self._add_to_balance(debited, -payment.amount.minor)
        self._add_to_balance(credited, payment.amount.minor)
        return SUCCESSFUL

    def _add_to_balance(self, account: str, minor: int) -> None:
        self._balances[account] = Money(self._balances[account].minor + minor, self.currency)


def format_plain(amount: Money) -> str:
    """The amount without zeros that say nothing."""
    whole, _, decimals = amount.text.partition(".")
    return f"{whole}.{decimals.rstrip('0')}" if decimals.strip("0") else whole

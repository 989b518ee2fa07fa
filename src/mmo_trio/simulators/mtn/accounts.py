"""The money of a make-believe MTN MoMo: wallets, payments on their way to a result, and callbacks about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final

from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import SECOND, Instant, Span
from mmo_sansio.values.money import Money, money, parse_number
from mmo_trio.simulators.base import (
    JSON_HEADERS,
    CallBack,
    Callbacks,
    EndAfter,
    EndWith,
    Fault,
    find,
    json_answer,
)
from mmo_trio.simulators.mtn.test_numbers import DELAYED, ENDINGS, ONGOING, SUCCESSFUL

PRODUCTS: Final = {
    "requesttopay": "collection",
    "transfer": "disbursement",
    "deposit": "disbursement",
}
"""Which product offers an operation; it is the merchant's account, too."""

PARTIES: Final = {"requesttopay": "payer", "transfer": "payee", "deposit": "payee"}
"""What an operation calls the one at the other end."""

OPENING_UNITS: Final = "1000000"
"""What a wallet or account holds in whole units that nobody has opened before."""

ONGOING_FOR: Final[Span] = 30 * SECOND


@define(eq=False)
class Payment:
    """A submission that was taken."""

    kind: str
    reference_id: str
    document: Mapping[str, Any]
    """What was submitted."""
    amount: Money
    callback_url: str | None
    ending: str
    """What it will come to: SUCCESSFUL or a reason; money may be too short for the former."""
    message: str | None
    told_after: tuple[Span, ...]
    result: str | None = None
    receipt: str | None = None
    told: int = 0

    @property
    def party(self) -> str:
        """Whose wallet it is about."""
        return str(self.document[PARTIES[self.kind]]["partyId"])


@define(eq=False)
class Till:
    """The accounts of one market, with one merchant."""

    currency: str = "EUR"
    decides_after: Span = 2 * SECOND
    """How long a payer takes to approve."""
    has_strangers: bool = True
    """Whether a number that nobody opened a wallet for has one all the same."""
    reasons_are_objects: bool = False
    """Whether a failed payment's reason is `{"code", "message"}`; otherwise it is the code alone."""
    callback_method: str = "PUT"
    _balances: dict[str, Money] = Factory(dict)
    _payments: dict[str, Payment] = Factory(dict)
    _agenda: list[tuple[Instant, int, Payment]] = Factory(list)
    _callbacks: Callbacks = Factory(Callbacks)
    _told_of: dict[HttpRequest, Payment] = Factory(dict)

    def __attrs_post_init__(self) -> None:
        for account in PRODUCTS.values():
            self.open(account, OPENING_UNITS)

    def open(self, account: str, balance: str) -> None:
        """Open an account, or set it; raises ValueError for what is no balance."""
        self._balances[account] = money(parse_number(balance), self.currency)

    def balance(self, account: str) -> Money | None:
        """What an account holds; None when there is no such wallet."""
        if account not in self._balances and self.has_strangers:
            self.open(account, OPENING_UNITS)
        return self._balances.get(account)

    def find(self, reference_id: str) -> Payment | None:
        """The payment with this X-Reference-Id."""
        return self._payments.get(reference_id)

    def take(
        self,
        kind: str,
        reference_id: str,
        document: Mapping[str, Any],
        amount: Money,
        callback_url: str | None,
        met: Sequence[Fault],
        *,
        now: Instant,
    ) -> None:
        """Take a submission; a fault that met it says what it comes to, or else its number."""
        scripted, span, told = find(EndWith, met), find(EndAfter, met), find(CallBack, met)
        party = document[PARTIES[kind]]["partyId"]
        ending = scripted.code if scripted else ENDINGS[kind].get(party, SUCCESSFUL)
        payment = self._payments[reference_id] = Payment(
            kind,
            reference_id,
            document,
            amount,
            callback_url,
            ending,
            scripted.message if scripted else None,
            told.after if told else (0,),
        )
        after = span.span if span else self._delay(ending)
        if after is not None:
            heappush(self._agenda, (now + after, len(self._payments), payment))

    def settle(self, *, now: Instant) -> None:
        """Let everything come to its result whose time has come."""
        while self._agenda and self._agenda[0][0] <= now:
            at, _, payment = heappop(self._agenda)
            payment.result = self._move(payment)
            if payment.result == SUCCESSFUL and payment.kind != "deposit":
                payment.receipt = str(1_000_000_000 + int(payment.reference_id[:8], 16))
            if payment.callback_url is not None:
                body = json_answer(200, self.told(payment)).body
                target = payment.callback_url.encode()
                request = HttpRequest(self.callback_method, target, JSON_HEADERS, body)
                self._told_of[request] = payment
                for later in payment.told_after:
                    self._callbacks.tell(request, at=at + later)

    def due(self, *, now: Instant) -> Sequence[HttpRequest]:
        """The callbacks to send now."""
        requests = self._callbacks.due(now=now)
        for each in requests:
            self._told_of[each].told += 1
        return requests

    def next_due(self) -> Instant | None:
        """When something happens by itself."""
        dues = [self._callbacks.next_due(), self._agenda[0][0] if self._agenda else None]
        return min((at for at in dues if at is not None), default=None)

    def told(self, payment: Payment) -> dict[str, Any]:
        """The payment as the operator tells it: its amount formatted anew, a receipt only with success."""
        names = ("externalId", "currency", PARTIES[payment.kind], "payerMessage", "payeeNote")
        document = {name: payment.document[name] for name in names}
        document["amount"] = plain(payment.amount)
        if payment.result is None:
            return {**document, "status": "PENDING"}
        if payment.result == SUCCESSFUL:
            receipt = {"financialTransactionId": payment.receipt} if payment.receipt else {}
            return {**receipt, **document, "status": SUCCESSFUL}
        message = payment.message or payment.result.replace("_", " ").capitalize()
        as_object = {"code": payment.result, "message": message}
        reason = as_object if self.reasons_are_objects else payment.result
        return {**document, "status": "FAILED", "reason": reason}

    def book(self) -> Mapping[str, Any]:
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
                    "told": each.told,
                }
                for each in self._payments.values()
            ],
        }

    def _delay(self, ending: str) -> Span | None:
        if ending == DELAYED:
            return None
        return ONGOING_FOR if ending == ONGOING else self.decides_after

    def _move(self, payment: Payment) -> str:
        """Move the money, if it is to be moved and there is enough; the result."""
        if payment.ending not in (SUCCESSFUL, ONGOING):
            return payment.ending
        is_payin = payment.kind == "requesttopay"
        if self.balance(payment.party) is None:
            return "PAYER_NOT_FOUND" if is_payin else "PAYEE_NOT_FOUND"
        ours = PRODUCTS[payment.kind]
        debited, credited = (payment.party, ours) if is_payin else (ours, payment.party)
        if self._balances[debited].minor < payment.amount.minor:
            return "NOT_ENOUGH_FUNDS"
        self._add(debited, -payment.amount.minor)
        self._add(credited, payment.amount.minor)
        return SUCCESSFUL

    def _add(self, account: str, minor: int) -> None:
        self._balances[account] = Money(self._balances[account].minor + minor, self.currency)


def plain(amount: Money) -> str:
    """The amount without zeros that say nothing."""
    whole, _, decimals = amount.text.partition(".")
    return f"{whole}.{decimals.rstrip('0')}" if decimals.strip("0") else whole

"""Holds the money of the simulated Wave: the merchant's wallet, everybody else's, sessions,
pay-outs and refunds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final

from attrs import Factory, define

from mmo_sansio.providers.common.wire import plain_amount
from mmo_sansio.values.clock import DAY, MINUTE, Instant, Span, later, to_datetime
from mmo_sansio.values.money import Money, parse_number, to_money
from mmo_simulators.common.simulator import account_row, payment_row

# The name of the merchant's own wallet.
WALLET: Final = "wallet"

OPENING_BALANCE: Final = "10000000"
BUSINESS_NAME: Final = "Test Shop"
# As the published webhook of 2025-06-25 shows: half an hour.
SESSION_LASTS: Final = Span(30 * MINUTE)
# For how long a pay-out can be taken back (docs.wave.com/payout).
REVERSAL_PERIOD: Final = Span(3 * DAY)


@define(eq=False)
class SimulatedSession:
    """A checkout session."""

    id: str
    document: Mapping[str, Any]
    """The body of its request."""
    amount: Money
    launch_url: str
    created_at: Instant
    scripted_code: str | None = None
    """With what every attempt fails; None: it depends on the wallets."""
    callback_delays: tuple[Span, ...] = (Span(0),)
    checkout_status: str = "open"
    payment_status: str = "processing"
    payer: str | None = None
    transaction_id: str | None = None
    ended_at: Instant | None = None
    error_code: str | None = None
    refunded_at: Instant | None = None
    webhook_count: int = 0

    @property
    def expires_at(self) -> Instant:
        return later(self.created_at, SESSION_LASTS)

    @property
    def is_open(self) -> bool:
        return self.checkout_status == "open"

    def describe(self) -> dict[str, Any]:
        """Return the session as answers and webhooks tell it."""
        error = None
        if self.error_code is not None:
            error = {
                "code": self.error_code,
                "message": self.error_code.replace("-", " ").capitalize(),
            }

        completed_at = None
        if self.ended_at is not None:
            completed_at = timestamp(self.ended_at)

        members = {
            "id": self.id,
            "amount": self.document["amount"],
            "checkout_status": self.checkout_status,
            "client_reference": self.document.get("client_reference"),
            "currency": self.amount.currency,
            "error_url": self.document["error_url"],
            "last_payment_error": error,
            "business_name": BUSINESS_NAME,
            "payment_status": self.payment_status,
            "success_url": self.document["success_url"],
            "wave_launch_url": self.launch_url,
            "when_completed": completed_at,
            "when_created": timestamp(self.created_at),
            "when_expires": timestamp(self.expires_at),
        }
        # Only where there is something to say, as in the published webhook.
        if self.transaction_id is not None:
            members["transaction_id"] = self.transaction_id

        if "restrict_payer_mobile" in self.document:
            members["restrict_payer_mobile"] = self.document["restrict_payer_mobile"]

        return members


@define(eq=False)
class SimulatedPayout:
    """A pay-out."""

    id: str
    document: Mapping[str, Any]
    amount: Money
    created_at: Instant
    scripted_code: str | None = None
    status: str = "processing"
    error_code: str | None = None

    def describe(self) -> dict[str, Any]:
        """Return the pay-out as answers tell it; a simulator charges no fees."""
        members = {
            "id": self.id,
            "currency": self.amount.currency,
            "receive_amount": self.document["receive_amount"],
            "fee": "0",
            "mobile": self.document["mobile"],
            "name": self.document.get("name"),
            "client_reference": self.document.get("client_reference"),
            "status": self.status,
            "timestamp": timestamp(self.created_at),
        }
        if self.error_code is None:
            return members

        words = self.error_code.replace("-", " ").capitalize()
        return {
            **members,
            "payout_error": {"error_code": self.error_code, "error_message": words},
        }


@define(eq=False)
class SimulatedWallets:
    """Holds the merchant's wallet and everybody else's, by number."""

    currency: str = "XOF"
    sessions: dict[str, SimulatedSession] = Factory(dict)
    payouts: dict[str, SimulatedPayout] = Factory(dict)
    names: dict[str, str] = Factory(dict)
    """Who has a wallet, by its number; of others no name is known."""
    _balances: dict[str, Money] = Factory(dict)
    _book: list[tuple[Instant, dict[str, Any]]] = Factory(list)
    """Every movement of the merchant's wallet, as the list of transactions tells it."""

    def __attrs_post_init__(self) -> None:
        self.open_wallet(WALLET, OPENING_BALANCE)

    def open_wallet(self, holder: str, balance: str) -> None:
        """Open a wallet, or change it. Raises ValueError for an invalid balance."""
        self._balances[holder] = to_money(parse_number(balance), self.currency)

    def balance(self, holder: str) -> Money:
        """Return the balance of a wallet, which is opened if there is none."""
        if holder not in self._balances:
            self.open_wallet(holder, OPENING_BALANCE)
        return self._balances[holder]

    def expire_due(self, *, now: Instant) -> None:
        """Expire the sessions whose time is over."""
        for session in self.sessions.values():
            if session.is_open and session.expires_at <= now:
                self.expire(session, at=session.expires_at)

    def expire(self, session: SimulatedSession, *, at: Instant) -> None:
        """End a session that was not paid."""
        session.checkout_status = "expired"
        session.payment_status = "cancelled"
        session.ended_at = at

    def attempt(self, session: SimulatedSession, payer: str, *, now: Instant) -> None:
        """Let somebody try to pay an open session."""
        session.error_code = self._attempt_error(session, payer)
        if session.error_code is not None:
            # The session stays open: its payer may try again.
            session.payment_status = "cancelled"
            return

        session.checkout_status = "complete"
        session.payment_status = "succeeded"
        session.payer = payer
        session.ended_at = now
        session.transaction_id = f"T{session.id.removeprefix('cos-').upper()}"
        self._move(session.amount, payer, WALLET)
        self._record(session.transaction_id, session.amount.minor, now=now, mobile=payer)

    def refund(self, session: SimulatedSession, *, now: Instant) -> str | None:
        """Give the money of a session back, once; return the code of a refusal."""
        # A session has one refund: to ask again is no fault, and moves nothing.
        if session.refunded_at is not None:
            return None
        if session.payment_status != "succeeded" or session.payer is None:
            return "checkout-refund-failed"
        if self.balance(WALLET).minor < session.amount.minor:
            return "insufficient-funds"

        self._move(session.amount, WALLET, session.payer)
        session.refunded_at = now
        self._record(
            session.transaction_id or "",
            -session.amount.minor,
            now=now,
            mobile=session.payer,
            is_reversal=True,
        )
        return None

    def pay_out(self, payout: SimulatedPayout, *, now: Instant) -> None:
        """Give a pay-out its result."""
        code = payout.scripted_code
        if code is None and self.balance(WALLET).minor < payout.amount.minor:
            code = "insufficient-funds"

        if code is not None:
            payout.status = "failed"
            payout.error_code = code
            return

        payout.status = "succeeded"
        mobile = payout.document["mobile"]
        self._move(payout.amount, WALLET, mobile)
        self._record(payout.id, -payout.amount.minor, now=now, mobile=mobile)

    def reverse(self, payout: SimulatedPayout, *, now: Instant) -> str | None:
        """Take a pay-out back, once; return the code of a refusal."""
        if payout.status == "reversed":
            return None
        if now - payout.created_at > REVERSAL_PERIOD:
            return "payout-reversal-time-limit-exceeded"

        mobile = payout.document["mobile"]
        if payout.status != "succeeded" or self.balance(mobile).minor < payout.amount.minor:
            return "insufficient-funds"

        payout.status = "reversed"
        self._move(payout.amount, mobile, WALLET)
        self._record(payout.id, payout.amount.minor, now=now, mobile=mobile, is_reversal=True)
        return None

    def transactions_of(self, day: date) -> Iterator[dict[str, Any]]:
        """Yield what has moved on a day, in UTC."""
        for at, item in self._book:
            if to_datetime(at).date() == day:
                yield item

    def snapshot(self) -> Mapping[str, Any]:
        """Return every balance, and every session, pay-out and refund."""
        accounts = [account_row(holder, balance) for holder, balance in self._balances.items()]
        rows = [_session_row(session) for session in self.sessions.values()]
        for session in self.sessions.values():
            if session.refunded_at is not None:
                rows.append(
                    {**_session_row(session), "kind": "refund", "result": "success", "told": 0}
                )

        rows += [_payout_row(payout) for payout in self.payouts.values()]
        return {"accounts": accounts, "payments": rows}

    def _attempt_error(self, session: SimulatedSession, payer: str) -> str | None:
        # The number first: a script's code is about a payer who may pay.
        if session.document.get("restrict_payer_mobile") not in (None, payer):
            return "payer-mobile-mismatch"
        if session.scripted_code is not None:
            return session.scripted_code
        has_funds = self.balance(payer).minor >= session.amount.minor
        if has_funds:
            return None
        return "insufficient-funds"

    def _move(self, amount: Money, debited: str, credited: str) -> None:
        for holder, change in ((debited, -amount.minor), (credited, amount.minor)):
            self._balances[holder] = Money(self.balance(holder).minor + change, self.currency)

    def _record(
        self, id: str, minor: int, *, now: Instant, mobile: str, is_reversal: bool = False
    ) -> None:
        amount = Money(minor, self.currency)
        item: dict[str, Any] = {
            "timestamp": timestamp(now),
            "transaction_id": id,
            "amount": plain_amount(amount),
            "fee": "0",
            "currency": self.currency,
            "counterparty_mobile": mobile,
        }
        if is_reversal:
            item["is_reversal"] = True
        self._book.append((now, item))


def timestamp(instant: Instant) -> str:
    """Write `2021-12-08T10:13:04Z`."""
    return to_datetime(instant).strftime("%Y-%m-%dT%H:%M:%SZ")


def _session_row(session: SimulatedSession) -> dict[str, Any]:
    result: str | None = "success"
    if session.transaction_id is None:
        result = _unpaid_result(session)

    return payment_row(
        "checkout",
        session.document.get("client_reference") or session.id,
        session.transaction_id,
        session.payer or "",
        session.amount,
        result,
        session.webhook_count,
    )


def _payout_row(payout: SimulatedPayout) -> dict[str, Any]:
    result = {"succeeded": "success", "processing": None}.get(payout.status, payout.error_code)
    return payment_row(
        "payout",
        payout.document.get("client_reference") or payout.id,
        payout.id,
        payout.document["mobile"],
        payout.amount,
        result,
        0,
    )


def _unpaid_result(session: SimulatedSession) -> str | None:
    if session.is_open:
        return None
    return session.error_code or session.checkout_status

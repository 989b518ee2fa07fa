"""Holds the accounts and payments of the simulated M-Pesa, exact to the cent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from attrs import Factory, define, field, fields

from mmo_sansio.values.clock import SECOND, Instant, Span
from mmo_sansio.values.money import Money
from mmo_simulators.common.simulator import account_row, payment_row

# Daraja's published passkey for the paybill 174379.
SANDBOX_PASSKEY: Final = "bfb279f9aa9bdbcf158e97dd71a467cd2e0c893059b10f78e6b72ada1ed2c919"

# Documented: the Kenya Revenue Authority (Tax Remittance).
TAX_AUTHORITY: Final = "572572"
# Documented: a customer's largest balance, and the bounds of a pay-out (Business To Customer).
CUSTOMER_BALANCE_MAX_MINOR: Final = 500_000_00
PAYOUT_MIN: Final = 10
PAYOUT_MAX: Final = 250_000

# The result code of what an API operator initiates, by the state of its password.
OPERATOR_STATE_CODES: Final[Mapping[str, str | None]] = {
    "active": None,
    "expired": "2001",
    "locked": "8006",
}

# How long the person at a phone takes to enter the PIN.
PIN_ENTRY_DELAY: Final = Span(2 * SECOND)

# How long a prompt waits for a person who does nothing.
PROMPT_TIMEOUT: Final = Span(60 * SECOND)


@define
class SimulatedMpesaAccount:
    """An account is a customer's telephone or an organisation's shortcode."""

    id: str
    balance_minor: int = 0
    """Its balance in cents."""
    name: str = "JANE DOE"
    pin: str = field(default="1234", repr=False)
    enters: str | None = field(default="1234", repr=False)
    """What the person enters when a prompt comes: a PIN, `cancel`, or nothing (None)."""
    passkey: str | None = field(default=None, repr=False)
    initiator: str | None = None
    initiator_password: str | None = field(default=None, repr=False)
    roles: list[str] | None = None
    """The operations that the API operator has a role for, such as `b2c` and `status`; None:
    all."""
    operator_state: str = "active"
    """The state of the operator's password: `active`, `expired` or `locked`."""
    fee_minor: int = 0
    """What a payment of the shortcode costs, in cents; it is named, and not taken."""
    c2b_version: int | None = None
    """The version of the product C2B that the app has for the shortcode, 1 or 2; None: both. A real
    app has one of them (five public reports)."""
    excise_minor: int = 0
    """A second charge, which is joined to the fee by `&`."""
    words_differ: bool = False
    """Whether a query words the result of a prompt otherwise than its callback, as was seen in
    September 2026 (nkap)."""
    confirmation_url: str | None = None
    validation_url: str | None = None
    response_type: str = "Completed"
    validates: bool = False
    """Whether M-Pesa asks the shortcode to validate a deposit."""
    confirms_pushes: bool = False
    """Whether a push to the shortcode is also confirmed as a deposit, where it has registered its
    URLs."""
    tells_references: bool = True
    """Whether these confirmations name the AccountReference of the push; those of a till may
    not."""
    can_pull: bool = False
    """Whether the shortcode is registered for Pull Transactions."""
    reversible_for_s: int | None = None
    """How long after a payment to the shortcode it can be reversed; None: always, as Daraja's page
    names no limit."""


@define
class SimulatedMpesaPayment:
    """A movement of money that was requested."""

    kind: str
    reference: str
    payer: str
    payee: str
    amount_minor: int
    accepted_at: Instant
    conversation_id: str
    """CheckoutRequestID, or the ConversationID."""
    originator_id: str
    """MerchantRequestID, or the OriginatorConversationID."""
    result_url: str
    callback_delays: tuple[Span, ...] = (Span(0),)
    prompted: str = ""
    """The telephone that is prompted for a PIN, which may be another than the payer's."""
    is_for_goods: bool = False
    """Whether it is paid to a till."""
    bill_reference: str = ""
    """The AccountReference of a payment between organisations."""
    queue_timeout_url: str = ""
    reversed_receipt: str = ""
    """The receipt of the payment that this one reverses."""
    polled_code: str | None = None
    """The result that questions about it by its own id are answered with once it has one; None: its
    own."""
    third_party_id: str = ""
    """The ThirdPartyTransID that the validation of a deposit was answered with."""
    result: str | None = None
    ended_at: Instant | None = None
    message: str = ""
    receipt: str | None = None
    is_reversed: bool = False
    callback_count: int = 0

    @property
    def shillings(self) -> int:
        return self.amount_minor // 100


@define
class SimulatedMpesaAccounts:
    """Holds all accounts and payments."""

    accounts: dict[str, SimulatedMpesaAccount] = Factory(dict)
    payments: list[SimulatedMpesaPayment] = Factory(list)
    _receipt_count: int = 0

    def open_account(self, document: Mapping[str, Any]) -> None:
        """Open or change an account: `{"account", "balance", "name", "pin", "enters", "passkey",
        "initiator", "initiator_password", "roles", "operator_state", "fee", "excise", "validates",
        "confirms_pushes", "tells_references", "confirmation_url", "c2b_version",
        "words_differ", "reversible_for_s"}`. Raises ValueError for an invalid one."""
        members = dict(document)
        id = str(members.pop("account", ""))
        # Shortcodes have 5 to 7 digits; a telephone number has 12, with the country code.
        if not (id.isascii() and id.isdigit()) or len(id) not in (5, 6, 7, 12):
            raise ValueError("account must be a number of 12 digits or a shortcode")

        account = self.accounts.get(id) or SimulatedMpesaAccount(id)
        if "balance" in members:
            account.balance_minor = _parse_minor(members.pop("balance"))

        for charge in ("fee", "excise"):
            if charge in members:
                setattr(account, f"{charge}_minor", _parse_minor(members.pop(charge)))

        if members.get("operator_state", account.operator_state) not in OPERATOR_STATE_CODES:
            raise ValueError(f"operator_state must be one of: {', '.join(OPERATOR_STATE_CODES)}")
        if members.get("c2b_version") not in (None, 1, 2):
            raise ValueError("c2b_version must be 1, 2 or null")

        # Whatever is left is a member of the account, by its own name.
        for name, value in members.items():
            if name not in _SETTABLE_FIELDS:
                raise ValueError(f"{name} is no member of an account")
            setattr(account, name, value)

        self.accounts[id] = account

    def transfer(self, payment: SimulatedMpesaPayment) -> None:
        """Move the money, and give the payment a receipt unless it has one."""
        self.accounts[payment.payer].balance_minor -= payment.amount_minor
        self.accounts.setdefault(
            payment.payee, SimulatedMpesaAccount(payment.payee)
        ).balance_minor += payment.amount_minor
        payment.result = "0"
        payment.message = "The service request is processed successfully."
        # The validation of a deposit has named its receipt already.
        payment.receipt = payment.receipt or self.next_receipt()

    def next_receipt(self) -> str:
        """Return a receipt that no payment has."""
        self._receipt_count += 1
        return f"SIM{self._receipt_count:07d}"

    def payout_error_code(self, payment: SimulatedMpesaPayment, refusal: str | None) -> str | None:
        """Return the result code of a pay-out that fails; None for one that succeeds."""
        payee = self.accounts.get(payment.payee)
        # In this order (assumed): who asks, how much, from which balance, to whom.
        if refusal is not None:
            return refusal
        if payment.shillings < PAYOUT_MIN:
            return "2"
        if payment.shillings > PAYOUT_MAX:
            return "3"
        if self.accounts[payment.payer].balance_minor < payment.amount_minor:
            return "1"
        if payee is None:
            return "2040"
        if payee.balance_minor + payment.amount_minor > CUSTOMER_BALANCE_MAX_MINOR:
            return "8"

        return None

    def reversal_error_code(
        self, payment: SimulatedMpesaPayment, refusal: str | None
    ) -> str | None:
        """Return the result code of a reversal that fails; None for one that succeeds. A payment is
        reversed once and whole, by the organisation that received it."""
        original = self.find_payment(receipt=payment.reversed_receipt)
        if refusal is not None:
            return refusal
        # Only what a customer has paid to this organisation, of exactly this amount.
        if original is None or original.kind not in ("stk_push", "c2b") or original.result != "0":
            return "R000002"
        if (original.payee, original.amount_minor) != (payment.payer, payment.amount_minor):
            return "R000002"
        if original.is_reversed:
            return "R000001"

        # Daraja's page names no limit in time; a simulated one has the code of an unknown payment.
        receiver = self.accounts[payment.payer]
        ends_at = None
        if receiver.reversible_for_s is not None:
            ends_at = (original.ended_at or 0) + receiver.reversible_for_s * SECOND

        if ends_at is not None and payment.accepted_at > ends_at:
            return "R000002"
        if receiver.balance_minor < payment.amount_minor:
            return "1"

        return None

    def find_payment(
        self, *, conversation_id: str = "", originator_id: str = "", receipt: str = ""
    ) -> SimulatedMpesaPayment | None:
        """Return the payment with one of these ids, or None."""
        # An id that was not asked for is empty, and matches nothing.
        for payment in self.payments:
            if (
                (conversation_id and payment.conversation_id == conversation_id)
                or (originator_id and payment.originator_id == originator_id)
                or (receipt and payment.receipt == receipt)
            ):
                return payment

        return None

    def find_received(self, shortcode: str, *, since: Instant) -> Sequence[SimulatedMpesaPayment]:
        """Return what customers have paid to this shortcode since then, in the order of time."""
        paid = [
            payment
            for payment in self.payments
            if payment.result == "0" and payment.kind in ("stk_push", "c2b")
        ]
        timed = [
            (payment.ended_at, payment)
            for payment in paid
            if payment.ended_at is not None and payment.payee == shortcode
        ]
        return [row for at, row in sorted(timed, key=lambda row: row[0]) if at >= since]

    def snapshot(self) -> Mapping[str, Any]:
        """Return everything as JSON."""
        accounts = [
            account_row(account.id, Money(account.balance_minor, "KES"))
            for account in self.accounts.values()
        ]
        rows = []
        for payment in self.payments:
            # The customer's side: who is paid of what goes out, who has paid of what comes in.
            account = payment.payer
            if payment.kind in _PAID_OUT:
                account = payment.payee

            result = payment.result
            if result == "0":
                result = "success"

            amount = Money(payment.amount_minor, "KES")
            rows.append(
                payment_row(
                    payment.kind,
                    payment.reference,
                    payment.receipt,
                    account,
                    amount,
                    result,
                    payment.callback_count,
                )
            )

        return {"accounts": accounts, "payments": rows}


# The kinds of payments that the book shows with the payee's account.
_PAID_OUT: Final = ("b2c", "b2b", "reversal")

# What a document may set: not what has a spelling of its own there, or follows from requests.
_SETTABLE_FIELDS: Final = frozenset(
    attribute.name for attribute in fields(SimulatedMpesaAccount)
) - {
    *(
        "id",
        "balance_minor",
        "fee_minor",
        "excise_minor",
        "validation_url",
        "response_type",
        "can_pull",
    )
}


def _parse_minor(text: object) -> int:
    try:
        value = Decimal(str(text)) * 100
        if value < 0 or value != int(value):
            raise ValueError("a balance is an amount with at most two decimals")
    except (InvalidOperation, OverflowError):
        raise ValueError("a balance is an amount such as 150.00") from None
    return int(value)


def default_accounts() -> SimulatedMpesaAccounts:
    """Return the accounts that every simulator begins with."""
    # The published paybill and test number of Daraja's sandbox, and a shortcode that pays out.
    book = SimulatedMpesaAccounts()
    operator = {"initiator": "testapi", "initiator_password": "Safaricom999!*!"}
    book.open_account(
        {"account": "174379", "name": "TEST SHOP", "passkey": SANDBOX_PASSKEY, **operator}
    )
    book.open_account(
        {"account": "600997", "name": "TEST SHOP", "balance": "1000000.00", **operator}
    )
    book.open_account({"account": "254708374149", "balance": "100000.00"})
    return book

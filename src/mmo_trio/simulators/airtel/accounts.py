"""The money of Airtel Money's simulator: wallets, payments, and what each payment comes to."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from attrs import Factory, define, field

from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.money import AmountError, Money, money, parse_number

COLLECTION: Final = "collection"
DISBURSEMENT: Final = "disbursement"
"""The merchant's own wallets: what pay-ins fill, and what pay-outs are taken from."""

PREFIXES: Final[Mapping[str, str]] = {COLLECTION: "DP008000010", DISBURSEMENT: "DP009000010"}
"""How the codes of each product begin."""

AMBIGUOUS, SUCCESS, IN_PROCESS, EXPIRED = "00", "01", "06", "29"
"""How codes end, with the same meaning in both products."""


@define
class Wallet:
    """Somebody's money, and the person who is asked for a PIN."""

    number: str
    """National, or the name of one of the merchant's own."""
    balance: int = 0
    """In minor units."""
    pin: str = field(default="0000", repr=False)
    types: str | None = field(default="0000", repr=False)
    """What the person answers a prompt with; None: nothing."""
    limit: int | None = None
    """The largest balance."""
    is_barred: bool = False


@define
class Payment:
    """A submission that was taken."""

    kind: str
    id: str
    number: str
    amount: Money
    receipt: str
    taken_at: Instant
    end_code: str | None = None
    """What a script wants it to come to; None: what the wallets make of it."""
    end_message: str | None = None
    calls_after: tuple[Span, ...] = ()
    result: str | None = None
    """The operator's code, once it has come to one."""
    message: str = "in process"
    told: int = 0

    @property
    def status(self) -> str:
        """What an enquiry says."""
        if self.result is None:
            return "TIP"
        endings = {SUCCESS: "TS", AMBIGUOUS: "TA", EXPIRED: "TE"}
        return endings.get(self.result.removeprefix(PREFIXES[self.kind]), "TF")

    @property
    def is_paid(self) -> bool:
        """Whether the money moved."""
        return self.status == "TS"


@define
class Wallets:
    """Every wallet in one currency."""

    currency: str
    _wallets: dict[str, Wallet] = Factory(
        lambda: {name: Wallet(name) for name in (COLLECTION, DISBURSEMENT)}
    )

    def open(self, document: Mapping[str, Any]) -> None:
        """Open a wallet, or set one that exists: `{"account", "balance", "pin", "types", "limit", "barred"}`.

        Raises ValueError when it makes no sense; then nothing has changed.
        """
        given = dict(document)
        number = given.pop("account", None)
        if not isinstance(number, str) or not number:
            raise ValueError("account must be a national number, collection or disbursement")
        known = self._wallets.get(number, Wallet(number))
        pin = _text_or_none(given, "pin", known.pin)
        wallet = Wallet(
            number,
            balance=self._minor(given, "balance", known.balance) or 0,
            pin=pin or "",
            types=_text_or_none(given, "types", pin if "pin" in document else known.types),
            limit=self._minor(given, "limit", known.limit),
            is_barred=bool(given.pop("barred", known.is_barred)),
        )
        if given.pop("currency", self.currency) != self.currency or given:
            raise ValueError(f"unknown members or another currency than {self.currency}")
        self._wallets[number] = wallet

    def find(self, number: str) -> Wallet | None:
        """The customer's wallet with this number."""
        return None if number in PREFIXES else self._wallets.get(number)

    def settle(self, payment: Payment) -> None:
        """Let the payment come to its result, and move the money if that is a success."""
        ending = payment.end_code
        if ending is None:
            ending = PREFIXES[payment.kind] + self._ending(payment)
        payment.result = ending
        payment.message = payment.end_message or "told by the simulator"
        if payment.is_paid:
            customer, merchant = self._wallets[payment.number], self._wallets[payment.kind]
            minor = payment.amount.minor
            customer.balance += -minor if payment.kind == COLLECTION else minor
            merchant.balance += minor if payment.kind == COLLECTION else -minor

    def book(self) -> list[Mapping[str, str]]:
        """Every wallet with its balance."""
        return [
            {
                "account": each.number,
                "currency": self.currency,
                "balance": Money(each.balance, self.currency).text,
            }
            for each in self._wallets.values()
        ]

    def _ending(self, payment: Payment) -> str:
        """How the code ends that the payment comes to by itself."""
        wallet, minor = self._wallets[payment.number], payment.amount.minor
        if payment.kind == COLLECTION:
            if wallet.types is None:
                return "05"
            if wallet.types != wallet.pin:
                return "02"
            return SUCCESS if wallet.balance >= minor else "07"
        if wallet.is_barred:
            return "09"
        if wallet.limit is not None and wallet.balance + minor > wallet.limit:
            return "03"
        return SUCCESS if self._wallets[DISBURSEMENT].balance >= minor else "07"

    def _minor(self, given: dict[str, Any], name: str, default: int | None) -> int | None:
        value = given.pop(name, None)
        if value is None:
            return default
        try:
            return amount_of(parse_number(str(value)), self.currency).minor
        except AmountError as error:
            raise ValueError(f"{name} {error}") from None


def amount_of(value: Decimal | int, currency: str) -> Money:
    """Raises AmountError for more decimals than the currency has."""
    return money(Decimal(value), currency)


def _text_or_none(given: dict[str, Any], name: str, default: str | None) -> str | None:
    value = given.pop(name, default)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} must be text or null")
    return value

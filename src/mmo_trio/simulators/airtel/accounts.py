"""The money of Airtel Money's simulator: wallets, payments, and what each payment comes to."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from attrs import Factory, define, field

from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.money import AmountError, Money, parse_number, to_money

COLLECTION: Final = "collection"
DISBURSEMENT: Final = "disbursement"
"""The merchant's own wallets: what pay-ins fill, and what pay-outs are taken from."""

CODE_PREFIXES: Final[Mapping[str, str]] = {COLLECTION: "DP008000010", DISBURSEMENT: "DP009000010"}
"""How the codes of each product begin."""

AMBIGUOUS, SUCCESS, IN_PROCESS, EXPIRED = "00", "01", "06", "29"
"""How codes end, with the same meaning in both products."""


@define
class SimulatedAirtelWallet:
    """Somebody's money, and the person who is asked for a PIN."""

    number: str
    """National, or the name of one of the merchant's own."""
    balance_minor: int = 0
    """In minor units."""
    pin: str = field(default="0000", repr=False)
    entered_pin: str | None = field(default="0000", repr=False)
    """What the person answers a prompt with; None: nothing."""
    balance_max_minor: int | None = None
    """The largest balance."""
    is_barred: bool = False


@define
class SimulatedAirtelPayment:
    """A submission that was taken."""

    kind: str
    id: str
    number: str
    amount: Money
    receipt: str
    accepted_at: Instant
    scripted_code: str | None = None
    """What a script wants it to come to; None: what the wallets make of it."""
    scripted_message: str | None = None
    callback_delays: tuple[Span, ...] = ()
    result: str | None = None
    """The operator's code, once it has come to one."""
    message: str = "in process"
    callback_count: int = 0

    @property
    def status(self) -> str:
        """What an enquiry says."""
        if self.result is None:
            return "TIP"
        endings = {SUCCESS: "TS", AMBIGUOUS: "TA", EXPIRED: "TE"}
        return endings.get(self.result.removeprefix(CODE_PREFIXES[self.kind]), "TF")

    @property
    def is_paid(self) -> bool:
        """Whether the money moved."""
        return self.status == "TS"


@define
class SimulatedAirtelWallets:
    """Every wallet in one currency."""

    currency: str
    _wallets: dict[str, SimulatedAirtelWallet] = Factory(
        lambda: {name: SimulatedAirtelWallet(name) for name in (COLLECTION, DISBURSEMENT)}
    )

    def open(self, document: Mapping[str, Any]) -> None:
        """Open a wallet, or set one that exists: `{"account", "balance", "pin", "types", "limit", "barred"}`.

        Raises ValueError when it makes no sense; then nothing has changed.
        """
        given = dict(document)
        number = given.pop("account", None)
        if not isinstance(number, str) or not number:
            raise ValueError("account must be a national number, collection or disbursement")
        known = self._wallets.get(number, SimulatedAirtelWallet(number))
        pin = _optional_text(given, "pin", known.pin)
        wallet = SimulatedAirtelWallet(
            number,
            balance_minor=self._parse_minor(given, "balance", known.balance_minor) or 0,
            pin=pin or "",
            entered_pin=_optional_text(
                given, "types", pin if "pin" in document else known.entered_pin
            ),
            balance_max_minor=self._parse_minor(given, "limit", known.balance_max_minor),
            is_barred=bool(given.pop("barred", known.is_barred)),
        )
        if given.pop("currency", self.currency) != self.currency or given:
            raise ValueError(f"unknown members or another currency than {self.currency}")
        self._wallets[number] = wallet

    def find(self, number: str) -> SimulatedAirtelWallet | None:
        """The customer's wallet with this number."""
        return None if number in CODE_PREFIXES else self._wallets.get(number)

    def complete(self, payment: SimulatedAirtelPayment) -> None:
        """Let the payment come to its result, and move the money if that is a success."""
        ending = payment.scripted_code
        if ending is None:
            ending = CODE_PREFIXES[payment.kind] + self._code_suffix(payment)
        payment.result = ending
        payment.message = payment.scripted_message or "told by the simulator"
        if payment.is_paid:
            customer, merchant = self._wallets[payment.number], self._wallets[payment.kind]
            minor = payment.amount.minor
            customer.balance_minor += -minor if payment.kind == COLLECTION else minor
            merchant.balance_minor += minor if payment.kind == COLLECTION else -minor

    def balances(self) -> list[Mapping[str, str]]:
        """Every wallet with its balance."""
        return [
            {
                "account": each.number,
                "currency": self.currency,
                "balance": Money(each.balance_minor, self.currency).text,
            }
            for each in self._wallets.values()
        ]

    def _code_suffix(self, payment: SimulatedAirtelPayment) -> str:
        """How the code ends that the payment comes to by itself."""
        wallet, minor = self._wallets[payment.number], payment.amount.minor
        if payment.kind == COLLECTION:
            if wallet.entered_pin is None:
                return "05"
            if wallet.entered_pin != wallet.pin:
                return "02"
            return SUCCESS if wallet.balance_minor >= minor else "07"
        if wallet.is_barred:
            return "09"
        if (
            wallet.balance_max_minor is not None
            and wallet.balance_minor + minor > wallet.balance_max_minor
        ):
            return "03"
        return SUCCESS if self._wallets[DISBURSEMENT].balance_minor >= minor else "07"

    def _parse_minor(self, given: dict[str, Any], name: str, default: int | None) -> int | None:
        value = given.pop(name, None)
        if value is None:
            return default
        try:
            return to_money(parse_number(str(value)), self.currency).minor
        except AmountError as error:
            raise ValueError(f"{name} {error}") from None


def amount_of(value: Decimal | int, currency: str) -> Money:
    """Raises AmountError for more decimals than the currency has."""
    return to_money(Decimal(value), currency)


def _optional_text(given: dict[str, Any], name: str, default: str | None) -> str | None:
    value = given.pop(name, default)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} must be text or null")
    return value

"""Holds the money of the simulated Airtel Money: wallets, payments and their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import Factory, define, field

from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.money import AmountError, Money, parse_number, to_money
from mmo_simulators.common.simulator import account_row

COLLECTION: Final = "collection"

# The merchant's own wallets: pay-ins fill the first, pay-outs are taken from the second.
DISBURSEMENT: Final = "disbursement"

# The beginning of each product's codes.
CODE_PREFIXES: Final[Mapping[str, str]] = {COLLECTION: "DP008000010", DISBURSEMENT: "DP009000010"}

# How codes end, with the same meaning in both products.
AMBIGUOUS: Final = "00"
SUCCESS: Final = "01"
IN_PROCESS: Final = "06"
LACKS_FUNDS: Final = "07"
EXPIRED: Final = "29"

# How codes of collections end.
REFUSED: Final = "08"
NOT_FOUND: Final = "25"


# The short family of codes of collections, by how the other family's codes end; its `013` stands
# for any other refusal.
SHORT_CODES: Final[Mapping[str, str]] = {
    SUCCESS: "DP008001001",
    "02": "DP008001023",
    LACKS_FUNDS: "DP008001021",
}

SHORT_REFUSED: Final = "DP008001013"


@define
class SimulatedAirtelWallet:
    """A wallet belongs to a person who can be asked for a PIN."""

    number: str
    """The national number, or the name of one of the merchant's own."""
    balance_minor: int = 0
    """In minor units."""
    pin: str = field(default="0000", repr=False)
    entered_pin: str | None = field(default="0000", repr=False)
    """The person's answer to a prompt; None: nothing."""
    balance_max_minor: int | None = None
    """The largest balance."""
    is_barred: bool = False
    first_name: str = "Jane"
    last_name: str = "Doe"


@define
class SimulatedAirtelPayment:
    """A submission that was accepted."""

    kind: str
    id: str
    number: str
    amount: Money
    receipt: str
    accepted_at: Instant
    scripted_code: str | None = None
    """The result that a script sets; None: the wallets decide."""
    scripted_message: str | None = None
    polled_code: str | None = None
    """The result that enquiries are answered with once it has one; None: its own."""
    callback_delays: tuple[Span, ...] = ()
    ambiguous_status: str = "TA"
    """Its status where its code is the ambiguous one."""
    has_short_code: bool = False
    """Whether its code is of the short family."""
    result: str | None = None
    """The operator's code, once the payment has a result."""
    ended_at: Instant | None = None
    message: str = "in process"
    is_refunded: bool = False
    callback_count: int = 0

    # Whatever the family, the enquiry tells the end by this word; the code is a detail of it.
    @property
    def status(self) -> str:
        if self.result is None:
            return "TIP"
        if self.result == SHORT_CODES[SUCCESS]:
            return "TS"
        endings = {SUCCESS: "TS", AMBIGUOUS: self.ambiguous_status, EXPIRED: "TE"}
        return endings.get(self.result.removeprefix(CODE_PREFIXES[self.kind]), "TF")

    @property
    def is_paid(self) -> bool:
        return self.status == "TS"


@define
class SimulatedAirtelWallets:
    """Holds every wallet in one currency."""

    currency: str
    _wallets: dict[str, SimulatedAirtelWallet] = Factory(
        lambda: {name: SimulatedAirtelWallet(name) for name in (COLLECTION, DISBURSEMENT)}
    )

    def open(self, document: Mapping[str, Any]) -> None:
        """Open a wallet, or change one: `{"account", "balance", "pin", "types", "limit", "barred",
        "first_name", "last_name"}`.

        Raises ValueError for invalid members; then nothing has changed.
        """
        members = dict(document)
        number = members.pop("account", None)
        if not isinstance(number, str) or not number:
            raise ValueError("account must be a national number, collection or disbursement")

        # What a document leaves out stays as it was.
        known = self._wallets.get(number, SimulatedAirtelWallet(number))
        pin = _optional_text(members, "pin", known.pin)
        typed_by_default = known.entered_pin
        if "pin" in document:
            typed_by_default = pin

        wallet = SimulatedAirtelWallet(
            number,
            balance_minor=self._parse_minor(members, "balance", known.balance_minor) or 0,
            pin=pin or "",
            entered_pin=_optional_text(members, "types", typed_by_default),
            balance_max_minor=self._parse_minor(members, "limit", known.balance_max_minor),
            is_barred=bool(members.pop("barred", known.is_barred)),
            first_name=_optional_text(members, "first_name", known.first_name) or "",
            last_name=_optional_text(members, "last_name", known.last_name) or "",
        )
        # Last: what nobody has read is unknown, and nothing has been changed yet.
        if members.pop("currency", self.currency) != self.currency or members:
            raise ValueError(f"unknown members or another currency than {self.currency}")

        self._wallets[number] = wallet

    def find(self, number: str) -> SimulatedAirtelWallet | None:
        """Return the customer's wallet with this number."""
        if number in CODE_PREFIXES:
            return None
        return self._wallets.get(number)

    def complete(self, payment: SimulatedAirtelPayment, *, now: Instant) -> None:
        """Set the payment's result, and move the money if that is a success."""
        payment.ended_at = now

        # A script's code stands as it is; the wallets' one is written in the market's family.
        ending = payment.scripted_code
        if ending is None:
            suffix = self._code_suffix(payment)
            ending = CODE_PREFIXES[payment.kind] + suffix
            if payment.has_short_code:
                ending = SHORT_CODES.get(suffix, SHORT_REFUSED)

        payment.result = ending
        payment.message = payment.scripted_message or "set by the simulator"

        # From the customer to the merchant, or for a pay-out the other way.
        if payment.is_paid:
            customer = self._wallets[payment.number]
            merchant = self._wallets[payment.kind]
            minor = payment.amount.minor
            if payment.kind != COLLECTION:
                minor = -minor

            customer.balance_minor -= minor
            merchant.balance_minor += minor

    def refund(self, payment: SimulatedAirtelPayment) -> str:
        """Give a collection back to its payer, whole and once, and return how the code of the
        result ends."""
        merchant = self._wallets[payment.kind]
        if not payment.is_paid or payment.is_refunded:
            return REFUSED
        if merchant.balance_minor < payment.amount.minor:
            return LACKS_FUNDS

        payment.is_refunded = True
        merchant.balance_minor -= payment.amount.minor
        self._wallets[payment.number].balance_minor += payment.amount.minor
        return SUCCESS

    def merchant_balance(self, name: str) -> Money:
        """Return the balance of one of the merchant's own wallets."""
        return Money(self._wallets[name].balance_minor, self.currency)

    def balances(self) -> list[Mapping[str, str]]:
        """Return every wallet with its balance."""
        return [
            account_row(wallet.number, Money(wallet.balance_minor, self.currency))
            for wallet in self._wallets.values()
        ]

    def _code_suffix(self, payment: SimulatedAirtelPayment) -> str:
        wallet = self._wallets[payment.number]
        minor = payment.amount.minor

        # The payer acts first: a wrong PIN is told before a lack of money.
        if payment.kind == COLLECTION:
            if wallet.entered_pin is None:
                return "05"
            if wallet.entered_pin != wallet.pin:
                return "02"
            if wallet.balance_minor >= minor:
                return SUCCESS

            return LACKS_FUNDS

        # Of a pay-out nobody is asked: the wallet takes it or not, and ours pays or not.
        if wallet.is_barred:
            return "09"

        if (
            wallet.balance_max_minor is not None
            and wallet.balance_minor + minor > wallet.balance_max_minor
        ):
            return "03"

        if self._wallets[DISBURSEMENT].balance_minor >= minor:
            return SUCCESS

        return LACKS_FUNDS

    def _parse_minor(self, members: dict[str, Any], name: str, default: int | None) -> int | None:
        value = members.pop(name, None)
        if value is None:
            return default
        try:
            return to_money(parse_number(str(value)), self.currency).minor
        except AmountError as error:
            raise ValueError(f"{name} {error}") from None


def _optional_text(members: dict[str, Any], name: str, default: str | None) -> str | None:
    value = members.pop(name, default)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} must be text or null")
    return value

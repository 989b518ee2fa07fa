"""Defines money: exact amounts in a currency's minor units, from the request to the response
(clauses G6, M1). A test compares the currencies with the published list of ISO 4217."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from types import MappingProxyType

from attrs import frozen

# The largest accepted amount (M1): far above any payment, and far below the limit of any store.
AMOUNT_MAX = Decimal(10) ** 15

# The longest number that is read (G7); longer text costs time to convert and has no meaning.
NUMBER_CHARACTERS_MAX = 40

# `1e999999999` is short, and would fill the memory as an integer.
_EXPONENT_MAX = 99
_NUMBER = re.compile(r"(-?[0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?", re.ASCII)
_WRITTEN = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)


class AmountError(ValueError):
    """Raised for text or a value that is not an acceptable amount; the message says what is
    acceptable."""


@frozen
class Money:
    """Money is an amount of a currency, counted in its minor units."""

    minor: int
    """Whole minor units: cents for KES, whole shillings for UGX, thousandths for KWD."""
    currency: str
    """ISO 4217 alphabetic code."""

    def __str__(self) -> str:
        return f"{self.text} {self.currency}"

    @property
    def text(self) -> str:
        """Return the amount with exactly the currency's number of decimals and never an exponent:
        `150.00`."""
        decimals = decimals_of(self.currency)
        if decimals == 0:
            return str(self.minor)
        sign = "-" if self.minor < 0 else ""
        # Zeros before a small amount: 5 minor units are 0.05.
        digits = str(abs(self.minor)).rjust(decimals + 1, "0")
        return f"{sign}{digits[:-decimals]}.{digits[-decimals:]}"


def parse_number(text: str) -> Decimal:
    """Return the exact value of a JSON number. Raises AmountError when it has more than 40
    characters or an exponent of more than two digits, so that no text costs more than its length to
    read (G7)."""
    # The length first, so that nothing else is done with a text that is too long.
    if len(text) > NUMBER_CHARACTERS_MAX:
        raise AmountError(f"must be a number of at most {NUMBER_CHARACTERS_MAX} characters")

    match = _NUMBER.fullmatch(text)
    if match is None:
        raise AmountError("must be a decimal number such as 150.00")
    if abs(int(match[3] or 0)) > _EXPONENT_MAX:
        raise AmountError("must be a number between 0 and 10^15")

    return Decimal(text)


def check_amount(value: Decimal) -> Decimal:
    """Return the value itself when it is above 0 and at most 10^15 (M1); raises AmountError
    otherwise."""
    if value <= 0:
        raise AmountError("must be greater than 0")
    if value > AMOUNT_MAX:
        raise AmountError("must be at most 1000000000000000 (10^15)")
    return value


def to_money(value: Decimal, currency: str) -> Money:
    """Return the value in minor units. Raises AmountError when it has more decimals than the
    currency (M1, by value: `100.500` KES is accepted, `100.5` UGX is not) and KeyError for an
    unknown currency."""
    decimals = decimals_of(currency)
    # In whole numbers: neither a float nor the precision of Decimal has a part in it (G6).
    numerator, denominator = value.as_integer_ratio()
    minor, rest = divmod(numerator * 10**decimals, denominator)
    if rest and decimals:
        raise AmountError(f"must have at most {decimals} decimals in {currency}")
    if rest:
        raise AmountError(f"must be a whole number in {currency}")

    return Money(minor, currency)


def written_money(text: str, currency: str) -> Money:
    """Return an amount above 0 as people write it: digits, and a point before no more decimals than
    the currency has. In many countries a point parts thousands, so that `15.000` may be fifteen
    thousand. Raises AmountError, and KeyError for an unknown currency."""
    decimals = decimals_of(currency)
    # What is no number or no amount gets that error, and not the one about its form.
    value = check_amount(parse_number(text))
    if not _WRITTEN.fullmatch(text):
        raise AmountError("must be digits, with a point before decimals")

    if len(text.partition(".")[2]) > decimals:
        raise AmountError(
            f"must have at most {decimals} decimals in {currency}, also zeros: a point may be meant"
            " to part thousands"
        )

    return to_money(value, currency)


def percentage_of(amount: Money, percent: int) -> Money:
    """Return that percentage of the amount, rounded half up, and at least one minor unit: the
    sandbox's fee."""
    return Money(max(1, (amount.minor * percent * 2 + 100) // 200), amount.currency)


# Alphabetic and numeric codes by number of decimals.
_CODES_BY_DECIMALS = {
    0: """
        BIF108 CLP152 DJF262 GNF324 ISK352 JPY392 KMF174 KRW410 PYG600 RWF646 UGX800
        UYI940 VND704 VUV548 XAF950 XOF952 XPF953
    """,
    2: """
        AED784 AFN971 ALL008 AMD051 AOA973 ARS032 AUD036 AWG533 AZN944 BAM977 BBD052
        BDT050 BMD060 BND096 BOB068 BOV984 BRL986 BSD044 BTN064 BWP072 BYN933 BZD084
        CAD124 CDF976 CHE947 CHF756 CHW948 CNY156 COP170 COU970 CRC188 CUP192 CVE132
        CZK203 DKK208 DOP214 DZD012 EGP818 ERN232 ETB230 EUR978 FJD242 FKP238 GBP826
        GEL981 GHS936 GIP292 GMD270 GTQ320 GYD328 HKD344 HNL340 HTG332 HUF348 IDR360
        ILS376 INR356 IRR364 JMD388 KES404 KGS417 KHR116 KPW408 KYD136 KZT398 LAK418
        LBP422 LKR144 LRD430 LSL426 MAD504 MDL498 MGA969 MKD807 MMK104 MNT496 MOP446
        MRU929 MUR480 MVR462 MWK454 MXN484 MXV979 MYR458 MZN943 NAD516 NGN566 NIO558
        NOK578 NPR524 NZD554 PAB590 PEN604 PGK598 PHP608 PKR586 PLN985 QAR634 RON946
        RSD941 RUB643 SAR682 SBD090 SCR690 SDG938 SEK752 SGD702 SHP654 SLE925 SOS706
        SRD968 SSP728 STN930 SVC222 SYP760 SZL748 THB764 TJS972 TMT934 TOP776 TRY949
        TTD780 TWD901 TZS834 UAH980 USD840 USN997 UYU858 UZS860 VED926 VES928 WST882
        XAD396 XCD951 XCG532 YER886 ZAR710 ZMW967 ZWG924
    """,
    3: "BHD048 IQD368 JOD400 KWD414 LYD434 OMR512 TND788",
    4: "CLF990 UYW927",
}

# Alphabetic code to (number of decimals, numeric code).
CURRENCIES = MappingProxyType(
    {
        code[:3]: (decimals, int(code[3:]))
        for decimals, codes in _CODES_BY_DECIMALS.items()
        for code in codes.split()
    }
)


def decimals_of(currency: str) -> int:
    """Return how many decimals the currency has (KES 2, UGX 0, KWD 3); raises KeyError for a code
    that ISO 4217 does not have."""
    return CURRENCIES[currency][0]


def sum_by_currency(amounts: Iterable[Money]) -> tuple[Money, ...]:
    """Return the sum of the amounts in each currency, in the order of the currencies' codes."""
    # Never across currencies: their sum would mean nothing.
    minor = Counter[str]()
    for amount in amounts:
        minor[amount.currency] += amount.minor
    return tuple(Money(total, currency) for currency, total in sorted(minor.items()))

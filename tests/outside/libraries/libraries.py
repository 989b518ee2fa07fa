"""Lists the libraries that the page about amounts and numbers speaks of, what they are asked, and
what to do about their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from mmo_sansio.providers.common.emv_qr import QrMerchant, dynamic_payload
from mmo_sansio.testing import REFERENCE
from mmo_sansio.values.money import Money

_MERCHANT = QrMerchant((("00", "com.example.till"), ("01", "174379")), "A SHOP", "ABIDJAN", "CI")


def _payload(amount: Money, checksum: str) -> str:
    """Return a code of the gateway whose checksum begins so."""
    payloads = (
        dynamic_payload(_MERCHANT, amount, REFERENCE, bill_number=f"order-{number}")
        for number in range(10_000)
    )
    return next(payload for payload in payloads if payload[-4:].startswith(checksum))


@frozen
class Topic:
    """Is a table of the page."""

    title: str
    columns: Mapping[str, tuple[str, ...]]
    """The question of each column, as the programs take it."""


TOPICS: Mapping[str, Topic] = {
    "amounts": Topic(
        "Amounts",
        {
            f"{code} {text}": (code, text)
            for code, text in (
                ("KES", "1500.50"),
                ("MGA", "1500.50"),
                ("SOS", "1500.50"),
                ("MRU", "1500.50"),
                ("XOF", "1500"),
                ("XCG", "1500.50"),
            )
        },
    ),
    "numbers": Topic(
        "Numbers",
        {
            "Benin, +2290195123456": ("+2290195123456", "", "is valid"),
            "without 01": ("+22995123456", "", "is valid"),
            "Côte d'Ivoire, +2250123456789": ("+2250123456789", "", "is valid"),
            "without its 0": ("+225123456789", "", "is valid"),
            "Congo, +242061234567": ("+242061234567", "", "is valid"),
            "without 0": ("+24261234567", "", "is valid"),
            "62812345678 for Indonesia": ("62812345678", "ID", "in E.164"),
        },
    ),
    "references": Topic(
        "References",
        {
            "upper case": ("01ARZ3NDEKTSV4RRFFQ69G5FAV",),
            "lower case": ("01arz3ndektsv4rrffq69g5fav",),
            "an I for a 1": ("0IARZ3NDEKTSV4RRFFQ69G5FAV",),
            "an 8 in front": ("81ARZ3NDEKTSV4RRFFQ69G5FAV",),
        },
    ),
    "codes": Topic(
        "QR codes",
        {
            "KES 2500.50": (_payload(Money(250050, "KES"), "1"),),
            "XOF 2500": (_payload(Money(2500, "XOF"), "1"),),
            "XOF 900, checksum 0…": (_payload(Money(900, "XOF"), "01"),),
            "XOF 900, checksum 00…": (_payload(Money(900, "XOF"), "00"),),
        },
    ),
}


@frozen
class Library:
    """Names a package, and what a merchant does about it."""

    topic: str
    package: str
    """Its name as the programs know it."""
    version: str
    """Empty for what comes with Node."""
    remedy: str
    is_npm: bool = False

    @property
    def key(self) -> str:
        return f"{self.package} {self.version}".strip()

    @property
    def requirement(self) -> str:
        name = self.package.removesuffix("/min")
        return f"{name}@{self.version}" if self.is_npm else f"{name}=={self.version}"


_PLUS_SIGN = "put a plus sign before what is international already"
_UPPER_CASE = "keep references in upper case, as they come"
_OTHER_READER = "check codes with another package: one in 256 has such a checksum"
_NONE = "nothing"

LIBRARIES: Sequence[Library] = (
    Library("amounts", "Intl", "", "`minimumFractionDigits: 2` for MGA and SOS", is_npm=True),
    Library(
        "amounts",
        "dinero.js",
        "2.0.2",
        "currencies of your own for MGA and MRU, with base 10 and exponent 2",
        is_npm=True,
    ),
    Library("amounts", "currency-codes", "2.2.0", "XCG has two decimals", is_npm=True),
    Library("amounts", "Babel", "2.19.0", "`format_currency(..., currency_digits=False)`"),
    Library(
        "amounts",
        "py-moneyed",
        "3.0",
        "`moneyed.l10n.format_money(..., currency_digits=False)`; `add_currency` for XCG",
    ),
    Library("numbers", "phonenumbers", "9.0.43", _PLUS_SIGN),
    Library("numbers", "libphonenumber-js", "1.13.16", _PLUS_SIGN, is_npm=True),
    Library("numbers", "libphonenumber-js/min", "1.13.16", _PLUS_SIGN, is_npm=True),
    Library("numbers", "google-libphonenumber", "3.2.47", _PLUS_SIGN, is_npm=True),
    Library("references", "python-ulid", "3.2.1", _UPPER_CASE),
    Library("references", "python-ulid", "4.1.0", _NONE),
    Library("references", "ulid-py", "1.1.0", "compare references as texts"),
    Library("references", "ulid", "3.0.2", _UPPER_CASE, is_npm=True),
    Library("references", "ulidx", "2.4.1", _UPPER_CASE, is_npm=True),
    Library("references", "id128", "1.6.6", "compare references as texts", is_npm=True),
    Library("codes", "emvqr", "0.0.5", _OTHER_READER, is_npm=True),
    Library("codes", "steplix-emvqr", "0.2.3", _OTHER_READER, is_npm=True),
    Library("codes", "promptparse", "1.6.0", _NONE, is_npm=True),
    Library(
        "codes",
        "emvco-qr-sdk",
        "1.0.0",
        "`parseMode: QRParseMode.TLV`, and look for the tag 54",
        is_npm=True,
    ),
    Library("codes", "cemacqr", "0.1.2", _NONE),
    Library("codes", "uemoa-qrcode-sdk", "0.1.0", _NONE),
)

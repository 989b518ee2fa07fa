"""Writes the text of merchant-presented QR codes (EMV QRCPS-MPM v1.1), and reads an account's
merchant for them.

The text is a row of objects: an ID of two digits, a length of two digits that counts characters, a
value. Object 00 comes first and object 63, the checksum, last."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from attrs import evolve, frozen

from mmo_sansio.values.fields import TEXT, SettingsError, setting
from mmo_sansio.values.model import Order, QrCode
from mmo_sansio.values.money import CURRENCIES, Money

# What objects 59 and 60 hold.
NAME_CHARACTERS_MAX = 25
CITY_CHARACTERS_MAX = 15

# The longest bill number or reference label (objects 62.01 and 62.05).
LABEL_CHARACTERS_MAX = 25

# What object 54 holds, its decimal point counted.
AMOUNT_CHARACTERS_MAX = 13

# A length has two digits.
_VALUE_CHARACTERS_MAX = 99
# Object 01: `11` is a code that is printed once and paid often, `12` one for one payment.
_DYNAMIC = "12"
# The checksum covers its own ID and length too.
_CHECKSUM_PREFIX = "6304"
_COUNTRY = re.compile(r"[A-Z]{2}", re.ASCII)
_FOUR_DIGITS = re.compile(r"[0-9]{4}", re.ASCII)
# Those that begin with a scheme's identifier; 02 to 25 belong to the card schemes.
_ACCOUNT_TEMPLATES = frozenset(f"{number:02}" for number in range(26, 52))


class QrError(ValueError):
    """Raised for a value that does not fit into its object; the message says which and why."""


@frozen
class QrMerchant:
    """Names the recipient of a code's payment, in the terms of the scheme that carries the
    money."""

    account: tuple[tuple[str, str], ...]
    """The objects within the account template: `00` is the scheme's identifier, which defines the
    others."""
    name: str
    city: str
    country: str
    """ISO 3166-1 alpha-2."""
    account_id: str = "26"
    """The template's ID, `26` to `51`."""
    category: str = "5999"
    """ISO 18245 merchant category code; `5999`: specialty retail. Some readers reject `0000`, which
    ISO 18245 does not define, or take the rest of the text apart wrongly after it."""
    postal_code: str | None = None
    language: str | None = None
    """ISO 639-1 language of the name and city as written; with it, a form that is not ASCII is
    written to template 64."""


def dynamic_payload(
    merchant: QrMerchant, amount: Money, gateway_reference: str, *, bill_number: str | None = None
) -> str:
    """Return the payload of a dynamic code, which is for one payment of this amount; the payment is
    found again by its :func:`reference_label`.

    The bill number is shown to the payer, and cut to its length. Raises QrError when a value does
    not fit, and KeyError for an unknown currency."""
    if amount.minor <= 0 or len(amount.text) > AMOUNT_CHARACTERS_MAX:
        raise QrError(f"an amount must be positive and at most {AMOUNT_CHARACTERS_MAX} characters")

    _check_merchant(merchant)
    bill = _to_ascii(bill_number or "")[:LABEL_CHARACTERS_MAX] or None

    # Readers count a length in characters or in bytes; ASCII is the same in both.
    name = _to_ascii(merchant.name)
    city = _to_ascii(merchant.city)
    translation = None
    if (name, city) != (merchant.name, merchant.city):
        translation = _language_template(merchant)

    body = _encode_objects(
        [
            ("00", "01"),
            ("01", _DYNAMIC),
            (merchant.account_id, _encode_objects(merchant.account)),
            ("52", merchant.category),
            ("53", f"{CURRENCIES[amount.currency][1]:03}"),
            ("54", amount.text),
            ("58", merchant.country),
            ("59", name[:NAME_CHARACTERS_MAX]),
            ("60", city[:CITY_CHARACTERS_MAX]),
            ("61", merchant.postal_code),
            ("62", _encode_objects([("01", bill), ("05", reference_label(gateway_reference))])),
            ("64", translation),
        ]
    )
    return body + _CHECKSUM_PREFIX + checksum(body + _CHECKSUM_PREFIX)


def reference_label(gateway_reference: str) -> str:
    """Return the label of a payment in 62.05: the last 25 characters of its reference. The dropped
    character of a ULID counts periods of a thousand years."""
    return gateway_reference[-LABEL_CHARACTERS_MAX:]


def checksum(text: str) -> str:
    """Return the CRC-16/CCITT-FALSE of the UTF-8 bytes, as four upper-case hexadecimal digits."""
    # ISO/IEC 13239 with polynomial 1021 and initial value FFFF, as EMV prescribes.
    remainder = 0xFFFF
    for byte in text.encode():
        remainder ^= byte << 8
        for _ in range(8):
            shifted = remainder << 1 & 0xFFFF
            if remainder & 0x8000:
                remainder = shifted ^ 0x1021
            else:
                remainder = shifted

    return f"{remainder:04X}"


def _check_merchant(merchant: QrMerchant) -> None:
    if merchant.account_id not in _ACCOUNT_TEMPLATES:
        raise QrError("an account template is one of 26 to 51")
    if not _FOUR_DIGITS.fullmatch(merchant.category):
        raise QrError("a merchant category has four digits")
    if not _COUNTRY.fullmatch(merchant.country):
        raise QrError("a country has two capital letters")
    if merchant.postal_code is not None and not 0 < len(merchant.postal_code) <= 10:
        raise QrError("a postal code has 1 to 10 characters")
    if not all(_to_ascii(text) for text in (merchant.name, merchant.city)):
        raise QrError("a merchant has a name and a city")


def _language_template(merchant: QrMerchant) -> str | None:
    """Return template 64, or None when the language is unknown: a reader could not choose it."""
    if merchant.language is None:
        return None
    name = merchant.name[:NAME_CHARACTERS_MAX]
    city = merchant.city[:CITY_CHARACTERS_MAX]
    return _encode_objects([("00", merchant.language.upper()), ("01", name), ("02", city)])


def _encode_objects(objects: Iterable[tuple[str, str | None]]) -> str:
    """Write the objects that have a value; raises QrError for one that is too long."""
    text = ""
    for id, value in objects:
        if value is None:
            continue
        if not 0 < len(value) <= _VALUE_CHARACTERS_MAX:
            raise QrError(f"object {id} holds 1 to {_VALUE_CHARACTERS_MAX} characters")

        text += f"{id}{len(value):02}{value}"
    return text


def _to_ascii(text: str) -> str:
    """Return the text in ASCII, letters without their marks; if nothing would be left, the text as
    it is."""
    # NFKD takes a letter apart from its marks, which are not ASCII and fall away.
    spelled = unicodedata.normalize("NFKD", text.translate(_SPELLINGS))
    ascii_text = "".join(
        character for character in spelled if character.isascii() and character.isprintable()
    )
    return ascii_text.strip() or text


# How letters are spelled that Unicode does not take apart, as those of Akan, Ewe and Hausa.
_SPELLINGS = str.maketrans(
    {
        **dict(
            zip(
                "ƆɔƐɛƉɖĐđÐðŊŋƁɓƊɗƘƙƳƴƑƒƔɣƲʋƖɩƱʊƎǝŁłØøı",
                "OoEeDdDdDdNnBbDdKkYyFfGgVvIiUuEeLlOoi",
                strict=True,
            )
        ),
        "ß": "ss",
        "ẞ": "SS",
        "Æ": "AE",
        "æ": "ae",
        "Œ": "OE",
        "œ": "oe",
        "Þ": "Th",
        "þ": "th",
    }
)

# A trial order: a merchant that can't be encoded is refused at the start, not at a payment.
_ANY_AMOUNT = Money(100, "KES")
_ANY_REFERENCE = "0" * 26


@frozen
class QrOptions:
    """Declares the settings of an account whose QR codes are made here."""

    qr_name: str | None = setting(
        TEXT, None, "The merchant's name, cut after 25 characters.", default_text="the kind's"
    )
    qr_city: str | None = setting(
        TEXT, None, "The merchant's city, cut after 15 characters.", default_text="the kind's"
    )
    qr_category: str | None = setting(
        TEXT, None, "Four digits of ISO 18245.", default_text="the kind's"
    )
    qr_postal_code: str | None = setting(TEXT, None, "The merchant's postal code.")
    qr_language: str | None = setting(TEXT, None, "The language of a name that is not ASCII.")
    qr_template: str | None = setting(
        TEXT, None, "Which account template, 26 to 51.", default_text="the kind's"
    )
    qr_scheme: str | None = setting(
        TEXT, None, "Its object 00: the scheme's own identifier.", default_text="the kind's"
    )
    qr_account: str | None = setting(
        TEXT, None, "Its object 01: the account with that scheme.", default_text="the kind's"
    )


def qr_merchant(options: QrOptions, default: QrMerchant) -> QrMerchant:
    """Return the merchant of these options, with the default's values for those left out. Raises
    SettingsError."""
    scheme, account = (value for _, value in default.account)
    merchant = evolve(
        default,
        name=options.qr_name or default.name,
        city=options.qr_city or default.city,
        category=options.qr_category or default.category,
        postal_code=options.qr_postal_code or default.postal_code,
        language=options.qr_language or default.language,
        account_id=options.qr_template or default.account_id,
        account=(("00", options.qr_scheme or scheme), ("01", options.qr_account or account)),
    )
    # Which option is at fault the error says; it is reported at the first of them.
    try:
        dynamic_payload(merchant, _ANY_AMOUNT, _ANY_REFERENCE)
    except QrError as error:
        remedy = "Correct it, or the other options that begin with qr_."
        raise SettingsError("qr_name", f"gives no QR code: {error}.", remedy) from None

    return merchant


def make_qr_code(merchant: QrMerchant, order: Order) -> QrCode | None:
    """Return the code that pays this order; None when no code can hold it: an amount may have too
    many digits."""
    # The payer's app wants the country of the payment, where one account serves several.
    paid = evolve(merchant, country=order.country)
    try:
        text = dynamic_payload(
            paid, order.requested, order.gateway_reference, bill_number=order.merchant_reference
        )
    except QrError:
        return None
    return QrCode(payload=text)

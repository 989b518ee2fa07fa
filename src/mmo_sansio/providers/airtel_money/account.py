"""What `[provider.NAME]` holds for an account with Airtel Money: one application in one country and currency."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from mmo_sansio.providers.common.ciphers import RsaPadding
from mmo_sansio.providers.common.options import OptionError, Options
from mmo_sansio.values.clock import SECOND, Span
from mmo_sansio.values.currencies import CURRENCIES


@frozen
class AirtelCountry:
    """A country in which the operator works."""

    currency: str
    dialling_code: str


MARKETS: Mapping[str, AirtelCountry] = MappingProxyType(
    {
        "CD": AirtelCountry("CDF", "243"),
        "CG": AirtelCountry("XAF", "242"),
        "GA": AirtelCountry("XAF", "241"),
        "KE": AirtelCountry("KES", "254"),
        "MG": AirtelCountry("MGA", "261"),
        "MW": AirtelCountry("MWK", "265"),
        "NE": AirtelCountry("XOF", "227"),
        "NG": AirtelCountry("NGN", "234"),
        "RW": AirtelCountry("RWF", "250"),
        "TD": AirtelCountry("XAF", "235"),
        "TZ": AirtelCountry("TZS", "255"),
        "UG": AirtelCountry("UGX", "256"),
        "ZM": AirtelCountry("ZMW", "260"),
    }
)
"""By ISO 3166-1 alpha-2 code, with the currency that is usual there."""


@frozen
class AirtelAccount:
    """An account, ready to be used."""

    base_url: str
    """Without a slash at its end; a country has its own, in production and for tests."""
    country: str
    currency: str
    dialling_code: str
    client_id: str
    client_secret: str = field(repr=False)
    pin: str | None = field(default=None, repr=False)
    """Of the wallet that pays out; None: this account pays nothing out."""
    collection_version: int = 1
    disbursement_version: int = 2
    signs_collections: bool = False
    signs_disbursements: bool = False
    public_key: bytes | None = None
    """The operator's RSA key, DER; None: it is fetched."""
    pin_padding: RsaPadding = RsaPadding.OAEP_SHA256
    """For keys of more than 1024 bits; shorter ones take PKCS#1 v1.5 only."""
    key_padding: RsaPadding = RsaPadding.PKCS1V15
    """The same, for x-key."""
    pin_member: str = "pin"
    wallet_type: str = "NORMAL"
    disbursement_type: str = "B2C"
    polls_with_type: bool = False
    """Whether a question about a pay-out names its type."""
    callback_key: str | None = field(default=None, repr=False)
    """What callbacks are authenticated with; None: they aren't."""
    callback_hash_header: str = "hash"
    """Where the hash stands when it isn't in the body."""
    first_poll_after: Span = Span(180 * SECOND)
    """How long after a prompt the operator may be asked about it for the first time."""
    is_rejection_by_payer: bool = False
    """Whether this market's code for a refusal says that it was the payer who refused."""
    keeps_leading_zero: bool = False
    """Whether a zero after the dialling code belongs to national numbers."""


def read_account(options: Mapping[str, Any]) -> AirtelAccount:
    """The account that these options describe. Raises OptionError for one that is unknown, missing or unusable."""
    given = Options(options)
    country = given.text("country").upper()
    market = MARKETS.get(country)
    collection_version = int(given.choice("collection_version", ("1", "2"), "1"))
    disbursement_version = int(given.choice("disbursement_version", ("1", "2", "3"), "2"))
    account = AirtelAccount(
        base_url=given.url("base_url"),
        country=_check_country(country),
        currency=_check_currency(given.text("currency", market.currency if market else None)),
        dialling_code=_check_dialling_code(
            given.text("dialling_code", market.dialling_code if market else None)
        ),
        client_id=given.text("client_id"),
        client_secret=given.text("client_secret"),
        pin=given.optional_text("pin"),
        collection_version=collection_version,
        disbursement_version=disbursement_version,
        signs_collections=given.boolean("sign_collections", collection_version == 2),
        signs_disbursements=given.boolean("sign_disbursements", disbursement_version == 3),
        public_key=_parse_public_key(given.optional_text("public_key")),
        pin_padding=_read_padding(given, "pin_padding", RsaPadding.OAEP_SHA256),
        key_padding=_read_padding(given, "key_padding", RsaPadding.PKCS1V15),
        pin_member=given.choice("pin_member", ("pin", "pinstring"), "pin"),
        wallet_type=given.choice("wallet_type", ("NORMAL", "SALARY"), "NORMAL"),
        disbursement_type=given.choice("disbursement_type", ("B2C", "B2B"), "B2C"),
        polls_with_type=given.boolean("ask_with_type", False),
        callback_key=given.optional_text("callback_key"),
        callback_hash_header=given.text("callback_hash_header", "hash").lower(),
        first_poll_after=Span(given.integer("first_question_after_s", 180) * SECOND),
        is_rejection_by_payer=given.boolean("refusal_is_of_payer", False),
        keeps_leading_zero=given.boolean("keep_leading_zero", False),
    )
    given.check_unknown()
    return account


def _check_country(code: str) -> str:
    if len(code) != 2 or not (code.isascii() and code.isalpha()):
        raise OptionError("country", "has two letters.", 'Write country = "UG", say.')
    return code


def _check_currency(code: str) -> str:
    if code not in CURRENCIES:
        raise OptionError("currency", "is no currency.", 'Write currency = "UGX", say.')
    return code


def _check_dialling_code(digits: str) -> str:
    if not (digits.isascii() and digits.isdigit()) or not 1 <= len(digits) <= 3:
        raise OptionError("dialling_code", "has 1 to 3 digits.", 'Write dialling_code = "256".')
    return digits


def _read_padding(options: Options, key: str, default: RsaPadding) -> RsaPadding:
    return RsaPadding(options.choice(key, tuple(RsaPadding), default))


def _parse_public_key(text: str | None) -> bytes | None:
    """The portal shows it as Base64 without armour; a file may have the armour too."""
    if text is None:
        return None
    if text.startswith("-----BEGIN"):
        return text.encode()
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        remedy = "Copy it from the portal, or leave it out and it is fetched."
        raise OptionError("public_key", "is no key in Base64.", remedy) from None

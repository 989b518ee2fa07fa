"""Reads the options of an account with Airtel Money: one application in one country and
currency."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from mmo_sansio.providers.common.interface import RsaPadding
from mmo_sansio.providers.common.options import OptionError, Options
from mmo_sansio.values.clock import SECOND, Span
from mmo_sansio.values.dialling_codes import DIALLING_CODES
from mmo_sansio.values.money import CURRENCIES

# Each country has a host of its own; those for tests begin with `openapiuat`.
PRODUCTION_HOSTS: Final = (
    "openapi.airtel.africa",
    "openapi.airtel.co.??",
    "openapi.airtel.??",
)

# The usual currency of each country, by its ISO 3166-1 alpha-2 code.
MARKETS: Mapping[str, str] = MappingProxyType(
    {
        "CD": "CDF",
        "CG": "XAF",
        "GA": "XAF",
        "KE": "KES",
        "MG": "MGA",
        "MW": "MWK",
        "NE": "XOF",
        "NG": "NGN",
        "RW": "RWF",
        "TD": "XAF",
        "TZ": "TZS",
        "UG": "UGX",
        "ZM": "ZMW",
    }
)


@frozen
class AirtelAccount:
    """Holds an application's credentials, and what differs between countries."""

    base_url: str
    """The address without a slash at its end; each country has its own, in production and for
    tests."""
    country: str
    currency: str
    dialling_code: str
    client_id: str
    client_secret: str = field(repr=False)
    pin: str | None = field(default=None, repr=False)
    """The PIN of the wallet that pays out; None: this account pays nothing out."""
    # Paths and bodies; which one a country has its portal tells.
    collection_version: int = 1
    disbursement_version: int = 2
    signs_collections: bool = False
    signs_disbursements: bool = False
    public_key: bytes | None = None
    """The operator's RSA key, DER; None: it is fetched."""
    pin_padding: RsaPadding = RsaPadding.OAEP_SHA256
    """The padding for keys of more than 1024 bits; shorter ones allow PKCS#1 v1.5 only."""
    key_padding: RsaPadding = RsaPadding.PKCS1V15
    """The padding for x-key."""
    # Where the encrypted PIN stands: `pin` for most clients, `pinstring` in one document.
    pin_member: str = "pin"
    # A member of version 3.
    wallet_type: str = "NORMAL"
    disbursement_type: str = "B2C"
    polls_with_type: bool = False
    """Whether a poll of a pay-out names its type."""
    callback_key: str | None = field(default=None, repr=False)
    """The key that authenticates callbacks; None: they are not authenticated."""
    callback_hash_header: str = "hash"
    """The header with the hash when the body has none."""
    first_poll_after: Span = Span(180 * SECOND)
    """The time from a prompt to its first poll."""
    is_rejection_by_payer: bool = False
    """Whether this market's code for a rejection means that the payer declined."""
    keeps_leading_zero: bool = False
    """Whether a zero after the dialling code belongs to national numbers."""


def read_account(options: Mapping[str, Any]) -> AirtelAccount:
    """Return the account that the options describe. Raises OptionError for an option that is
    unknown, missing or unusable."""
    reader = Options(options)
    country = reader.text("country").upper()
    dialling_code = None
    if country in MARKETS:
        dialling_code = DIALLING_CODES[country]

    # A version tells whether its requests are usually signed; some countries differ.
    collection_version = int(reader.choice("collection_version", ("1", "2"), "1"))
    disbursement_version = int(reader.choice("disbursement_version", ("1", "2", "3"), "2"))
    account = AirtelAccount(
        base_url=reader.url("base_url"),
        country=_check_country(country),
        currency=_check_currency(reader.text("currency", MARKETS.get(country))),
        dialling_code=_check_dialling_code(reader.text("dialling_code", dialling_code)),
        client_id=reader.text("client_id"),
        client_secret=reader.text("client_secret"),
        pin=reader.optional_text("pin"),
        collection_version=collection_version,
        disbursement_version=disbursement_version,
        signs_collections=reader.boolean("sign_collections", collection_version == 2),
        signs_disbursements=reader.boolean("sign_disbursements", disbursement_version == 3),
        public_key=_parse_public_key(reader.optional_text("public_key")),
        pin_padding=RsaPadding(
            reader.choice("pin_padding", tuple(RsaPadding), RsaPadding.OAEP_SHA256)
        ),
        key_padding=RsaPadding(
            reader.choice("key_padding", tuple(RsaPadding), RsaPadding.PKCS1V15)
        ),
        pin_member=reader.choice("pin_member", ("pin", "pinstring"), "pin"),
        wallet_type=reader.choice("wallet_type", ("NORMAL", "SALARY"), "NORMAL"),
        disbursement_type=reader.choice("disbursement_type", ("B2C", "B2B"), "B2C"),
        polls_with_type=reader.boolean("ask_with_type", False),
        callback_key=reader.optional_text("callback_key"),
        callback_hash_header=reader.text("callback_hash_header", "hash").lower(),
        first_poll_after=Span(reader.integer("first_question_after_s", 180) * SECOND),
        is_rejection_by_payer=reader.boolean("refusal_is_of_payer", False),
        keeps_leading_zero=reader.boolean("keep_leading_zero", country in _KEEPS_ZERO),
    )
    reader.check_unknown()
    return account


# The countries whose numbers have a zero after the dialling code (phonenumbers 9.0.43: without it
# no number of Congo is valid).
_KEEPS_ZERO: Final = frozenset({"CG"})


def _check_country(code: str) -> str:
    if len(code) != 2 or not (code.isascii() and code.isalpha()):
        raise OptionError("country", "has two letters.", 'Write country = "UG", say.')
    return code


def _check_currency(code: str) -> str:
    if code not in CURRENCIES:
        raise OptionError("currency", "is no currency.", 'Write currency = "UGX", say.')
    return code


def _check_dialling_code(digits: str) -> str:
    # ITU-T E.164: one to three digits.
    if not (digits.isascii() and digits.isdigit()) or not 1 <= len(digits) <= 3:
        raise OptionError("dialling_code", "has 1 to 3 digits.", 'Write dialling_code = "256".')
    return digits


def _parse_public_key(text: str | None) -> bytes | None:
    """Decode the key, which the portal shows as Base64; a file may have PEM headers, too."""
    if text is None:
        return None
    if text.startswith("-----BEGIN"):
        return text.encode()
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        remedy = "Copy it from the portal, or leave it out and it is fetched."
        raise OptionError("public_key", "is no key in Base64.", remedy) from None

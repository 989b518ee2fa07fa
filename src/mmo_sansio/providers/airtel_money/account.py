"""Reads the options of an account with Airtel Money: one application in one country and
currency."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import Factory, evolve, frozen

from mmo_sansio.providers.common.interface import RsaPadding
from mmo_sansio.values.clock import SECOND, Span
from mmo_sansio.values.dialling_codes import DIALLING_CODES
from mmo_sansio.values.fields import (
    HTTPS_URL,
    REQUIRED,
    SECRET,
    SWITCH,
    TEXT,
    InvalidValue,
    Kind,
    SettingsError,
    matching,
    of_text,
    one_of,
    read_table,
    setting,
    whole_number,
)
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


# The countries whose numbers have a zero after the dialling code (phonenumbers 9.0.43: without it
# no number of Congo is valid).
_KEEPS_ZERO: Final = frozenset({"CG"})

_COUNTRY = re.compile(r"[A-Z]{2}", re.ASCII)
# ITU-T E.164: one to three digits.
_DIALLING_CODE = re.compile(r"[0-9]{1,3}", re.ASCII)


def _country(text: str) -> str:
    if _COUNTRY.fullmatch(text.upper()) is None:
        raise ValueError("it has not two letters")
    return text.upper()


def _currency(text: str) -> str:
    if text not in CURRENCIES:
        raise ValueError("it is no currency")
    return text


def _public_key(text: str) -> bytes:
    """Decode the key, which the portal shows as Base64; a file may have PEM headers, too."""
    if text.startswith("-----BEGIN"):
        return text.encode()
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        remedy = "Copy it from the portal, or leave it out and it is fetched."
        raise InvalidValue("is no key in Base64.", remedy) from None


def _version(*versions: str) -> Kind:
    kind = one_of(*versions)
    return evolve(kind, parse=lambda value: int(kind.parse(value)))


_PADDING: Final = evolve(one_of(*RsaPadding), parse=of_text(RsaPadding))

_WHOLE: Final = whole_number()
_SECONDS: Final = evolve(
    _WHOLE,
    parse=lambda value: Span(_WHOLE.parse(value) * SECOND),
    format=lambda span: str(span // SECOND),
)


@frozen
class AirtelAccount:
    """Holds an application's credentials, and what differs between countries."""

    # The address without a slash at its end; each country has its own, in production and for tests.
    base_url: str = setting(
        HTTPS_URL,
        REQUIRED,
        "The country's host, e.g. `https://openapi.airtel.ug`; for tests "
        "`https://openapiuat.airtel.ug`. The hosts under `airtel.africa` are said to be retired "
        "(unverified).",
    )
    country: str = setting(
        Kind("text", of_text(_country), "a code of two letters", '"UG"'),
        REQUIRED,
        f"ISO 3166-1 alpha-2. Known: {', '.join(MARKETS)} (unverified); another one needs the next "
        "two options.",
    )
    currency: str = setting(
        Kind("text", of_text(_currency), "a currency", '"UGX"'),
        Factory(lambda account: _of_market("currency", MARKETS, account.country), takes_self=True),
        "ISO 4217.",
        default_text="the country's",
    )
    dialling_code: str = setting(
        matching(_DIALLING_CODE, "1 to 3 digits", '"256"'),
        Factory(
            lambda account: _of_market("dialling_code", DIALLING_CODES, account.country),
            takes_self=True,
        ),
        "Numbers that do not begin with it are rejected with `user_not_found` and never sent.",
        default_text="the country's",
    )
    # Whether a zero after the dialling code belongs to national numbers.
    keeps_leading_zero: bool = setting(
        SWITCH,
        Factory(lambda account: account.country in _KEEPS_ZERO, takes_self=True),
        "Whether a zero after the dialling code belongs to national numbers. What Airtel takes in "
        "Congo is assumed.",
        default_text="`true` in Congo, else `false`",
        name="keep_leading_zero",
    )
    client_id: str = setting(TEXT, REQUIRED, "The application's client id.")
    client_secret: str = setting(SECRET, REQUIRED, "The application's client secret.")
    pin: str | None = setting(
        SECRET,
        None,
        "The merchant's PIN for pay-outs. Without it the account offers none.",
    )
    # Paths and bodies; which one a country has its portal tells.
    collection_version: int = setting(
        _version("1", "2"), 1, "`1` or `2`, as the portal tells of the country."
    )
    disbursement_version: int = setting(_version("1", "2", "3"), 2, "`1`, `2` or `3`.")
    # A version tells whether its requests are usually signed; some countries differ.
    signs_collections: bool = setting(
        SWITCH,
        Factory(lambda account: account.collection_version == 2, takes_self=True),
        "Whether pay-ins carry `x-signature` and `x-key`.",
        default_text="`true` with version 2",
        name="sign_collections",
    )
    signs_disbursements: bool = setting(
        SWITCH,
        Factory(lambda account: account.disbursement_version == 3, takes_self=True),
        "The same for pay-outs (in some countries with version 2, too; unverified).",
        default_text="`true` with version 3",
        name="sign_disbursements",
    )
    # The operator's RSA key, DER or PEM.
    public_key: bytes | None = setting(
        Kind("text", of_text(_public_key), "a key in Base64", '"…"'),
        None,
        "Airtel's RSA key in Base64. Without it, the key is fetched from "
        "`/v1/rsa/encryption-keys`.",
        default_text="fetched",
    )
    # For keys of more than 1024 bits; shorter ones allow PKCS#1 v1.5 only.
    pin_padding: RsaPadding = setting(
        _PADDING,
        RsaPadding.OAEP_SHA256,
        "Padding of the PIN under a key of more than 1024 bits: "
        f"{', '.join(f'`{padding}`' for padding in RsaPadding)} (unverified). Under another key it "
        "is `pkcs1v15`.",
    )
    key_padding: RsaPadding = setting(
        _PADDING, RsaPadding.PKCS1V15, "The same for `x-key` (unverified)."
    )
    # Where the encrypted PIN stands: `pin` for most clients, `pinstring` in one document.
    pin_member: str = setting(
        one_of("pin", "pinstring"),
        "pin",
        "`pin` or, according to one document, `pinstring` (unverified).",
    )
    # A member of version 3.
    wallet_type: str = setting(one_of("NORMAL", "SALARY"), "NORMAL", "Or `SALARY`.")
    disbursement_type: str = setting(one_of("B2C", "B2B"), "B2C", "Or `B2B`.")
    polls_with_type: bool = setting(
        SWITCH,
        False,
        "Whether polls of pay-outs contain `transactionType` (some countries; unverified).",
        name="ask_with_type",
    )
    callback_key: str | None = setting(
        SECRET,
        None,
        "The key that authenticates callbacks: the private key in the application's settings, or, "
        "according to one client, the client secret (unverified).",
    )
    callback_hash_header: str = setting(
        Kind("text", of_text(str.lower), "text", '"hash"'),
        "hash",
        "The header that contains the hash when the body has none (unverified).",
    )
    # From a prompt to its first poll.
    first_poll_after: Span = setting(
        _SECONDS,
        Span(180 * SECOND),
        "Seconds from a prompt to its first poll; documents say 1 or 3 minutes.",
        name="first_question_after_s",
    )
    is_rejection_by_payer: bool = setting(
        SWITCH,
        False,
        "Whether this market confirms that `DP00800001008` means that the payer declined: then it "
        "is `user_cancelled`.",
        name="refusal_is_of_payer",
    )


def _of_market(name: str, known: Mapping[str, str], country: str) -> str:
    """Return what a country has that is known. Raises SettingsError."""
    if country not in MARKETS:
        raise SettingsError(name, "is missing.", f"Set {name}: the country is none of those known.")
    return known[country]


def read_account(options: Mapping[str, Any]) -> AirtelAccount:
    """Return the account that the options describe. Raises SettingsError for options that are
    unknown, missing or unusable."""
    return read_table(AirtelAccount, options)

"""Reads the options of an account with MTN MoMo in one market, of kind `mtn_momo`."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from mmo_sansio.http.messages import Headers
from mmo_sansio.values.fields import (
    HEADER_SECRET,
    HTTPS_URL,
    REQUIRED,
    SWITCH,
    TEXT,
    InvalidValue,
    Kind,
    SettingsError,
    of_text,
    read_table,
    setting,
)

SANDBOX_MARKET: Final = "sandbox"
SANDBOX_URL: Final = "https://sandbox.momodeveloper.mtn.com"
PRODUCTION_URL: Final = "https://proxy.momoapi.mtn.com"

# Some countries have a host of their own; the last is that of the second platform.
PRODUCTION_HOSTS: Final = (
    "proxy.momoapi.mtn.com",
    "proxy.momoapi.mtn.co.??",
    "proxy.momoapi.mtn.??",
    "momoapi.momo.africa",
)

# The currency of each target environment; one application calls Ivory Coast `mtnci`.
MARKETS: Final[Mapping[str, str]] = MappingProxyType(
    {
        SANDBOX_MARKET: "EUR",
        "mtnbenin": "XOF",
        "mtncameroon": "XAF",
        "mtnci": "XOF",
        "mtncongo": "XAF",
        "mtnghana": "GHS",
        "mtnguineaconakry": "GNF",
        "mtnivorycoast": "XOF",
        "mtnliberia": "LRD",
        "mtnnigeria": "NGN",
        "mtnrwanda": "RWF",
        "mtnsouthafrica": "ZAR",
        "mtnsouthsudan": "SSP",
        "mtnswaziland": "SZL",
        "mtnuganda": "UGX",
        "mtnzambia": "ZMW",
    }
)

PAYER_MESSAGE: Final = "Payment"

# The operator's documentation says 128 in one place and 160 in another.
MESSAGE_CHARACTERS_MAX: Final = 128

# The operator rejects every payment whose message has one: its page on common errors names the
# apostrophe, a client has reported the ampersand (sparkplug/momoapi-node#84), and XML reserves the
# others of their kind (unverified).
_REFUSED_CHARACTERS = re.compile(r"""[&'<>"\x00-\x1f\x7f]""")

_TARGET_ENVIRONMENT = re.compile(r"[a-z]{1,40}", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
# A shorter text passes for Base64 too easily.
_BASE64_CHARACTERS_MIN: Final = 8


def _api_user(text: str) -> str:
    if _UUID.fullmatch(text) is None and not _is_base64(text):
        raise InvalidValue(
            "is neither a UUID nor Base64.", "Copy the API user's id from the portal, unchanged."
        )
    return text


def _is_base64(text: str) -> bool:
    """Return whether this may be the id of an API user on MTN's second platform: Base64 with its
    padding (unverified)."""
    try:
        return len(text) >= _BASE64_CHARACTERS_MIN and bool(base64.b64decode(text, validate=True))
    except ValueError:
        return False


_API_USER: Final = Kind("text", of_text(_api_user), "a UUID, or Base64", '"…"')


def _payer_message(message: str) -> str:
    if len(message) > MESSAGE_CHARACTERS_MAX:
        raise InvalidValue(f"is longer than {MESSAGE_CHARACTERS_MAX} characters.", "Shorten it.")

    # At the start as well: MTN would refuse every payment for it.
    if found := _REFUSED_CHARACTERS.search(message):
        fault = f"has the character {found[0]!a}, which MTN rejects."
        raise InvalidValue(fault, "Write it without.")

    return message


@frozen
class MtnProduct:
    """Holds a product's subscription key, and the API user that signs in for its token."""

    name: str
    """The first segment of the product's paths."""
    subscription_key: str = field(repr=False)
    api_user: str
    api_key: str = field(repr=False)

    @property
    def headers(self) -> Headers:
        return ((b"ocp-apim-subscription-key", self.subscription_key.encode()),)

    @property
    def credentials(self) -> bytes:
        """The Authorization header of the token request: HTTP Basic (RFC 7617)."""
        return b"Basic " + base64.b64encode(f"{self.api_user}:{self.api_key}".encode())


@frozen
class MtnAccount:
    """Holds one market's account. Another market is another account, with its own keys."""

    market: str
    """The X-Target-Environment."""
    base_url: str
    collection: MtnProduct | None
    """None: no pay-ins."""
    disbursement: MtnProduct | None
    """None: no pay-outs."""
    hooks_url: str | None = field(repr=False)
    """The address for the operator's callbacks; None: it sends none."""
    payer_message: str = PAYER_MESSAGE

    def headers(self, product: MtnProduct) -> Headers:
        """Return the headers of every request to a product."""
        return ((b"x-target-environment", self.market.encode()), *product.headers)

    def callback_header(self, id: str) -> Headers:
        """Return the callback header; an empty one would be rejected. The address ends in our id of
        the payment or refund, because a callback need not name it otherwise."""
        if self.hooks_url is None:
            return ()
        return ((b"x-callback-url", f"{self.hooks_url}/{id}".encode()),)

    @property
    def products(self) -> Mapping[str, MtnProduct]:
        return {
            product.name: product for product in (self.collection, self.disbursement) if product
        }


@frozen
class MtnOptions:
    """Declares what `[provider.NAME]` says of an account."""

    market: str = setting(
        TEXT,
        REQUIRED,
        "The X-Target-Environment: `sandbox` (where the currency is EUR), "
        f"{', '.join(f'`{market}`' for market in MARKETS if market != SANDBOX_MARKET)} (only one "
        "application has `mtnci`; unverified). Another one needs `base_url`, too.",
    )
    base_url: str | None = setting(
        HTTPS_URL,
        None,
        f"`{SANDBOX_URL}` for the sandbox, `{PRODUCTION_URL}` for all else. Some countries have "
        "their own, such as `https://proxy.momoapi.mtn.co.rw`, and so has MTN's second platform.",
        default_text="the market's",
    )
    collection_subscription_key: str | None = setting(
        HEADER_SECRET,
        None,
        "The subscription key for Collection. Without it and the next two the account offers no "
        "pay-ins.",
    )
    collection_api_user: str | None = setting(
        _API_USER,
        None,
        "The API user for Collection: a UUID, or on the second platform a text in Base64.",
    )
    collection_api_key: str | None = setting(HEADER_SECRET, None, "That user's API key.")
    disbursement_subscription_key: str | None = setting(
        HEADER_SECRET,
        None,
        "The subscription key for Disbursement. Without it and the next two the account offers no "
        "pay-outs.",
    )
    disbursement_api_user: str | None = setting(_API_USER, None, "The API user for Disbursement.")
    disbursement_api_key: str | None = setting(HEADER_SECRET, None, "That user's API key.")
    callbacks: bool = setting(
        SWITCH,
        True,
        "Whether the gateway requests callbacks. With `false` all results come from polls.",
    )
    payer_message: str = setting(
        Kind("text", of_text(_payer_message), "text", f'"{PAYER_MESSAGE}"'),
        PAYER_MESSAGE,
        f"The text for the payer: not empty, at most {MESSAGE_CHARACTERS_MAX} characters, without "
        "line breaks and `'`, `&`, `<`, `>`, `\"` (that MTN rejects others than `'` and `&` is "
        "unverified). The gateway does not start with another text.",
    )


def read_account(options: Mapping[str, Any], *, hooks_url: str) -> MtnAccount:
    """Return the account that the options describe. Raises SettingsError for options that are
    unknown, missing or unusable."""
    read = read_table(MtnOptions, options)
    base_url = read.base_url

    # 1. The market tells the host, and has to be one that is known.
    if base_url is None:
        if read.market not in MARKETS:
            raise SettingsError(
                "market",
                f"is none of {', '.join(MARKETS)}.",
                "Choose one of them, or set base_url, too.",
            )
        base_url = PRODUCTION_URL
        if read.market == SANDBOX_MARKET:
            base_url = SANDBOX_URL

    # 2. A host that is named may have a market that this list does not have yet.
    elif _TARGET_ENVIRONMENT.fullmatch(read.market) is None:
        remedy = 'Write market = "mtnuganda", say.'
        raise SettingsError("market", "is no target environment.", remedy)

    callback_url: str | None = None
    if read.callbacks:
        callback_url = hooks_url

    account = MtnAccount(
        read.market,
        base_url,
        _product(read, "collection"),
        _product(read, "disbursement"),
        callback_url,
        read.payer_message,
    )
    # Without a product it could neither collect nor pay, and would be checked by nothing.
    if not account.products:
        raise SettingsError(
            "collection_subscription_key",
            "is missing, and so is disbursement_subscription_key.",
            "Set the keys of one product or both.",
        )

    return account


def _product(options: MtnOptions, name: str) -> MtnProduct | None:
    """Return the product if any of its keys is set; then all of them must be set."""
    keys = [f"{name}_{part}" for part in ("subscription_key", "api_user", "api_key")]
    values = [getattr(options, key) for key in keys]
    # The account does without this product: pay-ins only, or pay-outs only.
    if values == [None, None, None]:
        return None

    # One key that is forgotten is told at the start, not at the first payment.
    if None in values:
        missing = keys[values.index(None)]
        raise SettingsError(missing, "is missing.", f"{name} needs {', '.join(keys)}.")

    return MtnProduct(name, *values)

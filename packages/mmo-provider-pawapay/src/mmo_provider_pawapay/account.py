"""Reads the options of an account with pawaPay in one market, of kind `pawapay`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import field, frozen

from mmo_provider_pawapay.configuration import AUTHORISATIONS, PROVIDER_AUTH, REDIRECT_AUTH
from mmo_provider_pawapay.signatures import (
    PublicKey,
    SigningKey,
    load_private_key,
    load_public_keys,
)
from mmo_sansio.providers import OptionError, Options, read_payer_hosts

PRODUCTION_URL: Final = "https://api.pawapay.io"
PRODUCTION_HOSTS: Final = ("api.pawapay.io",)
SANDBOX_URL: Final = "https://api.sandbox.pawapay.io"

# An operator, and its country in three letters.
_MARKET = re.compile(r"[A-Z0-9]+(?:_[A-Z0-9]+)*_[A-Z]{3}", re.ASCII)
_CALLBACKS_OF = re.compile(
    rf"(?P<market>{_MARKET.pattern})=(?P<name>[A-Za-z0-9][A-Za-z0-9_-]{{0,63}})", re.ASCII
)
# What pawaPay takes as customerMessage.
_CUSTOMER_MESSAGE = re.compile(r"[A-Za-z0-9 ]{4,22}", re.ASCII)
# It becomes a header, so that nothing in it may end one.
_HEADER_TEXT = re.compile(r"[!-~]+", re.ASCII)
_KEY_ID = re.compile(r"[A-Za-z0-9_:.-]{1,100}", re.ASCII)


@frozen
class PawapayAccount:
    """Holds an account in one market: with one operator in one country. Another market is another
    account."""

    market: str
    """What pawaPay calls the provider, such as `MTN_MOMO_RWA`: an operator, and its country in ISO
    3166-1 alpha-3."""
    base_url: str
    api_token: str = field(repr=False)
    hooks_url: str = field(repr=False)
    """Where the callbacks come to. It is entered in pawaPay's dashboard; no request names it."""
    customer_message: str | None = None
    """The text in the customer's SMS; None: the name of the company."""
    callback_keys: Sequence[PublicKey] = field(default=(), repr=False)
    """pawaPay's public keys; empty: callbacks are not verified, and only cause polls."""
    callbacks_of: Mapping[str, str] = field(factory=dict)
    """The names of the accounts in other markets whose callbacks come here, by market: pawaPay's
    dashboard takes one address for each operation, whatever the market."""
    signing_key: SigningKey | None = field(default=None, repr=False)
    """Signs submissions; None: they are not signed."""
    auth_type: str = PROVIDER_AUTH
    """How payers of deposits approve: one of AUTHORISATIONS."""
    payer_hosts: Sequence[str] = ()
    """The hosts of the pages at which payers approve."""
    pages_url: str = ""
    """The address of the gateway's payment pages, to which payers come back."""

    @property
    def country(self) -> str:
        """The market's country, ISO 3166-1 alpha-3."""
        return self.market[-3:]

    @property
    def authority(self) -> str:
        """The host, with a port where it is none of the scheme's own, to which requests go."""
        return authority_of(self.base_url)


def authority_of(url: str) -> str:
    """Return the authority of a URL as a signature covers it: in small letters, and without the
    scheme's own port (RFC 9421 section 2.2.3)."""
    parts = urlsplit(url)
    own_port = ":80"
    if parts.scheme == "https":
        own_port = ":443"
    return parts.netloc.lower().removesuffix(own_port)


def read_account(
    options: Mapping[str, Any], *, hooks_url: str, pages_url: str = ""
) -> PawapayAccount:
    """Return the account that the options describe. Raises OptionError for an option that is
    unknown, missing or unusable."""
    reader = Options(options)
    account = PawapayAccount(
        market=_read_market(reader),
        base_url=reader.url("base_url", PRODUCTION_URL),
        api_token=_read_token(reader),
        hooks_url=hooks_url,
        customer_message=_read_customer_message(reader),
        callback_keys=_read_callback_keys(reader),
        callbacks_of=_read_callbacks_of(reader),
        signing_key=_read_signing_key(reader),
        auth_type=_read_auth_type(reader),
        payer_hosts=_read_payer_hosts(reader),
        pages_url=pages_url,
    )
    reader.check_unknown()
    return account


def _read_market(options: Options) -> str:
    market = options.text("market")
    if _MARKET.fullmatch(market) is None:
        raise OptionError(
            "market", "is none of pawaPay's providers.", 'Write market = "MTN_MOMO_RWA", say.'
        )
    return market


def _read_token(options: Options) -> str:
    token = options.text("api_token")
    if _HEADER_TEXT.fullmatch(token) is None:
        raise OptionError(
            "api_token", "holds a character that no token has.", "Copy it again from the dashboard."
        )
    return token


def confirms_elsewhere(options: Mapping[str, Any]) -> bool:
    """Tell whether payers of an account with these options approve elsewhere than on the phone."""
    return str(options.get("auth_type", PROVIDER_AUTH)) != PROVIDER_AUTH


def _read_auth_type(options: Options) -> str:
    auth_type = options.optional_text("auth_type") or PROVIDER_AUTH
    if auth_type not in AUTHORISATIONS:
        remedy = f"Write {', '.join(AUTHORISATIONS[:-1])} or {AUTHORISATIONS[-1]}."
        raise OptionError("auth_type", "is none of pawaPay's.", remedy)
    return auth_type


def _read_payer_hosts(options: Options) -> Sequence[str]:
    # Without a host no payer could be sent to the operator's page.
    sends_away = options.optional_text("auth_type") == REDIRECT_AUTH
    return read_payer_hosts(options, is_required=sends_away)


def _read_customer_message(options: Options) -> str | None:
    message = options.optional_text("customer_message")
    if message is not None and _CUSTOMER_MESSAGE.fullmatch(message) is None:
        raise OptionError(
            "customer_message", "is not 4 to 22 letters, digits and spaces.", "Change it."
        )
    return message


def _read_callback_keys(options: Options) -> Sequence[PublicKey]:
    text = options.optional_text("callback_keys")
    if text is None:
        return ()
    try:
        return load_public_keys(text.encode())
    except ValueError:
        remedy = "Write the keys of GET /v2/public-key/http, one after the other."
        raise OptionError(
            "callback_keys", "holds no public keys in PEM that can be used.", remedy
        ) from None


def _read_callbacks_of(options: Options) -> Mapping[str, str]:
    # An account has one market: each other market belongs to one account, and to one only.
    names: dict[str, str] = {}
    for entry in (options.optional_text("callbacks_of") or "").split():
        match = _CALLBACKS_OF.fullmatch(entry)
        if match is None or match["market"] in names:
            remedy = (
                'Write callbacks_of = "MTN_MOMO_ZMB=NAME AIRTEL_RWA=NAME", say, each market once.'
            )
            raise OptionError("callbacks_of", "does not name markets and accounts.", remedy)
        names[match["market"]] = match["name"]

    return names


def _read_signing_key(options: Options) -> SigningKey | None:
    pem = options.optional_text("signing_key")
    key_id = options.optional_text("signing_key_id")
    if pem is None and key_id is None:
        return None

    # One without the other is a mistake: submissions would go unsigned, and nobody would notice.
    if pem is None or key_id is None:
        missing = "signing_key_id"
        if pem is None:
            missing = "signing_key"
        raise OptionError(
            missing, "is missing.", "A signature needs signing_key and signing_key_id."
        )

    if _KEY_ID.fullmatch(key_id) is None:
        raise OptionError("signing_key_id", "is no id of a key.", "Copy it from the dashboard.")

    try:
        return SigningKey(key_id, load_private_key(pem.encode()))
    except ValueError:
        remedy = "Make one: openssl ecparam -name prime256v1 -genkey -noout."
        raise OptionError(
            "signing_key", "is no private key of the curve P-256 in PEM.", remedy
        ) from None

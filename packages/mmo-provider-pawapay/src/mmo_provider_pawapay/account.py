"""Declares and reads the options of an account with pawaPay in one market, of kind `pawapay`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import Factory, field, frozen

from mmo_provider_pawapay.configuration import AUTHORISATIONS, PROVIDER_AUTH, REDIRECT_AUTH
from mmo_provider_pawapay.signatures import (
    PublicKey,
    SigningKey,
    load_private_key,
    load_public_keys,
)
from mmo_sansio.providers import (
    HEADER_SECRET,
    HTTPS_URL,
    PAYER_HOSTS,
    REQUIRED,
    SECRET,
    InvalidValue,
    Kind,
    SettingsError,
    matching,
    of_text,
    one_of,
    read_table,
    setting,
)

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
_KEY_ID = re.compile(r"[A-Za-z0-9_:.-]{1,100}", re.ASCII)


def _callback_keys(text: str) -> Sequence[PublicKey]:
    try:
        return load_public_keys(text.encode())
    except ValueError:
        remedy = "Write the keys of GET /v2/public-key/http, one after the other."
        raise InvalidValue("holds no public keys in PEM that can be used.", remedy) from None


def _callbacks_of(text: str) -> Mapping[str, str]:
    # An account has one market: each other market belongs to one account, and to one only.
    names: dict[str, str] = {}
    for entry in text.split():
        match = _CALLBACKS_OF.fullmatch(entry)
        if match is None or match["market"] in names:
            raise ValueError("it names no markets, or one twice")
        names[match["market"]] = match["name"]

    return names


@frozen
class PawapayAccount:
    """Holds an account in one market: with one operator in one country. Another market is another
    account."""

    hooks_url: str = field(repr=False)
    """Where the callbacks come to. It is entered in pawaPay's dashboard; no request names it."""
    pages_url: str
    """The address of the gateway's payment pages, to which payers come back."""
    market: str = setting(
        matching(_MARKET, "one of pawaPay's providers", '"MTN_MOMO_RWA"'),
        REQUIRED,
        "pawaPay's name of the provider, such as `MTN_MOMO_RWA`; its end is the country in ISO "
        "3166-1 alpha-3.",
    )
    api_token: str = setting(
        HEADER_SECRET,
        REQUIRED,
        "The API token of pawaPay's dashboard. The sandbox has its own.",
    )
    base_url: str = setting(HTTPS_URL, PRODUCTION_URL, f"The sandbox is `{SANDBOX_URL}`.")
    auth_type: str = setting(
        one_of(*AUTHORISATIONS),
        PROVIDER_AUTH,
        "How payers approve, as pawaPay names it in the active configuration: on the phone, at a "
        "page of the operator (`REDIRECT_AUTH`), or with a code (`PREAUTH`).",
    )
    payer_hosts: Sequence[str] = setting(
        PAYER_HOSTS,
        (),
        "With `REDIRECT_AUTH`: the hosts of the operator's pages, separated by spaces; `*.` before "
        "a name stands for all below it.",
        default_text="none",
    )
    callback_keys: Sequence[PublicKey] = setting(
        Kind("text", of_text(_callback_keys), "public keys in PEM", '"…"'),
        (),
        "pawaPay's public keys in PEM, one after the other: those of `GET /v2/public-key/http`. "
        "With them every callback must be signed. With or without them a callback only causes a "
        "poll.",
        default_text="none",
    )
    callbacks_of: Mapping[str, str] = setting(
        Kind(
            "text",
            of_text(_callbacks_of),
            "markets and accounts, each market once",
            '"MTN_MOMO_ZMB=NAME AIRTEL_RWA=NAME"',
        ),
        Factory(dict),
        "The other accounts whose callbacks come to this one, as `MARKET=NAME`, separated by "
        "spaces.",
        default_text="none",
    )
    customer_message: str | None = setting(
        matching(_CUSTOMER_MESSAGE, "4 to 22 letters, digits and spaces", '"Thank you"'),
        None,
        "The text in the customer's SMS: 4 to 22 letters, digits and spaces. Without it pawaPay "
        "writes the company's name.",
    )
    signing_pem: str | None = setting(
        SECRET,
        None,
        "A private key of the curve P-256 in PEM that signs submissions. Needed where the "
        "dashboard says that only signed requests are accepted.",
        name="signing_key",
    )
    signing_key_id: str | None = setting(
        matching(_KEY_ID, "the id of a key", '"A:1"'),
        None,
        "The id of its public key in pawaPay's dashboard.",
    )
    signing_key: SigningKey | None = field(
        init=False,
        repr=False,
        default=Factory(lambda account: _signing_key(account), takes_self=True),
    )
    """Signs submissions; None: they are not signed."""

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
    """Return the account that the options describe. Raises SettingsError for options that are
    unknown, missing or unusable."""
    account = read_table(PawapayAccount, options, hooks_url=hooks_url, pages_url=pages_url)
    # Without a host no payer could be sent to the operator's page.
    if account.auth_type == REDIRECT_AUTH and not account.payer_hosts:
        remedy = f"Write the hosts of the operator's pages: {PAYER_HOSTS.example}, say."
        raise SettingsError("payer_hosts", "is missing.", remedy)

    return account


def confirms_elsewhere(options: Mapping[str, Any]) -> bool:
    """Tell whether payers of an account with these options approve elsewhere than on the phone."""
    return str(options.get("auth_type", PROVIDER_AUTH)) != PROVIDER_AUTH


def _signing_key(account: PawapayAccount) -> SigningKey | None:
    pem, key_id = account.signing_pem, account.signing_key_id
    if pem is None and key_id is None:
        return None

    # One without the other is a mistake: submissions would go unsigned, and nobody would notice.
    if pem is None or key_id is None:
        missing = "signing_key_id"
        if pem is None:
            missing = "signing_key"
        raise SettingsError(
            missing, "is missing.", "A signature needs signing_key and signing_key_id."
        )

    try:
        return SigningKey(key_id, load_private_key(pem.encode()))
    except ValueError:
        remedy = "Make one: openssl ecparam -name prime256v1 -genkey -noout."
        fault = "is no private key of the curve P-256 in PEM."
        raise SettingsError("signing_key", fault, remedy) from None

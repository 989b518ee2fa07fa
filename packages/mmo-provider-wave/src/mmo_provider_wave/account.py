"""Declares and reads the options of an account with Wave: one wallet, of kind `wave`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import frozen

from mmo_sansio.providers import (
    HEADER_SECRET,
    HTTPS_URL,
    REQUIRED,
    SECRET,
    SWITCH,
    Kind,
    check_pages_url,
    of_text,
    read_table,
    setting,
)

PRODUCTION_URL: Final = "https://api.wave.com"

# Where payers approve: the host of every `wave_launch_url` that was published.
PAYER_HOST: Final = "pay.wave.com"

# Several, separated by spaces: while secrets rotate Wave signs with both.
_SECRETS: Final = Kind("text", of_text(str.split), "text", '"…"', is_secret=True)


@frozen
class WaveAccount:
    """Holds an account: a key of Wave's is bound to one wallet."""

    pages_url: str
    """The address of the gateway's payment pages, to which Wave sends payers back."""
    api_key: str = setting(
        HEADER_SECRET,
        REQUIRED,
        "The key of the Business Portal's section for developers, with the APIs Checkout, Payout "
        "and Balance.",
    )
    webhook_secrets: Sequence[str] = setting(
        _SECRETS,
        (),
        "What Wave signs webhooks with; while a new webhook takes the place of an old one both "
        "secrets, separated by a space. With it every webhook must be signed, and a paid checkout "
        "counts at once. Without it a webhook only causes a question.",
        default_text="none",
        name="webhook_secret",
    )
    signing_secret: str | None = setting(
        SECRET,
        None,
        "What requests are signed with, where the key was created with request signing.",
    )
    restricts_payer: bool = setting(
        SWITCH,
        True,
        "Whether only the number that the merchant names may pay (`restrict_payer_mobile`). Others "
        "often pay for somebody: `false` lets anybody who has the page.",
        name="restrict_payer",
    )
    base_url: str = setting(HTTPS_URL, PRODUCTION_URL, "Where requests go.")

    @property
    def payer_hosts(self) -> tuple[str, ...]:
        """Where payers are sent: Wave's page, or that of a simulator on this machine."""
        parts = urlsplit(self.base_url)
        if parts.scheme == "https":
            return (PAYER_HOST,)
        # A simulator's page: no account with Wave itself is reached by http.
        return (parts.hostname or "",)


def read_account(options: Mapping[str, Any], *, pages_url: str) -> WaveAccount:
    """Return the account that the options describe. Raises SettingsError for options that are
    unknown, missing or unusable, and for payment pages without https: Wave refuses each session
    then."""
    account = read_table(WaveAccount, options, pages_url=pages_url)
    check_pages_url(pages_url, account.base_url)
    return account

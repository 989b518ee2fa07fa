"""Reads the options of an account with Wave: one wallet, of kind `wave`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import field, frozen

from mmo_sansio.providers import OptionError, Options, check_pages_url

PRODUCTION_URL: Final = "https://api.wave.com"

# Where payers approve: the host of every `wave_launch_url` that was published.
PAYER_HOST: Final = "pay.wave.com"

# It becomes a header, so that nothing in it may end one.
_HEADER_TEXT = re.compile(r"[!-~]+", re.ASCII)


@frozen
class WaveAccount:
    """Holds an account: a key of Wave's is bound to one wallet."""

    base_url: str
    api_key: str = field(repr=False)
    pages_url: str
    """The address of the gateway's payment pages, to which Wave sends payers back."""
    webhook_secrets: Sequence[str] = field(default=(), repr=False)
    """What Wave signs webhooks with; several while one takes the place of another; empty: webhooks
    are not verified, and only cause questions."""
    signing_secret: str | None = field(default=None, repr=False)
    """What requests are signed with; None: they are not."""
    restricts_payer: bool = True
    """Whether only the number that the merchant names may pay."""

    @property
    def payer_hosts(self) -> tuple[str, ...]:
        """Where payers are sent: Wave's page, or that of a simulator on this machine."""
        parts = urlsplit(self.base_url)
        if parts.scheme == "https":
            return (PAYER_HOST,)
        # A simulator's page: no account with Wave itself is reached by http.
        return (parts.hostname or "",)


def read_account(options: Mapping[str, Any], *, pages_url: str) -> WaveAccount:
    """Return the account that the options describe. Raises OptionError for an option that is
    unknown, missing or unusable, and for payment pages without https: Wave refuses each session
    then."""
    reader = Options(options)
    account = WaveAccount(
        base_url=reader.url("base_url", PRODUCTION_URL),
        api_key=_header_text("api_key", reader.text("api_key")),
        pages_url=pages_url,
        # Several, separated by spaces: while secrets rotate Wave signs with both.
        webhook_secrets=tuple((reader.optional_text("webhook_secret") or "").split()),
        signing_secret=reader.optional_text("signing_secret"),
        restricts_payer=reader.boolean("restrict_payer", True),
    )
    reader.check_unknown()
    check_pages_url(pages_url, account.base_url)
    return account


def _header_text(key: str, text: str) -> str:
    if _HEADER_TEXT.fullmatch(text) is None:
        raise OptionError(
            key, "holds a character that no key has.", "Copy it again from Wave's portal."
        )
    return text

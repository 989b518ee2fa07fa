"""An account with Daraja: what `[provider.NAME]` says of it."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from mmo_sansio.providers.common.ciphers import CipherError, Ciphers
from mmo_sansio.providers.common.options import OptionError, Options

PRODUCTION_URL: Final = "https://api.safaricom.co.ke"

PAYOUT_COMMANDS: Final = ("BusinessPayment", "SalaryPayment", "PromotionPayment")

FORBIDDEN_IN_URLS: Final = ("mpesa", "m-pesa", "safaricom", "exe", "cmd", "sql", "query")
"""What no callback address may hold, in whatever case."""

_SHORTCODE: Final = re.compile(r"[0-9]{5,7}", re.ASCII)


@frozen
class MpesaAccount:
    """Who we are to Daraja, and where it reaches us."""

    base_url: str
    consumer_key: str = field(repr=False)
    consumer_secret: str = field(repr=False)
    shortcode: str
    """The paybill, or the store number of a till: who receives."""
    hooks_url: str = field(repr=False)
    """Where its callbacks arrive; holds a token."""
    passkey: str | None = field(default=None, repr=False)
    """For pushes; None: none are offered."""
    till: str | None = None
    """The till that pushes pay to; None: the shortcode is a paybill."""
    payout_shortcode: str = ""
    """Who pays out."""
    initiator: str | None = None
    """The API operator who pays out, pays taxes and asks about both; None: neither is offered."""
    security_credential: str = field(default="", repr=False)
    """The initiator's password, encrypted for Daraja."""
    payout_command: str = PAYOUT_COMMANDS[0]
    merchant_name: str | None = None
    """What a QR code names; None: none are offered."""
    completes_unvalidated: bool = True
    """Whether Daraja completes a deposit when it can't ask us (`Completed`), or else gives it up."""

    @property
    def signing_key(self) -> bytes:
        """With what the addresses of callbacks are sealed."""
        return self.consumer_secret.encode()


def read_account(options: Mapping[str, Any], *, hooks_url: str, ciphers: Ciphers) -> MpesaAccount:
    """The account that these options describe. Raises OptionError."""
    given = Options(options)
    shortcode = _read_shortcode(given, "shortcode")
    initiator = given.optional_text("initiator")
    account = MpesaAccount(
        base_url=given.url("base_url", PRODUCTION_URL),
        consumer_key=given.text("consumer_key"),
        consumer_secret=given.text("consumer_secret"),
        shortcode=shortcode,
        hooks_url=_check_hooks_url(hooks_url),
        passkey=given.optional_text("passkey"),
        till=_read_shortcode(given, "till") if "till" in options else given.optional_text("till"),
        payout_shortcode=_read_shortcode(given, "payout_shortcode", shortcode),
        initiator=initiator,
        security_credential=_encrypt_credential(given, ciphers) if initiator else "",
        payout_command=given.choice("payout_command", PAYOUT_COMMANDS, PAYOUT_COMMANDS[0]),
        merchant_name=given.optional_text("merchant_name"),
        completes_unvalidated=given.choice(
            "unanswered_deposits", ("Completed", "Cancelled"), "Completed"
        )
        == "Completed",
    )
    given.check_unknown()
    return account


def _read_shortcode(options: Options, key: str, default: str | None = None) -> str:
    value = options.text(key, default)
    if _SHORTCODE.fullmatch(value) is None:
        raise OptionError(key, "is no shortcode.", f'Write {key} = "174379", say: 5 to 7 digits.')
    return value


def _encrypt_credential(options: Options, ciphers: Ciphers) -> str:
    """The SecurityCredential: the password alone, RSA with PKCS #1 v1.5, base64. One serves many requests."""
    password = options.text("initiator_password")
    certificate = options.text("certificate").encode()
    try:
        return b64encode(ciphers.rsa_encrypt_pkcs1v15(certificate, password.encode())).decode()
    except CipherError as error:
        raise OptionError(
            "certificate", f"can't be used: {error}.", "Take it from Daraja's portal, as PEM."
        ) from None


def _check_hooks_url(hooks_url: str) -> str:
    found = [word for word in FORBIDDEN_IN_URLS if word in hooks_url.lower()]
    if found:
        raise OptionError(
            "hooks_name",
            f"gives an address with {found[0]!r} in it, and Daraja takes none with that.",
            "Set hooks_name, or hooks_url with another host.",
        )
    return hooks_url

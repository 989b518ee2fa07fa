"""Reads the options of an account with Daraja from `[provider.NAME]`."""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import date
from hashlib import sha256
from typing import Any, Final

from attrs import field, frozen

from mmo_sansio.providers.common.interface import CipherError, Ciphers, RsaPadding
from mmo_sansio.providers.common.options import OptionError, Options
from mmo_sansio.providers.mpesa_daraja.wire import format_msisdn

PRODUCTION_URL: Final = "https://api.safaricom.co.ke"
# Its operator moves money at this host; the sandbox's is `sandbox.safaricom.co.ke`.
PRODUCTION_HOSTS: Final = ("api.safaricom.co.ke",)
# Documented, Business To Customer; the first is the usual one.
PAYOUT_COMMANDS: Final = ("BusinessPayment", "SalaryPayment", "PromotionPayment")

# Words that Daraja rejects in a callback address, in any case.
FORBIDDEN_IN_URLS: Final = ("mpesa", "m-pesa", "safaricom", "exe", "cmd", "sql", "query")

CONFIRM: Final = "confirm"
TRUST: Final = "trust"

# What the options `deposits` and `results` may be: M-Pesa has to confirm what it has reported, or
# it is trusted.
TRUST_CHOICES: Final = (CONFIRM, TRUST)

# Five or six digits on the page of prompts, up to seven on that of their queries (documented).
_SHORTCODE: Final = re.compile(r"[0-9]{5,7}", re.ASCII)


# 32 bits: they tell our few passwords apart, and tell nobody anything about them.
_DIGEST_CHARACTERS: Final = 8


@frozen
class ApiOperator:
    """An API operator of ours, as it pays and asks about transactions; without a name the account
    has none."""

    # Accounts without one have it too: a question then names nobody, and is not asked.
    part: str
    """The option that names it."""
    shortcode: str = ""
    name: str = ""
    security_credential: str = field(default="", repr=False)
    """Its password, encrypted for Daraja."""
    credential: str = ""
    """A digest of its name and password."""


@frozen
class MpesaAccount:
    """Holds the credentials of an account, and the address for its callbacks."""

    base_url: str
    consumer_key: str = field(repr=False)
    consumer_secret: str = field(repr=False)
    shortcode: str
    """The paybill, or the store number of a till, that receives payments."""
    hooks_url: str = field(repr=False)
    """The address of its callbacks, which contains a token."""
    passkey: str | None = field(default=None, repr=False)
    """The key for pushes; None: the account offers none."""
    till: str | None = None
    """The till that pushes pay to; None: the shortcode is a paybill."""
    initiator: ApiOperator = ApiOperator("initiator")
    """The one that pays out, pays taxes and polls both, with the shortcode that pays out."""
    deposit_initiator: ApiOperator = ApiOperator("deposit_initiator")
    """The one of `shortcode` that asks about deposits; without it confirmations are trusted as they
    come."""
    password_set_on: date | None = None
    """The day, in Nairobi, on which the API operators' passwords were set; None: not known."""
    payout_command: str = PAYOUT_COMMANDS[0]
    merchant_name: str | None = None
    """The name in QR codes; None: the account offers none."""
    trusts_results: bool = False
    """Whether the reported success of a prompt ends it where M-Pesa answers no question about
    it."""
    completes_unvalidated: bool = True
    """Whether Daraja completes a deposit when its validation request gets no response."""
    pull_number: str | None = None
    """The telephone number with which the shortcode is registered for Pull Transactions; None:
    payments are not listed. """

    @property
    def trusts_deposits(self) -> bool:
        """Tell whether an unsigned confirmation of a deposit moves money without a question to
        Daraja."""
        return not self.deposit_initiator.name

    def is_paid_at(self, account: str) -> bool:
        return account in (self.shortcode, self.till)

    @property
    def reverser(self) -> ApiOperator:
        """The API operator of `shortcode`, which reverses what was paid to that; without a name
        there is none."""
        # An API operator acts for one shortcode: that which pays out may be another one.
        is_same = self.initiator.shortcode == self.shortcode
        if self.deposit_initiator.name or not is_same:
            return self.deposit_initiator
        return self.initiator

    @property
    def operators(self) -> Sequence[ApiOperator]:
        """The API operators that ask, each with another name or password."""
        # The same person is asked about once: two questions with a wrong password lock it sooner.
        operators = [self.initiator]
        if self.deposit_initiator.credential != self.initiator.credential:
            operators.append(self.deposit_initiator)

        return [operator for operator in operators if operator.name]

    @property
    def signing_key(self) -> bytes:
        """The key that signs the addresses of callbacks."""
        # Nobody else has it: an address that was made for another account is none of this one's.
        return self.consumer_secret.encode()


def read_account(
    options: Mapping[str, Any], *, hooks_url: str, ciphers: Ciphers, checks_sender: bool = False
) -> MpesaAccount:
    """Return the account that the options describe. `checks_sender` says that callbacks are
    accepted from listed networks only. Raises OptionError."""
    reader = Options(options)
    shortcode = _read_shortcode(reader, "shortcode")
    initiator = reader.optional_text("initiator")
    deposit_initiator = _read_deposit_initiator(reader, initiator, checks_sender=checks_sender)
    payout_shortcode = _read_shortcode(reader, "payout_shortcode", shortcode)
    own_password = "initiator_password"
    if "deposit_initiator_password" in options:
        own_password = "deposit_initiator_password"

    # A till that is set has to be one; left out, the shortcode is a paybill.
    till = reader.optional_text("till")
    if till is not None:
        till = _read_shortcode(reader, "till")

    account = MpesaAccount(
        base_url=reader.url("base_url", PRODUCTION_URL),
        consumer_key=reader.text("consumer_key"),
        consumer_secret=reader.text("consumer_secret"),
        shortcode=shortcode,
        hooks_url=_check_hooks_url(hooks_url),
        passkey=reader.optional_text("passkey"),
        till=till,
        initiator=_read_operator(
            reader, ciphers, "initiator", initiator, "initiator_password", payout_shortcode
        ),
        deposit_initiator=_read_operator(
            reader, ciphers, "deposit_initiator", deposit_initiator, own_password, shortcode
        ),
        password_set_on=reader.optional_date("password_set_on"),
        payout_command=reader.choice("payout_command", PAYOUT_COMMANDS, PAYOUT_COMMANDS[0]),
        merchant_name=reader.optional_text("merchant_name"),
        trusts_results=reader.choice("results", TRUST_CHOICES, CONFIRM) == TRUST,
        completes_unvalidated=reader.choice(
            "unanswered_deposits", ("Completed", "Cancelled"), "Completed"
        )
        == "Completed",
        pull_number=_read_pull_number(reader),
    )
    reader.check_unknown()
    return account


def _read_shortcode(options: Options, key: str, default: str | None = None) -> str:
    value = options.text(key, default)
    if _SHORTCODE.fullmatch(value) is None:
        raise OptionError(key, "is no shortcode.", f'Write {key} = "174379", say: 5 to 7 digits.')
    return value


def _read_deposit_initiator(
    options: Options, initiator: str | None, *, checks_sender: bool
) -> str | None:
    """Return the API operator that asks about deposits; None where confirmations are trusted.
    Raises OptionError for QR codes that anybody who knows the address of confirmations could
    settle, unless that is asked for."""
    asks = options.optional_text("deposit_initiator") or initiator
    # Read in either case, so that it is known: `check_unknown` would call it misspelt.
    options.optional_text("deposit_initiator_password")

    # Where somebody can ask, asking is the default: confirmations are unsigned.
    default = TRUST
    if asks:
        default = CONFIRM
    if options.choice("deposits", TRUST_CHOICES, default) == CONFIRM:
        if asks is None:
            remedy = "Set initiator, or deposit_initiator with its password."
            raise OptionError(
                "deposits", "needs an API operator that asks M-Pesa about deposits.", remedy
            )
        return asks

    # A confirmation settles a QR payment, and its address, which is one for all, may stand in the
    # log of a proxy: to trust it has to be somebody's decision.
    if "merchant_name" in options.values and "deposits" not in options.values and not checks_sender:
        remedy = (
            'Set initiator, so that M-Pesa is asked, or hooks_from; or write deposits = "trust".'
        )
        raise OptionError(
            "deposits", "would let anybody who knows an address settle QR payments.", remedy
        )

    return None


def _read_pull_number(options: Options) -> str | None:
    """Return the number for Pull Transactions. Raises OptionError for a till: its list does not
    tell prompts from deposits."""
    number = options.optional_text("pull_number")
    if number is None:
        return None
    if "till" in options.values:
        raise OptionError("pull_number", "is for paybills only.", "Remove pull_number, or till.")

    # The form in which M-Pesa names it, whatever the form in the settings.
    if (msisdn := format_msisdn(number)) is None:
        raise OptionError(
            "pull_number", "is no Kenyan mobile number.", 'Write pull_number = "254722000000", say.'
        )

    return msisdn


def _read_operator(
    options: Options,
    ciphers: Ciphers,
    part: str,
    name: str | None,
    password_key: str,
    shortcode: str,
) -> ApiOperator:
    if name is None:
        return ApiOperator(part, shortcode)

    # Encrypted once, as its text shows whose a request is, and serves many of them (documented,
    # Business To Customer, question 21).
    sealed = _encrypt_credential(options, ciphers, password_key)
    return ApiOperator(
        part, shortcode, name, sealed, _credential_digest(options, name, password_key)
    )


def _encrypt_credential(options: Options, ciphers: Ciphers, key: str) -> str:
    """Return the SecurityCredential: the password, RSA with PKCS #1 v1.5, base64. It serves many
    requests."""
    password = options.text(key)
    # Its dates are not checked: those in use have long ended.
    certificate = options.text("certificate").encode()
    try:
        return b64encode(
            ciphers.rsa_encrypt(certificate, password.encode(), RsaPadding.PKCS1V15)
        ).decode()
    except CipherError as error:
        raise OptionError(
            "certificate", f"can't be used: {error}.", "Take it from Daraja's portal, as PEM."
        ) from None


def _credential_digest(options: Options, name: str, key: str) -> str:
    """Return what changes with the name and password of an API operator; only the consumer secret
    can make it."""
    # Keyed: a password may be short enough to be found from a bare digest.
    text = f"credential\0{name}\0{options.text(key)}"
    return hmac.new(options.text("consumer_secret").encode(), text.encode(), sha256).hexdigest()[
        :_DIGEST_CHARACTERS
    ]


def _check_hooks_url(hooks_url: str) -> str:
    found = [word for word in FORBIDDEN_IN_URLS if word in hooks_url.lower()]
    # At the start, as Daraja would refuse the first payment with a text that names no word.
    if found:
        raise OptionError(
            "hooks_name",
            f"gives an address with {found[0]!r} in it, and Daraja takes none with that.",
            "Set hooks_name, or hooks_url with another host.",
        )
    return hooks_url

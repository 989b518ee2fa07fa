"""Reads the options of an account with Daraja from `[provider.NAME]`."""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from hashlib import sha256
from typing import Any, Final

from attrs import field, frozen

from mmo_sansio.providers.common.interface import CipherError, Ciphers, RsaPadding
from mmo_sansio.providers.mpesa_daraja.wire import format_msisdn
from mmo_sansio.values.fields import (
    DATE,
    HTTPS_URL,
    REQUIRED,
    SECRET,
    TEXT,
    Kind,
    SettingsError,
    matching,
    of_text,
    one_of,
    read_table,
    setting,
)

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


def _pull_number(text: str) -> str:
    # The form in which M-Pesa names it, whatever the form in the settings.
    if (msisdn := format_msisdn(text)) is None:
        raise ValueError("it is no such number")
    return msisdn


_SHORTCODE_KIND: Final = matching(_SHORTCODE, "a shortcode of 5 to 7 digits", '"174379"')


@frozen
class MpesaOptions:
    """Declares what `[provider.NAME]` says of an account."""

    base_url: str = setting(
        HTTPS_URL, PRODUCTION_URL, "`https://sandbox.safaricom.co.ke` for tests."
    )
    consumer_key: str = setting(SECRET, REQUIRED, "The app's key.")
    consumer_secret: str = setting(
        SECRET,
        REQUIRED,
        "The app's secret. When it changes, callbacks of pending payments are no longer accepted, "
        "and these payments end by polls.",
    )
    shortcode: str = setting(
        _SHORTCODE_KIND, REQUIRED, "The paybill, or the store number of a till."
    )
    till: str | None = setting(
        _SHORTCODE_KIND,
        None,
        "The till that prompts and QR codes pay to; their types are then `CustomerBuyGoodsOnline` "
        "and `BG`.",
    )
    passkey: str | None = setting(
        SECRET,
        None,
        "Without it the account offers no `direct/payin` and no `web/payin`.",
    )
    payout_shortcode: str | None = setting(
        _SHORTCODE_KIND,
        None,
        "The shortcode for pay-outs and taxes.",
        default_text="`shortcode`",
    )
    initiator: str | None = setting(
        TEXT,
        None,
        "The API operator. Without it the account offers neither pay-outs nor taxes.",
    )
    initiator_password: str | None = setting(SECRET, None, "The API operator's password.")
    certificate: str | None = setting(
        TEXT,
        None,
        "The portal's certificate (PEM) that encrypts the password; its dates are not checked.",
    )
    password_set_on: date | None = setting(
        DATE,
        None,
        "The day on which the API operator's password was set, `2026-11-30`. From 14 days before "
        "it ends, the account's check warns.",
    )
    results: str = setting(
        one_of(*TRUST_CHOICES),
        CONFIRM,
        "How a prompt ends whose success its callback has reported, where M-Pesa answers no "
        "question about it: `confirm` waits for M-Pesa's confirmation, `trust` does not.",
    )
    deposits: str | None = setting(
        one_of(*TRUST_CHOICES),
        None,
        "`confirm` asks M-Pesa about the receipt of a deposit or a QR payment before it is booked, "
        "`trust` does not.",
        default_text="`confirm` with an initiator, else `trust`",
    )
    deposit_initiator: str | None = setting(
        TEXT,
        None,
        "The API operator of `shortcode` that asks about deposits. Set it where "
        "`payout_shortcode` is another organisation than `shortcode`.",
        default_text="`initiator`",
    )
    deposit_initiator_password: str | None = setting(
        SECRET, None, "That operator's password.", default_text="`initiator_password`"
    )
    payout_command: str = setting(
        one_of(*PAYOUT_COMMANDS), PAYOUT_COMMANDS[0], "Or `SalaryPayment`, `PromotionPayment`."
    )
    merchant_name: str | None = setting(
        TEXT,
        None,
        "The name in a QR code, which Daraja draws. Without it the account offers no `qr/payin`.",
    )
    pull_number: str | None = setting(
        Kind("text", of_text(_pull_number), "a Kenyan mobile number", '"254722000000"'),
        None,
        "The Safaricom number of the shortcode in M-Pesa's portal, for Pull Transactions. Only for "
        "paybills.",
    )
    unanswered_deposits: str = setting(
        one_of("Completed", "Cancelled"),
        "Completed",
        "What M-Pesa does with a deposit whose validation request gets no response: `Completed` "
        "or `Cancelled`.",
    )

    def required(self, name: str) -> str:
        """Return an option that an API operator needs. Raises SettingsError."""
        value: str | None = getattr(self, name)
        if value is None:
            raise SettingsError(name, "is missing.", f"An API operator needs {name}.")
        return value


def read_account(
    options: Mapping[str, Any], *, hooks_url: str, ciphers: Ciphers, checks_sender: bool = False
) -> MpesaAccount:
    """Return the account that the options describe. `checks_sender` says that callbacks are
    accepted from listed networks only. Raises SettingsError."""
    read = read_table(MpesaOptions, options)
    # Its list does not tell prompts from deposits.
    if read.pull_number is not None and read.till is not None:
        fault = "is for paybills only."
        raise SettingsError("pull_number", fault, "Remove pull_number, or till.")

    own_password = "initiator_password"
    if read.deposit_initiator_password is not None:
        own_password = "deposit_initiator_password"

    operator = partial(_operator, read, ciphers)
    return MpesaAccount(
        base_url=read.base_url,
        consumer_key=read.consumer_key,
        consumer_secret=read.consumer_secret,
        shortcode=read.shortcode,
        hooks_url=_check_hooks_url(hooks_url),
        passkey=read.passkey,
        till=read.till,
        initiator=operator(
            "initiator",
            read.initiator,
            "initiator_password",
            read.payout_shortcode or read.shortcode,
        ),
        deposit_initiator=operator(
            "deposit_initiator",
            _deposit_initiator(read, checks_sender=checks_sender),
            own_password,
            read.shortcode,
        ),
        password_set_on=read.password_set_on,
        payout_command=read.payout_command,
        merchant_name=read.merchant_name,
        trusts_results=read.results == TRUST,
        completes_unvalidated=read.unanswered_deposits == "Completed",
        pull_number=read.pull_number,
    )


def _deposit_initiator(options: MpesaOptions, *, checks_sender: bool) -> str | None:
    """Return the API operator that asks about deposits; None where confirmations are trusted.
    Raises SettingsError for QR codes that anybody who knows the address of confirmations could
    settle, unless that is asked for."""
    # Where somebody can ask, asking is the default: confirmations are unsigned.
    asks = options.deposit_initiator or options.initiator
    if options.deposits == CONFIRM and asks is None:
        remedy = "Set initiator, or deposit_initiator with its password."
        fault = "needs an API operator that asks M-Pesa about deposits."
        raise SettingsError("deposits", fault, remedy)

    if options.deposits != TRUST and asks is not None:
        return asks

    # A confirmation settles a QR payment, and its address, which is one for all, may stand in the
    # log of a proxy: to trust it has to be somebody's decision.
    if options.merchant_name is not None and options.deposits is None and not checks_sender:
        remedy = (
            'Set initiator, so that M-Pesa is asked, or hooks_from; or write deposits = "trust".'
        )
        fault = "would let anybody who knows an address settle QR payments."
        raise SettingsError("deposits", fault, remedy)

    return None


def _operator(
    options: MpesaOptions,
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
    password = options.required(password_key)
    sealed = _encrypt_credential(password, options.required("certificate"), ciphers)
    digest = _credential_digest(options.consumer_secret, name, password)
    return ApiOperator(part, shortcode, name, sealed, digest)


def _encrypt_credential(password: str, certificate: str, ciphers: Ciphers) -> str:
    """Return the SecurityCredential: the password, RSA with PKCS #1 v1.5, base64. It serves many
    requests."""
    # Its dates are not checked: those in use have long ended.
    try:
        sealed = ciphers.rsa_encrypt(certificate.encode(), password.encode(), RsaPadding.PKCS1V15)
    except CipherError as error:
        remedy = "Take it from Daraja's portal, as PEM."
        raise SettingsError("certificate", f"can't be used: {error}.", remedy) from None

    return b64encode(sealed).decode()


def _credential_digest(consumer_secret: str, name: str, password: str) -> str:
    """Return what changes with the name and password of an API operator; only the consumer secret
    can make it."""
    # Keyed: a password may be short enough to be found from a bare digest.
    text = f"credential\0{name}\0{password}"
    return hmac.new(consumer_secret.encode(), text.encode(), sha256).hexdigest()[
        :_DIGEST_CHARACTERS
    ]


def _check_hooks_url(hooks_url: str) -> str:
    found = [word for word in FORBIDDEN_IN_URLS if word in hooks_url.lower()]
    # At the start, as Daraja would refuse the first payment with a text that names no word.
    if found:
        raise SettingsError(
            "hooks_name",
            f"gives an address with {found[0]!r} in it, and Daraja takes none with that.",
            "Set hooks_name, or hooks_url with another host.",
        )
    return hooks_url

"""Removes the secrets of an account from the reports of its adapter: some operators repeat a
request in their error messages, which reach merchants, logs and the suspense book (A5)."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from attrs import Factory, define, evolve, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common import interface
from mmo_sansio.providers.common.balances import BalanceInquiry, BalanceReport, ReportsBalances
from mmo_sansio.providers.common.operations import (
    OperationKey,
    ProviderOperation,
    ReversalOperation,
)
from mmo_sansio.providers.common.payees import NamesPayees, PayeeInquiry
from mmo_sansio.providers.common.payer_urls import SendsPayersAway
from mmo_sansio.values.clock import Instant, Moment
from mmo_sansio.values.model import DepositClaim, Transaction
from mmo_sansio.values.payer_actions import EnterCode
from mmo_sansio.values.reversals import Reversal

# The replacement of a secret.
REDACTED: Final = "[secret]"

_REDACTED_OCTETS: Final = REDACTED.encode()

# A secret of this length is removed wherever it appears. A shorter one, such as a PIN, may be part
# of an amount: it is removed as a word only, and only from text for people.
LONG_SECRET_CHARACTERS: Final = 8

# How many access tokens are remembered: those in use, and some earlier ones.
REMEMBERED_TOKENS_MAX: Final = 16

# How many codes of payers are remembered: each is used once, and soon.
REMEMBERED_CODES_MAX: Final = 64

# How deep an adapter is searched for secrets: its account, and what that is made of.
DEPTH_MAX: Final = 4

# Fields that hold our own ids: none of a secret's letters is looked for in them, as an id that is
# torn names no payment.
_OWN_IDS: Final = frozenset({"gateway_reference", "reversal", "provider"})

# Fields of reports that hold an operator's own words.
_FREE_TEXT: Final = frozenset({"native_code", "native_message", "reason", "content", "party_data"})

# Eight octets, as the shortest long secret has, are eleven characters of Base64 without padding,
# and sixteen of hexadecimal.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{11,}={0,2}", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"(?:[0-9A-Fa-f]{2}){8,}", re.ASCII)
_PART_OF_ADDRESS: Final = re.compile(r"[^\s\"'<>&=?]+", re.ASCII)
_WORD: Final = re.compile(r"[^\s\"'<>=]+", re.ASCII)

T = TypeVar("T")


@define(eq=False)
class RedactingProvider:
    """Gives the reports of its adapter without the account's secrets and access tokens."""

    adapter: interface.Provider
    declared: Iterable[str] = field(default=(), repr=False)
    """Secrets that the account has besides those that its adapter leaves out of its repr."""
    is_simulated: bool = False
    """Whether no money moves by the account."""
    _secrets: tuple[str, ...] = field(init=False, repr=False)
    _tokens: deque[str] = field(init=False, repr=False, default=Factory(deque))
    _codes: deque[str] = field(init=False, repr=False, default=Factory(deque))
    """What payers have typed who were asked for a code."""
    _long_secrets: tuple[str, ...] = field(init=False, repr=False)
    """Those of both that are removed wherever they appear."""
    _long_octets: tuple[bytes, ...] = field(init=False, repr=False)
    """The same in UTF-8."""
    _shortest_octets: int = field(init=False, default=0)
    """How many the shortest of them has."""
    _signer: interface.SignsIn | None = field(init=False)
    _judge: interface.JudgesAnswers | None = field(init=False)
    _guard: interface.AuthenticatesNotifications | None = field(init=False)
    _locker: interface.LocksCredentials | None = field(init=False)
    """The adapter, where it can do that: asking costs more than most answers."""

    def __attrs_post_init__(self) -> None:
        known = {*find_secrets(self.adapter), *filter(None, self.declared)}
        # The longest first: of one that contains another, nothing may be left.
        self._secrets = tuple(sorted(known, key=len, reverse=True))
        self._tokens = deque(maxlen=REMEMBERED_TOKENS_MAX)
        self._codes = deque(maxlen=REMEMBERED_CODES_MAX)
        self._find_long_secrets()

        adapter = self.adapter
        if isinstance(adapter, interface.SignsIn):
            self._signer = adapter
        else:
            self._signer = None

        if isinstance(adapter, interface.JudgesAnswers):
            self._judge = adapter
        else:
            self._judge = None

        if isinstance(adapter, interface.AuthenticatesNotifications):
            self._guard = adapter
        else:
            self._guard = None

        if isinstance(adapter, interface.LocksCredentials):
            self._locker = adapter
        else:
            self._locker = None

    @property
    def name(self) -> str:
        return self.adapter.name

    @property
    def title(self) -> str:
        return self.adapter.title

    @property
    def operations(self) -> Mapping[OperationKey, ProviderOperation]:
        return self.adapter.operations

    def scope_of(self, request: HttpRequest) -> str | None:
        """Return the adapter's; an adapter that cannot sign in has no tokens."""
        if self._signer is None:
            return None
        return self._signer.scope_of(request)

    def sign_in(self, scope: str, *, now: Moment) -> interface.SignIn:
        """Sign in as the adapter does, which must be able to; the token is a secret from then
        on."""
        assert self._signer is not None
        try:
            token: interface.AccessToken = yield from self._signer.sign_in(scope, now=now)
        except interface.SignInFailed as failure:
            # From None: the cause has the words as they came.
            raise interface.SignInFailed(
                self.redact(failure.reason), status=failure.status
            ) from None

        self._tokens.append(token.value)
        self._find_long_secrets()
        return token

    def rejects_token(self, response: HttpResponse) -> bool:
        return self._signer is not None and self._signer.rejects_token(response)

    def submit(self, transaction: Transaction, *, now: Moment) -> interface.Conversation:
        """Submit as the adapter does, with redacted responses and report."""
        self._remember_code(transaction)
        return self._redact_conversation(self.adapter.submit(transaction, now=now))

    def poll(self, transaction: Transaction, *, now: Moment) -> interface.Conversation:
        """Poll as the adapter does, with redacted responses and report."""
        return self._redact_conversation(self.adapter.poll(transaction, now=now))

    def commit(self, transaction: Transaction, *, now: Moment) -> interface.Conversation:
        """Commit as the adapter does; one that cannot is polled."""
        if not isinstance(self.adapter, interface.CommitsPayments):
            return self.poll(transaction, now=now)
        self._remember_code(transaction)
        return self._redact_conversation(self.adapter.commit(transaction, now=now))

    @property
    def payer_hosts(self) -> Collection[str]:
        """The adapter's, none for one that sends its payers nowhere."""
        if isinstance(self.adapter, SendsPayersAway):
            return self.adapter.payer_hosts
        return ()

    def verify_deposit(self, claim: DepositClaim, *, now: Moment) -> interface.DepositConversation:
        """Ask as the adapter does, with redacted responses and answer; an adapter that cannot ask
        gives no answer."""
        if not isinstance(self.adapter, interface.VerifiesDeposits):
            return None
        return (yield from self._redact_conversation(self.adapter.verify_deposit(claim, now=now)))

    def list_deposits(self, begin: Instant, end: Instant) -> interface.DepositListing:
        """List as the adapter does, which must be able to, with redacted responses."""
        assert isinstance(self.adapter, interface.ListsDeposits)
        return self._redact_conversation(self.adapter.list_deposits(begin, end))

    def check_account(self, *, now: Moment) -> interface.AccountCheck:
        """Ask as the adapter does; an adapter that cannot ask finds nothing."""
        if not isinstance(self.adapter, interface.ChecksAccount):
            return ()
        return (yield from self._redact_conversation(self.adapter.check_account(now=now)))

    def ask_availability(self, *, now: Moment) -> interface.AccountCheck:
        """Ask as the adapter does; an adapter that cannot ask finds nothing."""
        if not isinstance(self.adapter, interface.ReportsAvailability):
            return ()
        return (yield from self._redact_conversation(self.adapter.ask_availability(now=now)))

    def ask_balances(self, *, now: Moment) -> BalanceInquiry:
        """Ask as the adapter does; an adapter that cannot ask reports none."""
        if not isinstance(self.adapter, ReportsBalances):
            return BalanceReport()
        return (yield from self._redact_conversation(self.adapter.ask_balances(now=now)))

    def ask_payee(self, msisdn: str, name: str, *, now: Moment) -> PayeeInquiry:
        """Ask as the adapter does, which must be able to, with redacted responses and report."""
        assert isinstance(self.adapter, NamesPayees)
        return self._redact_conversation(self.adapter.ask_payee(msisdn, name, now=now))

    @property
    def reversal_operations(self) -> Mapping[OperationKey, ReversalOperation]:
        """Return the adapter's; an adapter that cannot reverse has none."""
        if isinstance(self.adapter, interface.ReversesPayments):
            return self.adapter.reversal_operations
        return {}

    def reverse(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment
    ) -> interface.ReversalConversation:
        """Reverse as the adapter does, which must be able to, with redacted responses and
        report."""
        assert isinstance(self.adapter, interface.ReversesPayments)
        return self._redact_conversation(self.adapter.reverse(reversal, transaction, now=now))

    def poll_reversal(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment
    ) -> interface.ReversalConversation:
        """Ask as the adapter does, which must be able to, with redacted responses and report."""
        assert isinstance(self.adapter, interface.ReversesPayments)
        return self._redact_conversation(self.adapter.poll_reversal(reversal, transaction, now=now))

    @property
    def sends_notifications_once(self) -> bool:
        """Return what the adapter says; others repeat what had no answer."""
        return (
            isinstance(self.adapter, interface.NotifiesOnce)
            and self.adapter.sends_notifications_once
        )

    def credential_of(self, request: HttpRequest) -> str:
        """Return the adapter's credential; empty where none is ever locked."""
        if self._locker is None:
            return ""
        return self._locker.credential_of(request)

    def uses_credential(self, credential: str) -> bool:
        """Return what the adapter says; false where no credential is ever locked."""
        return self._locker is not None and self._locker.uses_credential(credential)

    def read_finding(self, request: HttpRequest) -> interface.AccountFinding | None:
        """Return the adapter's finding, which has no words of the operator."""
        if self._locker is None:
            return None
        return self._locker.read_finding(request)

    def judge_answer(
        self, request: HttpRequest, response: HttpResponse
    ) -> interface.AccountFinding | None:
        """Return the adapter's finding, which has no words of the operator."""
        if self._judge is None:
            return None
        return self._judge.judge_answer(request, response)

    def read_notification(self, request: HttpRequest) -> interface.ProviderNotification:
        """Return the adapter's reading, redacted. The body stays unchanged, as it may be signed."""
        return self._redact_report(self.adapter.read_notification(request))

    def refuse_notification(self, request: HttpRequest, *, now: Moment) -> str | None:
        """Refuse what the adapter refuses; an adapter that cannot tell refuses nothing."""
        if self._guard is None:
            return None
        return self._guard.refuse_notification(request, now=now)

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        return self.adapter.answer_notification(request, accepted)

    def _redact_conversation(
        self, conversation: Generator[HttpRequest, HttpResponse, T]
    ) -> Generator[HttpRequest, HttpResponse, T]:
        """Run the conversation; long secrets are removed from responses before they are parsed, so
        that none is cut in two."""
        step = interface.resume(conversation)
        while not isinstance(step, interface.Finished):
            try:
                response = yield step
            except interface.ExchangeFailed as failure:
                step = interface.resume(conversation, failure)
            else:
                body = self._redact_body(response.body)
                if body != response.body:
                    response = evolve(response, body=body)
                step = interface.resume(conversation, response)

        return self._redact_report(step.result)

    def _redact_report(self, report: T) -> T:
        changes: dict[str, str] = {}
        for attribute in getattr(type(report), "__attrs_attrs__", ()):
            value = getattr(report, attribute.name)

            # Exactly `str`: the members of our enums are strings too, and none is an operator's.
            if type(value) is not str or attribute.name in _OWN_IDS:
                continue

            # A short secret, a PIN say, could be a part of an amount or an id.
            if attribute.name in _FREE_TEXT:
                redacted = self.redact(value)
            else:
                redacted = self._redact_long_secrets(value)
            if redacted != value:
                changes[attribute.name] = redacted

        if not changes:
            return report
        return evolve(report, **changes)  # type: ignore[misc]

    def _redact_body(self, body: bytes) -> bytes:
        for secret in self._long_octets:
            body = body.replace(secret, _REDACTED_OCTETS)
        return body

    def redact(self, text: str) -> str:
        """Remove all secrets and access tokens, plain or encoded, and the codes that payers have
        given, from text for people."""
        text = self._redact_long_secrets(text)
        for mark, form, decode in _ENCODINGS:
            if mark in text:
                text = form.sub(partial(self._redact_encoded, mark, decode), text)

        # What is left are short ones, and codes of payers, however long they are.
        short = [
            secret
            for secret in (*self._secrets, *self._tokens)
            if len(secret) < LONG_SECRET_CHARACTERS
        ]
        for word in (*short, *self._codes):
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", REDACTED, text)

        return text

    def _remember_code(self, transaction: Transaction) -> None:
        """Remember what a payer has typed: a long one may be part of an id, so it is removed as a
        word only."""
        asked = transaction.progress.payer_action
        if isinstance(asked, EnterCode) and asked.code and asked.code not in self._codes:
            self._codes.append(asked.code)

    def _redact_long_secrets(self, text: str) -> str:
        for secret in self._long_secrets:
            text = text.replace(secret, REDACTED)
        return text

    def _redact_encoded(
        self,
        mark: str,
        decode: Callable[[str], bytes],
        found: re.Match[str],
    ) -> str:
        """Redact a run that contains a secret once it is decoded, as in HTTP Basic and in the
        password of a push."""
        run = found[0]
        if mark not in run:
            return run  # It stands for itself.
        if not mark and len(run) <= self._shortest_octets:
            return run  # Each of its characters stands for less than an octet.

        # Compared decoded, as a secret begins at any of an encoding's octets.
        decoded = decode(run)
        is_secret = any(secret in decoded for secret in self._long_octets)
        if is_secret:
            return REDACTED

        return run

    def _find_long_secrets(self) -> None:
        secrets = (*self._secrets, *self._tokens)
        self._long_secrets = tuple(
            secret for secret in secrets if len(secret) >= LONG_SECRET_CHARACTERS
        )
        self._long_octets = tuple(secret.encode() for secret in self._long_secrets)
        self._shortest_octets = min(map(len, self._long_octets), default=0)


def find_secrets(instance: object, depth: int = 0) -> Iterable[str]:
    """Yield every text that an adapter or its account leaves out of its repr, which marks it as a
    secret, also each one of several."""
    for attribute in getattr(type(instance), "__attrs_attrs__", ()):
        value = getattr(instance, attribute.name)
        parts: Iterable[object] = (value,)
        if isinstance(value, tuple | list):
            parts = value

        for part in parts:
            if isinstance(part, str):
                # `repr=False` is what marks a secret: no list of them could be forgotten.
                if not attribute.repr and part:
                    yield part
            elif depth < DEPTH_MAX:
                yield from find_secrets(part, depth + 1)


def decode_base64(run: str) -> bytes:
    """Return what a run of Base64 stands for, in either alphabet; nothing where it is none."""
    plain = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        # Senders often leave the padding out.
        return base64.b64decode(plain + "=" * (-len(plain) % 4))
    except (binascii.Error, ValueError):
        return b""


def _decode_hexadecimal(run: str) -> bytes:
    return bytes.fromhex(run)


def decode_percent(run: str) -> bytes:
    """Return what a part of an address stands for; a stray `%` stays, as nobody refuses it."""
    octets = run.encode("utf-8", "replace")
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), octets)


def _decode_entities(run: str) -> bytes:
    return html.unescape(run).encode("utf-8", "replace")


def _decode_escapes(run: str) -> bytes:
    """Decode what JSON may write in two ways: characters by their number, and the slash."""
    plain = re.sub(r"\\u([0-9A-Fa-f]{4})", lambda found: chr(int(found[1], 16)), run)
    return plain.replace("\\/", "/").encode("utf-8", "replace")


# The forms of runs in which an operator may repeat a secret, each with the character without which
# a run stands for itself.
# Base64: HTTP Basic, and the Password of a push. Hexadecimal: digests. The others: an address that
# is repeated, an error page, and JSON within JSON.
_ENCODINGS: Final[tuple[tuple[str, re.Pattern[str], Callable[[str], bytes]], ...]] = (
    ("", _BASE64, decode_base64),
    ("", _HEXADECIMAL, _decode_hexadecimal),
    ("%", _PART_OF_ADDRESS, decode_percent),
    ("&", _WORD, _decode_entities),
    ("\\", _WORD, _decode_escapes),
)

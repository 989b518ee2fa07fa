"""An adapter whose reports hold no secret of its account, whatever the operator says: some put what they were sent into
their error messages, and those messages reach merchants, logs and the suspense book (A5)."""

from __future__ import annotations

import base64
import binascii
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

from attrs import Factory, define, evolve, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderReport
from mmo_sansio.providers.common.interface import (
    AccessToken,
    Conversation,
    ExchangeFailed,
    Notified,
    Provider,
    SignIn,
    SignInFailed,
)
from mmo_sansio.providers.common.operations import Operation, OperationKey
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction

HIDDEN: Final = "[secret]"
"""What stands where a secret stood."""

LONG: Final = 8
"""From this many characters on a text is nothing but a secret, wherever it stands. A shorter one, such as a PIN, may be
part of an amount: it is looked for as a word, and in words for people only."""

TOKENS_KEPT: Final = 16
"""How many access tokens are remembered: those still in use, and some before."""

DEPTH_MAX: Final = 4

_FREE_TEXT: Final = frozenset({"native_code", "native_message", "reason", "told", "party_data"})
"""Members of reports that hold an operator's own words."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{11,}={0,2}", re.ASCII)

T = TypeVar("T")


@define(eq=False)
class Discreet:
    """A provider that says what its adapter says, without the account's secrets and access tokens."""

    adapter: Provider
    _secrets: tuple[str, ...] = field(init=False, repr=False)
    _tokens: deque[str] = field(init=False, repr=False, default=Factory(deque))

    def __attrs_post_init__(self) -> None:
        self._secrets = tuple(sorted(set(secrets_of(self.adapter)), key=len, reverse=True))
        self._tokens = deque(maxlen=TOKENS_KEPT)

    @property
    def name(self) -> str:
        """The adapter's."""
        return self.adapter.name

    @property
    def title(self) -> str:
        """The adapter's."""
        return self.adapter.title

    @property
    def operations(self) -> Mapping[OperationKey, Operation]:
        """The adapter's."""
        return self.adapter.operations

    def scope_of(self, request: HttpRequest) -> str | None:
        """The adapter's."""
        return self.adapter.scope_of(request)

    def sign_in(self, scope: str, *, now: Instant) -> SignIn:
        """The adapter's; the token is a secret from then on."""
        try:
            token: AccessToken = yield from self.adapter.sign_in(scope, now=now)
        except SignInFailed as failure:
            raise SignInFailed(self._told(failure.reason)) from None
        self._tokens.append(token.value)
        return token

    def refuses_token(self, answer: HttpResponse) -> bool:
        """The adapter's."""
        return self.adapter.refuses_token(answer)

    def submit(self, transaction: Transaction, *, now: Instant) -> Conversation:
        """The adapter's."""
        return self._discreetly(self.adapter.submit(transaction, now=now))

    def ask(self, transaction: Transaction, *, now: Instant) -> Conversation:
        """The adapter's."""
        return self._discreetly(self.adapter.ask(transaction, now=now))

    def read_notification(self, request: HttpRequest) -> Notified:
        """The adapter's. Its body stays as it came, as it may be signed."""
        return self._without_secrets(self.adapter.read_notification(request))

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        """The adapter's."""
        return self.adapter.answer_notification(request, accepted)

    def _discreetly(self, conversation: Conversation) -> Conversation:
        """The same conversation, whose answers lose long secrets before they are read, so that none is cut in two."""
        try:
            request = next(conversation)
            while True:
                try:
                    answer = yield request
                except ExchangeFailed as failure:
                    request = conversation.throw(failure)
                else:
                    request = conversation.send(evolve(answer, body=self._body(answer.body)))
        except StopIteration as end:
            report: ProviderReport = end.value
            return self._without_secrets(report)

    def _without_secrets(self, report: T) -> T:
        """The report, its texts without secrets."""
        changes: dict[str, str] = {}
        for each in getattr(type(report), "__attrs_attrs__", ()):
            value = getattr(report, each.name)
            if type(value) is str and each.name not in ("gateway_reference", "provider"):
                said = self._told(value) if each.name in _FREE_TEXT else self._plain(value)
                if said != value:
                    changes[each.name] = said
        return evolve(report, **changes) if changes else report  # type: ignore[misc]

    def _body(self, body: bytes) -> bytes:
        for secret in self._long():
            body = body.replace(secret.encode(), HIDDEN.encode())
        return body

    def _told(self, text: str) -> str:
        """Words for people, without any secret, spelt out or in Base64."""
        text = _BASE64.sub(self._unless_encoded, self._plain(text))
        for secret in self._secrets:
            if len(secret) < LONG:
                text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
        return text

    def _plain(self, text: str) -> str:
        for secret in self._long():
            text = text.replace(secret, HIDDEN)
        return text

    def _unless_encoded(self, match: re.Match[str]) -> str:
        """A run of Base64, hidden when there is a secret in it, as in HTTP Basic and in the password of a push."""
        run = match[0]
        decoded = _decoded(run)
        return HIDDEN if any(each.encode() in decoded for each in self._long()) else run

    def _long(self) -> Iterator[str]:
        yield from (each for each in self._secrets if len(each) >= LONG)
        yield from self._tokens


def secrets_of(thing: object, depth: int = 0) -> Iterable[str]:
    """Every text that an adapter or its account leaves out of its repr: that is how they mark their secrets."""
    for each in getattr(type(thing), "__attrs_attrs__", ()):
        value = getattr(thing, each.name)
        if isinstance(value, str):
            if not each.repr and value:
                yield value
        elif depth < DEPTH_MAX:
            yield from secrets_of(value, depth + 1)


def _decoded(run: str) -> bytes:
    plain = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4))
    except (binascii.Error, ValueError):
        return b""

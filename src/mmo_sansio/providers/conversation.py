"""Conversations with providers as generators with a one-word vocabulary.

A conversation yields an HttpRequest (absolute-form target), is sent the HttpResponse, and returns a report. Whoever
drives it waits; when no answer could be had, it is thrown an ExchangeFailed, and says what that means.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias

from attrs import field, frozen

from mmo_sansio.clock import SECOND, Instant, Span
from mmo_sansio.http import HttpRequest, HttpResponse
from mmo_sansio.inputs import DepositNotified, ProviderReport, UnmatchedNotified
from mmo_sansio.model import Transaction

Conversation: TypeAlias = Generator[HttpRequest, HttpResponse, ProviderReport]

RENEW_BEFORE_MAX: Span = 60 * SECOND
"""How long before its end a token is renewed, or a tenth of its life if that is less."""


@frozen
class AccessToken:
    """What a provider gives for credentials; it goes with each request of its scope as `Authorization: Bearer`."""

    value: str = field(repr=False)
    issued_at: Instant
    expires_at: Instant

    def is_fresh(self, now: Instant) -> bool:
        """Whether it will do for another request; false a while before it expires."""
        life = self.expires_at - self.issued_at
        return now < self.expires_at - min(RENEW_BEFORE_MAX, life // 10)


SignIn: TypeAlias = Generator[HttpRequest, HttpResponse, AccessToken]
"""A conversation that fetches a token; it raises SignInFailed, and lets an ExchangeFailed pass."""


class SignInFailed(Exception):
    """The provider gave no token."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        """What it said, in words without secrets."""


class ExchangeFailed(Exception):
    """A request had no usable answer."""

    def __init__(self, reason: str, *, may_have_arrived: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        """What went wrong, in words without secrets."""
        self.may_have_arrived = may_have_arrived
        """False only when it is certain that no byte of the request left (S6)."""


class Provider(Protocol):
    """One configured account with a provider of mobile money."""

    @property
    def name(self) -> str:
        """The name it is configured under; it stands in reports and in providerData."""
        ...

    @property
    def title(self) -> str:
        """Its display name."""
        ...

    def submit(self, transaction: Transaction, *, now: Instant) -> Conversation:
        """Ask it to move the money. A transaction is submitted once (S6)."""
        ...

    def ask(self, transaction: Transaction, *, now: Instant) -> Conversation:
        """Ask it what became of a submission."""
        ...

    def scope_of(self, request: HttpRequest) -> str | None:
        """Which of its access tokens this request needs, by a name of the adapter's own; None: none. A provider with
        several products may give a token for each."""
        ...

    def sign_in(self, scope: str, *, now: Instant) -> SignIn:
        """Fetch the token of this scope, one that `scope_of` gave."""
        ...

    def read_notification(
        self, request: HttpRequest
    ) -> ProviderReport | DepositNotified | UnmatchedNotified:
        """What a notification by the provider (a webhook) says; never raises for bad input."""
        ...


def drive(
    conversation: Conversation, exchange: Callable[[HttpRequest], HttpResponse]
) -> ProviderReport:
    """Hold a conversation with a function that answers at once; what a test needs of a shell."""
    try:
        request = next(conversation)
        while True:
            try:
                answer = exchange(request)
            except ExchangeFailed as failure:
                request = conversation.throw(failure)
            else:
                request = conversation.send(answer)
    except StopIteration as end:
        report: ProviderReport = end.value
        return report

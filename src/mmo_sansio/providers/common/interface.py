"""Conversations with providers as generators with a one-word vocabulary.

A conversation yields an HttpRequest (absolute-form target), is sent the HttpResponse, and returns a report. Whoever
drives it waits; when no answer could be had, it is thrown an ExchangeFailed, and says what that means.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Generic, Protocol, TypeAlias, TypeVar

from attrs import field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderHinted, ProviderReport, UnmatchedNotified
from mmo_sansio.providers.common.operations import OperationKey, ProviderOperation
from mmo_sansio.values.clock import SECOND, Instant, Span
from mmo_sansio.values.model import Party, Transaction
from mmo_sansio.values.money import Money

ResultT = TypeVar("ResultT")

Conversation: TypeAlias = Generator[HttpRequest, HttpResponse, ProviderReport]
"""A conversation about one payment."""


class ExchangeFailed(Exception):
    """A request had no usable answer."""

    def __init__(self, reason: str, *, may_have_arrived: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        """What went wrong, in words without secrets."""
        self.may_have_arrived = may_have_arrived
        """False only when it is certain that no byte of the request left (S6)."""


TOKEN_RENEWAL_MARGIN = Span(60 * SECOND)
"""How long before its end a token is renewed, unless it lives so shortly that a tenth of its life is less."""


@frozen
class AccessToken:
    """What a provider gave for our credentials."""

    value: str = field(repr=False)
    issued_at: Instant
    expires_at: Instant

    def is_fresh(self, now: Instant) -> bool:
        """Whether it may be used still: it is renewed a minute, or a tenth of its life, before its end."""
        margin = min(TOKEN_RENEWAL_MARGIN, (self.expires_at - self.issued_at) // 10)
        return now < self.expires_at - margin


class SignInFailed(Exception):
    """The provider refused our credentials, or gave no token that can be read."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        """What went wrong, in words without secrets."""


SignIn: TypeAlias = Generator[HttpRequest, HttpResponse, AccessToken]
"""Yields requests with all their headers; raises SignInFailed for a refusal. ExchangeFailed may pass through it."""


@frozen
class DepositReport:
    """A provider tells of an offline deposit in its own terms: whose it is, the gateway's configuration says (S4)."""

    provider: str
    provider_reference: str
    """The provider's own transaction id: with the provider, the deposit's identity."""
    account: str
    """Which of the provider's accounts was paid, e.g. a shortcode."""
    bill_reference: str
    """What the payer gave as account or reference; empty when nothing."""
    amount: Money
    party: Party


@frozen
class DepositValidation:
    """A provider asks whether an offline deposit would be welcome; no money has moved, and nothing is recorded."""

    deposit: DepositReport


ProviderNotification: TypeAlias = (
    ProviderReport | ProviderHinted | DepositReport | DepositValidation | UnmatchedNotified
)
"""What a notification can say."""


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

    @property
    def operations(self) -> Mapping[OperationKey, ProviderOperation]:
        """What it offers, and how each behaves."""
        ...

    def scope_of(self, request: HttpRequest) -> str | None:
        """Which of its access tokens this request needs, by a name of the adapter's own; None: none. A provider with
        several products may give a token for each."""
        ...

    def sign_in(self, scope: str, *, now: Instant) -> SignIn:
        """Get the token of this scope, one that `scope_of` gave."""
        ...

    def rejects_token(self, response: HttpResponse) -> bool:
        """Whether this answer says that the token wasn't accepted, so that nothing was done: usually a 401."""
        ...

    def submit(self, transaction: Transaction, *, now: Instant) -> Conversation:
        """Ask it to move the money. A transaction is submitted once (S6)."""
        ...

    def poll(self, transaction: Transaction, *, now: Instant) -> Conversation:
        """Ask it what became of a submission."""
        ...

    def read_notification(self, request: HttpRequest) -> ProviderNotification:
        """What a notification by the provider (a webhook) says; never raises for bad input."""
        ...

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        """What to answer: `accepted` once what it said is durable, or, for a question whether a payment is welcome,
        that it is; never raises for bad input."""
        ...


@frozen
class Finished(Generic[ResultT]):
    """The end of a conversation."""

    result: ResultT


def resume(
    conversation: Generator[HttpRequest, HttpResponse, ResultT],
    outcome: HttpResponse | ExchangeFailed | None = None,
) -> HttpRequest | Finished[ResultT]:
    """Pass on the outcome of the last request, or None at the beginning; return the next request or
    the end. Raises what the conversation raises."""
    try:
        match outcome:
            case None:
                return next(conversation)
            case ExchangeFailed():
                return conversation.throw(outcome)
            case _:
                return conversation.send(outcome)
    except StopIteration as end:
        return Finished(end.value)


def drive(
    conversation: Generator[HttpRequest, HttpResponse, ResultT],
    exchange: Callable[[HttpRequest], HttpResponse],
) -> ResultT:
    """Run a conversation with a function that answers at once, and return its result; for tests."""
    step = resume(conversation)
    while not isinstance(step, Finished):
        try:
            outcome: HttpResponse | ExchangeFailed = exchange(step)
        except ExchangeFailed as failure:
            outcome = failure
        step = resume(conversation, outcome)
    return step.result

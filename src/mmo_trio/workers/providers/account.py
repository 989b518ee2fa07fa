"""One account with a provider: every request goes out here, signed in, at its pace, while its breaker lets it.

What is refused here never left, and says so: a payment that is asked about for nothing costs little, one that is sent
twice is money (S6). Tokens live in memory only, and no message holds one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import structlog
import trio
from attrs import Factory, define, evolve, field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import (
    AccessToken,
    ExchangeFailed,
    Provider,
    SignInFailed,
)
from mmo_sansio.resilience.circuit_breaker import BreakerState, CircuitBreaker
from mmo_sansio.resilience.rate_limit import RateLimit
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span

logger = structlog.get_logger(__name__)

SIGN_IN_TIMEOUT_S = 8.0
"""How long signing in may take, the wait for somebody else's included."""

SIGN_IN_FAILURE_TTL_S = 2.0
"""How long a failed sign-in stands for the next ones, so that a refusal isn't asked for by everybody in turn."""

UNAVAILABLE_STATUSES = frozenset({429, 502, 503, 504})
"""Answers that say that the provider can't serve. Its 500s may be words about one payment."""

SendRequest: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Sends one request; raises ExchangeFailed when there is no usable answer."""


@frozen
class _SignInFailure:
    """A sign-in that came to nothing."""

    reason: str
    expires_at: float
    """Trio's time until which it stands."""


@define(eq=False)
class _TokenSlot:
    """The token of one scope, and whoever gets the next."""

    lock: trio.Lock = Factory(trio.Lock)
    token: AccessToken | None = field(default=None, repr=False)
    failure: _SignInFailure | None = None


@frozen
class AccountStatistics:
    """What an account has done since its process began."""

    breaker_state: BreakerState
    exchanges: int
    """Requests that were sent and answered, signing in included."""
    unavailable: int
    """Answers among them that said that the provider can't serve."""
    failed: int
    """Requests without a usable answer."""
    not_sent: int
    """Requests that the breaker or the rate limit didn't let out."""
    sign_ins: int
    """Tokens that were given."""
    sign_ins_failed: int


@define(eq=False)
class ProviderAccount:
    """How one configured provider is reached; `exchange` is what its conversations talk through."""

    provider: Provider
    send_request: SendRequest = field(repr=False)
    now: Callable[[], Instant]
    monotonic: Callable[[], Span]
    breaker: CircuitBreaker = Factory(CircuitBreaker)
    rate_limit: RateLimit | None = None
    """None: as fast as it comes."""
    _token_slots: dict[str, _TokenSlot] = Factory(dict)
    _counts: Counter[str] = Factory(Counter)

    def statistics(self) -> AccountStatistics:
        """Its counters, and what its breaker thinks of the provider."""
        count = self._counts
        return AccountStatistics(
            self.breaker.state,
            exchanges=count["exchanges"],
            unavailable=count["ill"],
            failed=count["failed"],
            not_sent=count["withheld"],
            sign_ins=count["sign_ins"],
            sign_ins_failed=count["sign_ins_failed"],
        )

    @property
    def breaker_state(self) -> BreakerState:
        """What its breaker thinks of the provider."""
        return self.breaker.state

    async def exchange(self, request: HttpRequest) -> HttpResponse:
        """The provider's answer. Raises ExchangeFailed, which says whether the request may have arrived.

        An answer that says that the token was not accepted costs a new one, and the request is sent once more.
        """
        scope = self.provider.scope_of(request)
        if scope is None:
            return await self._send_through_breaker(request)
        token = await self._valid_token(scope)
        answer = await self._send_through_breaker(_with_token(request, token))
        if not self.provider.rejects_token(answer):
            return answer
        self._discard_token(scope, token)
        token = await self._valid_token(scope)
        return await self._send_through_breaker(_with_token(request, token))

    async def _valid_token(self, scope: str) -> AccessToken:
        """A fresh token; however many want one, only one signs in."""
        kept = self._token_slots.setdefault(scope, _TokenSlot())
        began = trio.current_time()
        limit = min(began + SIGN_IN_TIMEOUT_S, trio.current_effective_deadline() - 0.1)
        with trio.move_on_at(limit):
            async with kept.lock:
                if kept.token is not None and kept.token.is_fresh(self.now()):
                    return kept.token
                if kept.failure is not None and trio.current_time() < kept.failure.expires_at:
                    raise ExchangeFailed(kept.failure.reason, may_have_arrived=False)
                kept.token = await self._sign_in(scope, kept)
                return kept.token
        raise ExchangeFailed("Signing in took too long.", may_have_arrived=False)

    async def _sign_in(self, scope: str, slot: _TokenSlot) -> AccessToken:
        try:
            token = await self._run_sign_in(scope)
            self._counts["sign_ins"] += 1
            return token
        except SignInFailed as error:
            logger.error("sign_in_rejected", provider=self.provider.name, reason=error.reason)
            reason = f"Signing in was refused: {error.reason}"
        except ExchangeFailed as error:
            reason = f"Signing in failed: {error.reason}"
        self._counts["sign_ins_failed"] += 1
        slot.failure = _SignInFailure(reason, trio.current_time() + SIGN_IN_FAILURE_TTL_S)
        raise ExchangeFailed(reason, may_have_arrived=False)

    async def _run_sign_in(self, scope: str) -> AccessToken:
        """The conversation that gets a token, to its end."""
        conversation = self.provider.sign_in(scope, now=self.now())
        try:
            request = next(conversation)
            while True:
                try:
                    answer = await self._send_through_breaker(request)
                except ExchangeFailed as failure:
                    request = conversation.throw(failure)
                else:
                    request = conversation.send(answer)
        except StopIteration as end:
            token: AccessToken = end.value
            return token

    def _discard_token(self, scope: str, token: AccessToken) -> None:
        kept = self._token_slots[scope]
        if kept.token is token:
            kept.token = None

    async def _send_through_breaker(self, request: HttpRequest) -> HttpResponse:
        """One request, in its turn, if the breaker lets it."""
        await self._wait_for_rate_limit()
        permit = self.breaker.request_permit(self.monotonic())
        if permit is None:
            self._counts["withheld"] += 1
            raise ExchangeFailed(
                "The provider has failed too often lately.", may_have_arrived=False
            )
        succeeded: bool | None = None
        try:
            answer = await self.send_request(request)
            succeeded = answer.status not in UNAVAILABLE_STATUSES
            self._counts["exchanges"] += 1
            self._counts["ill"] += not succeeded
        except ExchangeFailed:
            succeeded = False
            self._counts["failed"] += 1
            raise
        finally:
            if succeeded is None:
                # Cut off: slowness is no success, and no reason to let nobody else try.
                self.breaker.abandon(permit, now=self.monotonic())
            else:
                self.breaker.record(permit, succeeded=succeeded, now=self.monotonic())
        return answer

    async def _wait_for_rate_limit(self) -> None:
        if self.rate_limit is None:
            return
        now = self.monotonic()
        wait_s = self.rate_limit.delay(now) / clock.SECOND
        if trio.current_time() + wait_s + 1 >= trio.current_effective_deadline():
            self._counts["withheld"] += 1
            raise ExchangeFailed(
                "Its turn would have come too late for the provider's rate limit.",
                may_have_arrived=False,
            )
        self.rate_limit.reserve(now)
        await trio.sleep(wait_s)


def _with_token(request: HttpRequest, token: AccessToken) -> HttpRequest:
    authorization = (b"authorization", b"Bearer " + token.value.encode())
    return evolve(request, headers=(*request.headers, authorization))

"""Sends requests to a provider through an account with it.

Every request to the provider leaves through its account: with a token, within the rate limit, and
when the breaker permits it. A request that the account rejects certainly did not leave, and the
error says so, because an unnecessary poll costs little but a second submission costs money (S6). No
message contains a token.

Providers limit questions apart from submissions, so a wait that one of these kinds is asked for
holds back that kind only, and a question that comes too often says nothing about the provider.
Questions about payees are a third kind: merchants decide how many there are, so their failures
never open the breaker that payments need."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Final, TypeAlias, TypeVar

import structlog
import trio
from attrs import Factory, define, field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse, retry_after
from mmo_sansio.providers.common.interface import (
    AccessToken,
    AccountFinding,
    AuthenticatesNotifications,
    ExchangeFailed,
    Finished,
    JudgesAnswers,
    LocksCredentials,
    Provider,
    SignInFailed,
    SignsIn,
    resume,
)
from mmo_sansio.resilience.circuit_breaker import CircuitBreaker
from mmo_sansio.resilience.token_bucket import TokenBucket
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Moment, MonotonicInstant
from mmo_trio.settings.values import Network
from mmo_trio.workers.providers.shared_tokens import SharedTokens

logger = structlog.get_logger(__name__)

# Seconds that signing in may take, including the wait for another task that signs in.
SIGN_IN_TIMEOUT_S = 8.0

# Seconds for which a failed sign-in is reused, so that waiting tasks do not repeat it in turn.
SIGN_IN_FAILURE_TTL_S = 2.0

# Statuses that say that the provider is unavailable. A 500 may concern one payment only.
UNAVAILABLE_STATUSES = frozenset({429, 502, 503, 504})

# Seconds of which the unused part may be used at once, where the requests of a provider are
# limited.
BURST_WINDOW_S = 5.0

TOO_MANY_REQUESTS: Final = 429

# Statuses with which a `Retry-After` says when to come again.
WAIT_STATUSES: Final = frozenset({TOO_MANY_REQUESTS, 503})

# Sends a request to a provider; raises ExchangeFailed when there is no usable answer.
SendRequest: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]

ResultT = TypeVar("ResultT")


@frozen
class WebhookEndpoint:
    """Describes the endpoint that receives the notifications of one account."""

    provider: Provider
    tokens: tuple[str, ...] = field(repr=False)
    """The secret parts of its URLs, any of which names it; the first stands in new URLs."""
    allowed_networks: Sequence[Network] = ()
    """The networks that notifications may come from; empty: any network."""
    guard: AuthenticatesNotifications | None = field(init=False)
    finder: LocksCredentials | None = field(init=False)
    """The provider, where it can do that: asking costs as much as reading a notification."""

    @guard.default
    def _find_guard(self) -> AuthenticatesNotifications | None:
        provider = self.provider
        if isinstance(provider, AuthenticatesNotifications):
            return provider
        return None

    @finder.default
    def _find_finder(self) -> LocksCredentials | None:
        if isinstance(self.provider, LocksCredentials):
            return self.provider
        return None


@define(eq=False)
class _TokenSlot:
    """Holds the token of one scope; the task that has the lock gets the next one."""

    lock: trio.Lock = Factory(trio.Lock)
    token: AccessToken | None = field(default=None, repr=False)
    refused: str = field(default="", repr=False)
    """The token that the provider has refused last."""
    failure: str = ""
    """Why the last sign-in failed."""
    refused_with: int | None = None
    """The status of the response without a token; None: there was no response."""
    failure_expires_at: float = -math.inf
    """The end of the failure's reuse, by Trio's clock."""


@define(eq=False)
class _Lane:
    """Holds back the requests of one kind for as long as the provider has asked for."""

    opens_at: float = -math.inf
    """By Trio's clock."""


def rate_limit(per_minute: int) -> TokenBucket:
    """Return what limits the requests to a provider; the unused part of the last BURST_WINDOW_S may
    be used at once."""
    per_second = per_minute / 60
    return TokenBucket(per_second, burst=1 + BURST_WINDOW_S * per_second)


async def _forget(_: AccountFinding) -> None:
    """Keep nothing."""


@define(eq=False)
class ProviderAccount:
    """Sends the requests of one configured provider: submissions by `exchange`, questions about
    them by `ask`."""

    provider: Provider
    send_request: SendRequest = field(repr=False)
    moment: Callable[[], Moment]
    monotonic: Callable[[], MonotonicInstant]
    breaker: CircuitBreaker = Factory(CircuitBreaker)
    rate_limit: TokenBucket | None = None
    """None: no limit."""
    observe: Callable[[HttpRequest, HttpResponse | ExchangeFailed], None] = lambda *_: None
    """Called with each request that was sent, and with its outcome."""
    learn: Callable[[AccountFinding], Awaitable[None]] = _forget
    """Keeps what an answer says about our account; never raises."""
    shared_tokens: SharedTokens | None = None
    """None: no other process uses the account."""
    send_question: SendRequest | None = field(default=None, repr=False)
    """Sends what moves no money; None: as all other requests."""
    _token_slots: defaultdict[str, _TokenSlot] = Factory(lambda: defaultdict(_TokenSlot))
    _signer: SignsIn | None = field(init=False)
    _judge: JudgesAnswers | None = field(init=False)
    """The provider, where it can do that: asking costs more than most answers."""
    _submissions: _Lane = Factory(_Lane)
    _questions: _Lane = Factory(_Lane)
    _payee_questions: _Lane = Factory(_Lane)
    _sign_ins: _Lane = Factory(_Lane)
    counts: Counter[str] = Factory(Counter)
    """Since the process started: `exchanges`, the answered requests, with those of signing in;
    `unavailable`, those among them that said that the provider is unavailable; `failed`, requests
    without a usable answer; `not_sent`, those that breaker, rate limit or a wait rejected;
    `sign_ins`, the issued tokens; `sign_ins_failed`."""

    def __attrs_post_init__(self) -> None:
        provider = self.provider
        self._signer = None
        if isinstance(provider, SignsIn):
            self._signer = provider

        self._judge = None
        if isinstance(provider, JudgesAnswers):
            self._judge = provider

    async def exchange(self, request: HttpRequest) -> HttpResponse:
        """Return the provider's answer. Raises ExchangeFailed, which says whether the request may
        have arrived.

        When the provider rejects the token, the request is sent once more with a new token. What
        the answer says about our account is learnt first.
        """
        answer = await self._exchange(request, self._submissions)
        finding = None
        if self._judge is not None:
            finding = self._judge.judge_answer(request, answer)

        if finding is not None:
            await self.learn(finding)

        return answer

    async def ask(self, request: HttpRequest) -> HttpResponse:
        """Do what `exchange` does, for a request that moves no money."""
        return await self._exchange(request, self._questions)

    async def ask_about_payee(self, request: HttpRequest) -> HttpResponse:
        """Do what `ask` does, for a question on which no payment depends."""
        return await self._exchange(request, self._payee_questions)

    async def _exchange(self, request: HttpRequest, lane: _Lane) -> HttpResponse:
        signer = self._signer
        scope = None
        if signer is not None:
            scope = signer.scope_of(request)

        if signer is None or scope is None:
            return await self._send_through_breaker(request, lane)

        token = await self._valid_token(signer, scope)
        answer = await self._send_through_breaker(_with_token(request, token), lane)
        if not signer.rejects_token(answer):
            return answer

        # Once more only: one that is rejected as well is the answer.
        self._discard_token(scope, token)
        token = await self._valid_token(signer, scope)
        return await self._send_through_breaker(_with_token(request, token), lane)

    async def _valid_token(self, signer: SignsIn, scope: str) -> AccessToken:
        """Return a fresh token; one task signs in for all that wait."""
        slot = self._token_slots[scope]
        if slot.token is not None and slot.token.is_fresh(self.moment().time):
            return slot.token

        # A tenth of a second before the deadline of the request: so the error is raised that says
        # that it was not sent.
        began = trio.current_time()
        limit = min(began + SIGN_IN_TIMEOUT_S, trio.current_effective_deadline() - 0.1)
        with trio.move_on_at(limit):
            async with slot.lock:
                # 1. Another task has signed in, or has failed to, while this one waited.
                if slot.token is not None and slot.token.is_fresh(self.moment().time):
                    return slot.token
                if trio.current_time() < slot.failure_expires_at:
                    raise ExchangeFailed(
                        slot.failure, may_have_arrived=False, sign_in_status=slot.refused_with
                    )

                # 2. Another process has signed in. Its token is used here, too, as a new one might
                #    end it; but not the one that was refused a moment ago.
                shared = self.shared_tokens and await self.shared_tokens.read(scope)
                if shared and shared.value != slot.refused and shared.is_fresh(self.moment().time):
                    slot.token = shared
                else:
                    slot.token = await self._sign_in(signer, scope, slot)

                return slot.token

        raise ExchangeFailed("Signing in took too long.", may_have_arrived=False)

    async def _sign_in(self, signer: SignsIn, scope: str, slot: _TokenSlot) -> AccessToken:
        now = self.moment()
        exchanges: list[tuple[HttpRequest, HttpResponse]] = []

        async def exchange(request: HttpRequest) -> HttpResponse:
            answer = await self._send_through_breaker(request, self._sign_ins)
            exchanges.append((request, answer))
            return answer

        try:
            token = await drive_async(signer.sign_in(scope, now=now), exchange)
            self.counts["sign_ins"] += 1

            # What is kept is the answer, so it must be the only one.
            if self.shared_tokens is not None and len(exchanges) == 1:
                await self.shared_tokens.keep(scope, *exchanges[0], now=now.time)

            return token
        except SignInFailed as error:
            logger.error("sign_in_rejected", provider=self.provider.name, reason=error.reason)
            slot.failure = f"Signing in was refused: {error.reason}"
            slot.refused_with = error.status
        except ExchangeFailed as error:
            slot.failure = f"Signing in failed: {error.reason}"
            slot.refused_with = None

        self.counts["sign_ins_failed"] += 1
        slot.failure_expires_at = trio.current_time() + SIGN_IN_FAILURE_TTL_S
        raise ExchangeFailed(slot.failure, may_have_arrived=False, sign_in_status=slot.refused_with)

    def _discard_token(self, scope: str, token: AccessToken) -> None:
        # Another task may have a new one by now, which nobody has rejected.
        slot = self._token_slots[scope]
        if slot.token is token:
            slot.token = None
            slot.refused = token.value

    async def _send_through_breaker(self, request: HttpRequest, lane: _Lane) -> HttpResponse:
        """Send one request when it is its turn, if the breaker permits it."""
        await self._wait_for_turn(lane)
        permit = self.breaker.request_permit(self.monotonic())
        if permit is None:
            self.counts["not_sent"] += 1
            reason = "The provider has failed too often lately."
            raise ExchangeFailed(reason, may_have_arrived=False)

        is_about_payee = lane is self._payee_questions
        is_question = is_about_payee or lane is self._questions
        send = self.send_request
        if is_question and self.send_question is not None:
            send = self.send_question

        # None until it is known what the request says about the provider's health.
        succeeded: bool | None = None
        try:
            answer = await send(request)
            self.observe(request, answer)
            is_unavailable = answer.status in UNAVAILABLE_STATUSES
            if not is_question or answer.status != TOO_MANY_REQUESTS:
                succeeded = not is_unavailable

            # The longest wait that was asked for counts, whichever answer comes last.
            if answer.status in WAIT_STATUSES:
                wait_s = retry_after(answer, now=self.moment().utc) / clock.SECOND
                lane.opens_at = max(lane.opens_at, trio.current_time() + wait_s)

            self.counts["exchanges"] += 1
            self.counts["unavailable"] += is_unavailable
        except ExchangeFailed as failure:
            self.observe(request, failure)
            succeeded = False
            self.counts["failed"] += 1
            raise
        finally:
            if succeeded is None or is_about_payee:
                # Cancelled, or asked too often: neither a success nor a reason to open the breaker.
                self.breaker.abandon(permit, now=self.monotonic())
            else:
                self.breaker.record(permit, succeeded=succeeded, now=self.monotonic())

        return answer

    async def _wait_for_turn(self, lane: _Lane) -> None:
        """Wait for as long as the provider has asked for, then for the rate limit."""
        # Looked at again after the wait: another answer may have asked for a longer one.
        while lane.opens_at > trio.current_time():
            self._check_turn(lane.opens_at, "The provider has asked for a longer wait.")
            await trio.sleep_until(lane.opens_at)

        if self.rate_limit is None:
            return

        now = self.monotonic()
        turn = trio.current_time() + self.rate_limit.delay(now) / clock.SECOND
        self._check_turn(turn, "Its turn would have come too late for the provider's rate limit.")
        self.rate_limit.spend(now)
        await trio.sleep_until(turn)

    def _check_turn(self, turn: float, reason: str) -> None:
        """Raise ExchangeFailed when a request whose turn is at this time of Trio's clock would come
        too late."""
        # Whatever left in the last second before the deadline would hardly be answered in time.
        if turn + 1 >= trio.current_effective_deadline():
            self.counts["not_sent"] += 1
            raise ExchangeFailed(reason, may_have_arrived=False)


def _with_token(request: HttpRequest, token: AccessToken) -> HttpRequest:
    authorization = (b"authorization", b"Bearer " + token.value.encode())
    headers = (*request.headers, authorization)
    return HttpRequest(request.method, request.target, headers, request.body)


async def drive_async(
    conversation: Generator[HttpRequest, HttpResponse, ResultT], exchange: SendRequest
) -> ResultT:
    """Run a conversation to its end and return its result. Raises what the conversation raises."""
    step = resume(conversation)
    while not isinstance(step, Finished):
        try:
            outcome: HttpResponse | ExchangeFailed = await exchange(step)
        except ExchangeFailed as failure:
            outcome = failure
        step = resume(conversation, outcome)

    return step.result

"""Answers every request of the API listener: health, the webhooks of providers, and the requests of
merchants, which are authenticated and then create, look up or list payments, or read what is beside
the specification."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, assert_never

import trio
from attrs import Factory, define

from mmo_sansio.api.extensions import OperationState, methods_response, payee_response
from mmo_sansio.api.incoming import requests
from mmo_sansio.api.incoming.payee_question import PayeeQuestion
from mmo_sansio.api.incoming.query_string import RecordsRequest, ReversalsRequest
from mmo_sansio.api.incoming.requests import (
    ApiRoute,
    ApiSettings,
    CreationHead,
    HealthRoute,
    MethodsRequest,
    ReadinessRoute,
    WebhookRoute,
    find_route,
    route_name,
)
from mmo_sansio.api.outgoing import creation_response, look_up_response, page_response
from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.messages.queries import LookUp, LookUpByMerchantReference
from mmo_sansio.messages.replies import Rejected, Reply
from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.values import problems
from mmo_sansio.values.clock import Instant, MonotonicInstant, earlier
from mmo_sansio.values.model import Method, Operation, Terms
from mmo_sansio.values.problems import FieldError, Problem, ProblemError
from mmo_trio.api.authentication import Authenticator
from mmo_trio.api.method_states import MethodStates
from mmo_trio.api.request_limits import RecordsLimit, RequestRates
from mmo_trio.api.webhooks import Webhooks
from mmo_trio.engine.engine import EngineStatistics, Sender
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.storage.interface.admin_types import KeyOwner
from mmo_trio.storage.interface.store import (
    OutcomeUnknown,
    StoreCorrupt,
    StoreUnavailable,
    StoreUnusable,
)
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.ids import PageTokenGenerator, ReferenceGenerator
from mmo_trio.workers.providers.payees import PayeeQuestions

# Seconds for which an answer about readiness holds: the store is asked at most so often, however
# many ask here.
READINESS_TTL_S: Final = 1.0

# Seconds for which a failed commit counts while no other succeeds. A full disk or a quota is not
# always seen before the next write.
FAILURE_TTL_S: Final = 5.0

# Errors that merchants receive as a problem document; every other error is an internal one.
PROBLEM_ERRORS: Final = (ProblemError, StoreUnavailable, OutcomeUnknown)

STORE_UNAVAILABLE = problems.UNAVAILABLE.problem(
    "Nothing was stored. Send the same request again, with the same reference."
)

# Seconds that a merchant is told to wait while the brand is held after a restoration: staff close
# the gap in hours, not in moments.
RESTORED_RETRY_AFTER_S: Final = 300

RESTORED = problems.UNAVAILABLE.problem(
    "The gateway was restored from a backup, and payments of late may be missing. Nothing was "
    "stored. Do not pay again by another way: look the payment up, or send the same request, "
    "later.",
    retry_after_s=RESTORED_RETRY_AFTER_S,
)
OUTCOME_UNKNOWN = problems.INTERNAL.problem(
    "It is not known whether the payment was taken. Look it up by its merchantReference before "
    "sending it again."
)

NOT_READY = problems.UNAVAILABLE.problem(
    "The store cannot be reached or written to, was restored, or the master key is not its own: "
    "the log says why."
)


@define(eq=False)
class ApiHandler:
    """Routes requests; serve it with any listener (:mod:`mmo_trio.http.handler`)."""

    merchant_api: MerchantApi
    webhooks: Webhooks
    readiness: Readiness

    async def admit(
        self, head: RequestHead, context: RequestContext, /
    ) -> HttpResponse | Problem | Admitted:
        """Return the response, or admit the body, after every check that needs no body (C9)."""
        try:
            # The path comes before everything else, and names the request in metrics (C9).
            route = find_route(head, has_extensions=self.merchant_api.settings.has_extensions)
            context.route = route_name(route)
            match route:
                case HealthRoute():
                    return _health_response("alive")
                case ReadinessRoute():
                    return await self._readiness_response()
                case WebhookRoute(provider, token):
                    return self.webhooks.admit(provider, token, head, context)
                case _:
                    return await self.merchant_api.admit(route, head, context)
        except PROBLEM_ERRORS as error:
            return problem_of_error(error)

    async def _readiness_response(self) -> HttpResponse | Problem:
        try:
            await self.readiness.require_ready()
        except StoreUnavailable:
            return NOT_READY
        return _health_response("ready")


@define(eq=False)
class Readiness:
    """Answers whether this process can take payments, for a load balancer that asks often and
    without a key.

    It can when the store can be reached and written to, and when this process has its master keys;
    finding that out writes nothing."""

    store: Store
    engine: EngineStatistics
    find_key_fault: Callable[[], Awaitable[str | None]]
    """Returns why this process lacks a master key of the store; None when it has all of them. May
    raise StoreUnavailable."""
    find_clock_fault: Callable[[], str | None] = lambda: None
    """Returns why this machine's clock forbids to take payments; None when it does not."""
    _error: str | None = None
    _expires_at: float = -math.inf
    _lock: trio.Lock = Factory(trio.Lock)
    """Held while the store is asked, so that all who ask meanwhile share the answer."""

    async def require_ready(self) -> None:
        """Return when this process is ready. Raises StoreUnavailable."""
        # What this process knows already costs no question to the store.
        error = self._recent_failure() or self.find_clock_fault()
        if error is None:
            async with self._lock:
                if trio.current_time() >= self._expires_at:
                    self._expires_at = trio.current_time() + READINESS_TTL_S
                    self._error = await self._find_error()
                error = self._error
        if error is not None:
            raise StoreUnavailable(error)

    def _recent_failure(self) -> str | None:
        # A commit after it shows that the store takes writes again.
        failed_at = self.engine.last_failure_at
        if (
            failed_at > self.engine.last_commit_at
            and trio.current_time() < failed_at + FAILURE_TTL_S
        ):
            return "the last commit failed"
        return None

    async def _find_error(self) -> str | None:
        """Return why the store cannot be used now. While commits succeed, a store that is too busy
        to answer can be used."""
        try:
            await self.store.check()  # First, as it answers soon when the store is gone.
            return await self.find_key_fault()
        except (StoreUnavailable, OutcomeUnknown, StoreCorrupt, StoreUnusable) as error:
            is_committing = trio.current_time() < self.engine.last_commit_at + READINESS_TTL_S
            if is_committing:
                return None
            return str(error)


@define(eq=False)
class MerchantApi:
    """Handles the requests that need the API key of a brand."""

    settings: ApiSettings
    terms: Terms
    body_limit: int
    """Bytes of a creation request's body (G7)."""
    store: Store
    create: Callable[[CreatePayment, Sender], Awaitable[Reply]]
    """Returns the reply to a creation once it is durable; raises what `Engine.submit` does."""
    authenticator: Authenticator
    request_rates: RequestRates
    references: ReferenceGenerator
    page_tokens: PageTokenGenerator
    clock: GatewayClock
    served_windows: ServedWindows
    note_refusal: Callable[[CreatePayment, Problem], None]
    """Takes each creation that the payment rules have refused."""
    is_restored: Callable[[str], bool]
    """Tells whether payments of this brand may be missing, as the store was restored from a
    backup."""
    method_states: MethodStates
    simulated_providers: frozenset[str] = frozenset()
    """Those by whose accounts no money moves."""
    records_limit: RecordsLimit = Factory(RecordsLimit)
    payees: PayeeQuestions | None = None
    payees_per_minute: int = 0
    """How often a brand may ask about a payee; needs `payees`."""

    async def admit(
        self, route: ApiRoute, head: RequestHead, context: RequestContext
    ) -> HttpResponse | Problem | Admitted:
        """Return the response, or admit a creation request's body, in the order of C9.

        Raises one of PROBLEM_ERRORS."""
        now = self.clock.monotonic()

        # In true time: a sandbox's advance makes no client impatient.
        sender = Sender(earlier(now, self.clock.offset), context.has_left)
        owner = await self._find_key_owner(head, context, now)
        match requests.check_head(
            head, route, None if owner is None else owner.brand, self.settings
        ):
            case CreationHead() as creation:
                assert owner is not None, "the head of a request without a key's owner is rejected"
                # A restored store may lack the payment that this request repeats: it could be paid
                # twice.
                if self.is_restored(owner.brand.id):
                    return RESTORED
                return Admitted(
                    self.body_limit, partial(self._create, creation, owner.api_key_id, sender)
                )
            case LookUp() | LookUpByMerchantReference() as query:
                found = await self.store.look_up(query)
                # A 404 would say that no payment was made, which a restored store cannot know (L1,
                # L2).
                if found is None and self.is_restored(query.brand):
                    return RESTORED
                return look_up_response(found)
            case RecordsRequest() as request:
                async with self.records_limit.turn(request.query.brand):
                    # Before the read: what is created afterwards is dated behind the window (R7).
                    await self.served_windows.mark(request.query.end)
                    records = await self.store.list_records(request.query)
                    return page_response(records, request, self.settings)
            case MethodsRequest(brand):
                return methods_response(
                    brand,
                    find_state=partial(self._find_state, brand.id),
                    find_decimals=self.method_states.decimals_of,
                )
            case PayeeQuestion() as question:
                return await self._ask_about_payee(question)
            case ReversalsRequest() as reversals:
                async with self.records_limit.turn(reversals.query.brand):
                    found_page = await self.store.list_reversed_payments(reversals.query)
                    return page_response(found_page, reversals, self.settings)
            case other:
                assert_never(other)

    async def _ask_about_payee(self, question: PayeeQuestion) -> HttpResponse:
        method = question.method
        # 1. Whether the operator tells it at all; 2. the brand's rate; 3. the operator.
        if self.payees is None or not self.payees.can_ask(method.provider):
            raise ProblemError(_tells_no_names(method))
        await self.request_rates.check_payees(question.brand, self.payees_per_minute)
        report = await self.payees.ask(method.provider, question.msisdn, question.name)
        return payee_response(method, question.msisdn, report)

    def _find_state(self, brand: str, method: Method, operation: Operation) -> OperationState:
        if self.is_restored(brand):
            return OperationState.CLOSED
        return self.method_states.state_of(method, operation)

    async def _find_key_owner(
        self, head: RequestHead, context: RequestContext, now: MonotonicInstant
    ) -> KeyOwner | None:
        """Return the owner of the request's key, as `Authenticator.find_owner`. Also raises
        ProblemError when the brand sends too many requests."""
        # A client that repeats itself skips key, digest and host.
        known = self.authenticator.known_senders.find(head.headers, context.client, now)
        owner = known or await self.authenticator.find_owner(head, context)
        if owner is None:
            return None

        context.brand = owner.brand.id

        # A disabled brand is refused anyway, and its rate is nobody's concern.
        if owner.brand.enabled and owner.brand.limits.requests_per_second is not None:
            await self.request_rates.check(owner.brand)

        return owner

    async def _create(
        self, creation: CreationHead, api_key_id: str, sender: Sender, body: bytes
    ) -> HttpResponse | Problem:
        try:
            input_ = requests.parse_creation(
                creation,
                body,
                self.settings,
                gateway_reference=self.references.next(),
                page_token=self.page_tokens.next(),
                terms=self.terms,
                api_key_id=api_key_id,
                simulated_providers=self.simulated_providers,
            )
            reply = await self.create(input_, sender)
            if isinstance(reply, Rejected):
                self.note_refusal(input_, reply.problem)

            return creation_response(reply, self.settings)
        except PROBLEM_ERRORS as error:
            return problem_of_error(error)


@define(eq=False)
class ServedWindows:
    """Records up to when windows of records have been served, before they are: then no later
    process creates a payment in one of them, even if its machine's clock has stepped back meanwhile
    (R7)."""

    clock: GatewayClock
    save: Callable[[ClockRecord], Awaitable[None]] | None
    """Saves the clocks for the process after this one; None where the store itself records how far
    its records are complete, as one that several processes share must."""
    _saved_until: Instant = Instant(0)
    _lock: trio.Lock = Factory(trio.Lock)
    """Held while the clocks are saved: who waits for it mostly finds that done which it needs."""

    async def mark(self, end: Instant) -> None:
        """Let nothing be created below this wall time any more, by this process or a later one. A
        window that ends in the future promises nothing. Raises StoreUnavailable when that cannot be
        saved."""
        # This process at once, by its own clock.
        self.clock.mark_served(end)
        if self.save is None or self.clock.served_until <= self._saved_until:
            return

        # Later ones by the store, and only where it is further than what was saved.
        async with self._lock:
            record = self.clock.record()
            if record.served_until > self._saved_until:
                try:
                    await self.save(record)
                except OutcomeUnknown as error:
                    raise StoreUnavailable(
                        "it is not known how far records are complete"
                    ) from error
                self._saved_until = record.served_until


def _tells_no_names(method: Method) -> Problem:
    fault = FieldError(
        "method", "'method' must be one whose operator tells it: don't ask by this one."
    )
    detail = f"{method.provider_title} doesn't tell the gateway whose account is behind a number."
    return problems.UNSUPPORTED_METHOD.problem(detail, fault)


def problem_of_error(error: ProblemError | StoreUnavailable | OutcomeUnknown) -> Problem:
    """Return the problem that a merchant receives for this error (P5)."""
    match error:
        case ProblemError():
            return error.problem
        case StoreUnavailable():
            return STORE_UNAVAILABLE
        case OutcomeUnknown():
            return OUTCOME_UNKNOWN
        case _:
            assert_never(error)


def _health_response(status: str) -> HttpResponse:
    body = json.dumps({"status": status}).encode()
    return HttpResponse(200, ((b"content-type", b"application/json"),), body)

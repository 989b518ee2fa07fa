"""Receives providers' notifications at `POST|PUT /hooks/{provider}/{token}`, and answers once they
are durable.

While the store is slow or away the answer is 503, and the operator repeats. M-Pesa was seen to send
a callback once, whatever the answer: one of such an operator that only causes a question is kept in
a file until it can be recorded, and answered, as long as there is room.

A sender without an account's token learns nothing, not even that there is such an account. The
account's adapter and the payment rules judge a notification; the suspense book takes one that fits
no payment."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog
import trio
from attrs import define, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse, RequestHead, unpack_body
from mmo_sansio.messages.inputs import Input, ProviderHinted
from mmo_sansio.messages.replies import Reply
from mmo_sansio.messages.reversals import ReversalFailed
from mmo_sansio.providers.common import interface
from mmo_sansio.providers.common.balances import BalanceReport
from mmo_sansio.providers.common.deposits import answer_input, claimed_deposit
from mmo_sansio.values import problems
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.problems import ProblemError
from mmo_trio.api.forwarded import TrustedProxies, is_in_networks
from mmo_trio.engine.engine import Enqueue, Submit
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.ids import ReferenceGenerator
from mmo_trio.workers.providers.account import WebhookEndpoint
from mmo_trio.workers.providers.deposits import deposit_inputs, deposit_owner, payment_named_by
from mmo_trio.workers.providers.payer_urls import without_refused_url

logger = structlog.get_logger(__name__)

# Seconds that a store may take to record a hint, before that is kept in memory: operators wait for
# an answer for some seconds.
ANSWER_WITHIN_S: Final = 3.0


async def _keep_nothing(_: ProviderHinted) -> bool:
    return False


@define(eq=False)
class Webhooks:
    """Handles the notifications for every account with a webhook, by the account's name in the
    URL."""

    endpoints: Mapping[str, WebhookEndpoint]
    store: Store
    submit: Submit
    learn: Callable[[interface.AccountFinding], Awaitable[None]]
    """Keeps what a notification says about our account."""
    learn_balances: Callable[[BalanceReport], Awaitable[None]]
    """Keeps what a notification says about our balances."""
    references: ReferenceGenerator
    moment: Callable[[], Moment]
    body_limit: int
    trusted_proxies: TrustedProxies = TrustedProxies()
    enqueue: Enqueue = field(kw_only=True)
    """Queues a hint: the wait for its reply can end before the store has it, which that for an
    input that is decided in its caller's task cannot."""
    keep: Callable[[ProviderHinted], Awaitable[bool]] = _keep_nothing
    """Keeps a hint of an operator that does not repeat it, until it is recorded; False: there is no
    room."""
    note_reversal: Callable[[ReversalFailed, Reply], None] = lambda *_: None
    """Called with each failed reversal that is reported, and what was decided about it."""
    observe: Callable[[str, HttpRequest, HttpResponse], None] = lambda *_: None
    """Called with the name of the account, and with each notification and its response."""

    def admit(self, name: str, token: str, head: RequestHead, context: RequestContext) -> Admitted:
        """Admit the body. Raises ProblemError with 404 for an unknown sender."""
        # Both faults look the same, so that nobody finds out which accounts there are.
        endpoint = self.endpoints.get(name)
        if endpoint is None or not _is_known(token, endpoint.tokens):
            raise ProblemError(problems.NOT_FOUND.problem("No provider notifies here."))

        networks, proxies = endpoint.allowed_networks, self.trusted_proxies
        if networks and not is_in_networks(proxies.named_client(head, context), networks):
            logger.warning("notification_address_rejected", provider=endpoint.provider.name)
            raise ProblemError(problems.NOT_FOUND.problem("No provider notifies here."))

        async def respond(body: bytes) -> HttpResponse:
            # It may come packed, though nobody has asked for that.
            unpacked = unpack_body(head.headers, body, bytes_max=self.body_limit)
            request = HttpRequest(head.method, head.target, head.headers, unpacked)
            response = await self.handle_notification(endpoint, request)
            self.observe(endpoint.provider.name, request, response)
            return response

        return Admitted(self.body_limit, respond)

    async def handle_notification(
        self, endpoint: WebhookEndpoint, request: HttpRequest
    ) -> HttpResponse:
        """Make the notification durable, then answer; one that is not the provider's own leaves a
        line in the log only. The provider repeats one that could not be stored."""
        # 1. Is it the operator's own, where it signs?
        provider = endpoint.provider
        if endpoint.guard is not None:
            fault = endpoint.guard.refuse_notification(request, now=self.moment())
            if fault is not None:
                logger.warning(
                    "notification_refused", provider=provider.name, reason=fault, once_a_second=True
                )
                return HttpResponse(401)

        # 2. What does it say, of a payment and of our account?
        notification = provider.read_notification(request)
        finding = None
        if endpoint.finder is not None:
            finding = endpoint.finder.read_finding(request)

        # 3. All of it is durable before the answer: the operator forgets what was answered 200.
        try:
            if finding is not None:
                await self.learn(finding)

            if isinstance(notification, BalanceReport):
                await self.learn_balances(notification)

            # A question before the payer is charged: nothing is stored, and the answer decides.
            if isinstance(notification, interface.DepositValidation):
                is_acceptable = await self._would_accept_deposit(provider, notification.deposit)
                return provider.answer_notification(request, is_acceptable)

            for input_ in await self._inputs_for(provider, notification):
                await self._record(provider, input_)
        except (StoreUnavailable, OutcomeUnknown) as error:
            logger.warning(
                "notification_store_failed",
                provider=provider.name,
                error=str(error),
                once_a_second=True,
            )
            return HttpResponse(503, ((b"retry-after", b"5"),))

        return provider.answer_notification(request, True)

    async def _record(self, provider: interface.Provider, input_: Input) -> None:
        """Make an input durable, or keep it where it is a hint that its operator does not repeat,
        and the store does not serve. Raises StoreUnavailable where there is no room, and what the
        store raises."""
        if not isinstance(input_, ProviderHinted):
            # Only a hint may wait outside of the store: all else is answered once it is durable.
            reply = await self.submit(input_)
            if isinstance(input_, ReversalFailed):
                self.note_reversal(input_, reply)

            return

        # A hint only makes the gateway ask, so it may wait in a file.
        fault: StoreUnavailable | OutcomeUnknown = StoreUnavailable("It has not answered in time.")
        with trio.move_on_after(ANSWER_WITHIN_S):
            try:
                await self.enqueue(input_).reply()
                return
            except (StoreUnavailable, OutcomeUnknown) as error:
                fault = error

        is_sent_once = (
            isinstance(provider, interface.NotifiesOnce) and provider.sends_notifications_once
        )
        if not is_sent_once or not await self.keep(input_):
            raise fault

        logger.warning("notification_kept", provider=input_.provider, once_a_second=True)

    async def _inputs_for(
        self, provider: interface.Provider, notification: interface.ProviderNotification
    ) -> Sequence[Input]:
        match notification:
            case interface.AccountFinding() | BalanceReport() | interface.DepositValidation():
                return ()
            case interface.DepositReport():
                return await deposit_inputs(
                    self.store, provider, notification, self.references.next()
                )
            case interface.DepositAnswer():
                claim = await self.store.deposit_claim(provider.name, notification.receipt)

                # A claim on a payment has its owner; any other one belongs to a brand.
                owner = None
                if claim is not None and claim.payment is None:
                    owner = await deposit_owner(self.store, claimed_deposit(claim))
                return (answer_input(notification, claim, owner),)
            case _:
                return (without_refused_url(notification, provider),)

    async def _would_accept_deposit(
        self, provider: interface.Provider, deposit: interface.DepositReport
    ) -> bool:
        """Return whether a deposit would find its owner: a payment that waits for this amount, or a
        brand."""
        # The payment that the payer has named, else the brand that the account belongs to.
        payment = await payment_named_by(self.store, provider, deposit)
        if payment is not None:
            return (
                not payment.progress.stage.is_terminal and payment.order.requested == deposit.amount
            )
        return await deposit_owner(self.store, deposit) is not None


def _is_known(token: str, tokens: Sequence[str]) -> bool:
    """Return whether it is one of the tokens, in a time that reveals none of them."""
    return sum(hmac.compare_digest(known.encode(), token.encode()) for known in tokens) > 0

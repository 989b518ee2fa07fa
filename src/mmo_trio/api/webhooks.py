"""The door for providers' notifications: `POST|PUT /hooks/{provider}/{token}`, answered once it is durable.

Whoever doesn't know an account's token learns nothing, not even that there is such an account. What a notification
says is judged by the account's adapter and by the law; what fits nothing is kept in the suspense book.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping, Sequence

import structlog
from attrs import define

from mmo_sansio.http.ip_rules import unmapped
from mmo_sansio.http.messages import HttpRequest, HttpResponse, RequestHead
from mmo_sansio.messages.inputs import Input, ProviderHinted, ProviderReport, UnmatchedNotified
from mmo_sansio.providers.common.deposits import (
    Owner,
    deposit_input,
    may_be_an_ending,
    owner_of,
    payment_input,
)
from mmo_sansio.providers.common.interface import DepositAsked, DepositTold, Provider
from mmo_sansio.values import problems
from mmo_sansio.values.model import Transaction
from mmo_sansio.values.problems import RefusedError
from mmo_trio.engine.engine import Submit
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.settings.values import Network
from mmo_trio.storage.interface.store import OutcomeUnknown, Store, StoreUnavailable
from mmo_trio.system.ids import References
from mmo_trio.workers.providers.webhook_endpoint import HookDoor

logger = structlog.get_logger(__name__)


@define(eq=False)
class Hooks:
    """Takes notifications for every account that has a door, by the name it has in its address."""

    doors: Mapping[str, HookDoor]
    store: Store
    submit: Submit
    references: References
    body_limit: int
    proxies: Sequence[Network] = ()
    """Proxies in front of us, whose word on the sender is believed (A6)."""

    def admit(self, name: str, token: str, head: RequestHead, context: RequestContext) -> Admitted:
        """Leave to send the body. Raises RefusedError for a stranger."""
        door = self.doors.get(name)
        known = hmac.compare_digest((door.token if door else "").encode(), token.encode())
        if door is None or not known:
            raise RefusedError(problems.NOT_FOUND.problem("No provider notifies here."))
        if door.allowed and not self._comes_from(door.allowed, head, context):
            logger.warning("notification from a strange address", provider=door.provider.name)
            raise RefusedError(problems.NOT_FOUND.problem("No provider notifies here."))

        async def respond(body: bytes) -> HttpResponse:
            return await self.take(
                door.provider, HttpRequest(head.method, head.target, head.headers, body)
            )

        return Admitted(self.body_limit, respond)

    async def take(self, provider: Provider, request: HttpRequest) -> HttpResponse:
        """Make durable what the notification says, then answer; what could not be stored is to be sent again."""
        told = provider.read_notification(request)
        try:
            if isinstance(told, DepositAsked):
                is_welcome = await self._is_welcome(provider, told.deposit)
                return provider.answer_notification(request, is_welcome)
            await self.submit(await self._input(provider, told))
        except (StoreUnavailable, OutcomeUnknown) as error:
            logger.warning("notification not stored", provider=provider.name, error=str(error))
            return HttpResponse(503, ((b"retry-after", b"5"),))
        return provider.answer_notification(request, True)

    async def _input(
        self,
        provider: Provider,
        told: ProviderReport | ProviderHinted | UnmatchedNotified | DepositTold,
    ) -> Input:
        if not isinstance(told, DepositTold):
            return told
        was = await self._named(provider, told)
        if was is not None:
            return payment_input(told, was, provider.operations)
        return deposit_input(
            told,
            await self._owner(told),
            provider_title=provider.title,
            gateway_reference=self.references.next(),
        )

    async def _is_welcome(self, provider: Provider, asked: DepositTold) -> bool:
        """Whether a deposit would find its owner: a payment of ours that waits for as much, or a brand."""
        was = await self._named(provider, asked)
        if was is not None:
            return not was.progress.stage.is_terminal and was.order.requested == asked.amount
        return await self._owner(asked) is not None

    async def _named(self, provider: Provider, told: DepositTold) -> Transaction | None:
        """The payment with this provider that the deposit names, if there is one."""
        if not may_be_an_ending(told):
            return None
        was = await self.store.transaction_by_ending(told.bill_reference.upper())
        return was if was is not None and was.order.provider == provider.name else None

    async def _owner(self, told: DepositTold) -> Owner | None:
        return owner_of(told, [each.brand for each in await self.store.brands()])

    def _comes_from(
        self, allowed: Sequence[Network], head: RequestHead, context: RequestContext
    ) -> bool:
        """Whether the sender's address is allowed; behind a trusted proxy, the last one that it names."""
        try:
            sender = unmapped(ipaddress.ip_address(context.client))
            if any(sender in each for each in self.proxies):
                named = (head.value(b"x-forwarded-for") or b"").decode("latin-1")
                sender = unmapped(ipaddress.ip_address(named.rpartition(",")[2].strip()))
        except ValueError:
            return False
        return any(sender in each for each in allowed)

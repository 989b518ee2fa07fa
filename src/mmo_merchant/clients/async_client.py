"""Calls the merchant API with httpx on Trio, and on asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from types import TracebackType
from typing import TypeVar

import anyio
import httpx

from mmo_merchant.api.extension_objects import (
    BrandMethods,
    PayeeObject,
    ReversalsPage,
    ReversedPayment,
)
from mmo_merchant.api.gateway_requests import (
    Answer,
    ApiAccess,
    NoAnswer,
    RecordsWindow,
    StartedPayment,
    TransactionPage,
    creation_request,
    look_up_request,
    methods_request,
    page_request,
    payee_request,
    read_found,
    read_methods,
    read_page,
    read_payee,
    read_reversals,
    read_started,
    records_request,
    reference_look_up_request,
    reversals_page_request,
    reversals_request,
)
from mmo_merchant.api.idempotent_creation import Exchange, create_or_get
from mmo_merchant.api.new_payments import NewPayment
from mmo_merchant.api.transaction_objects import TransactionObject
from mmo_merchant.clients.blocking_client import TIMEOUT_S, from_httpx, no_answer, to_httpx
from mmo_sansio.http.messages import HttpRequest

T = TypeVar("T")


class AsyncMerchantClient:
    """Calls the merchant API of one gateway for one brand, on Trio or asyncio; tasks may share it.

    Calls and errors are those of :class:`mmo_merchant.MerchantClient`.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        allow_clear: bool = False,
        http: httpx.AsyncClient | None = None,
        timeout_s: float = TIMEOUT_S,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """Prepare calls to the gateway at this scheme and host. `http` is a client of the caller's
        own, which the caller closes; a request and its answer may take `timeout_s` in all.

        Raises ValueError as :class:`mmo_merchant.MerchantClient` does."""
        self.access = ApiAccess(base_url, api_key, allow_clear)
        # Without TLS a proxy of the environment would read the key.
        self._http = http or httpx.AsyncClient(timeout=timeout_s, trust_env=self.access.uses_tls)
        self._owns_http = http is None
        self._timeout_s = timeout_s
        self._sleep = sleep

    async def __aenter__(self) -> AsyncMerchantClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, unless the caller has brought them."""
        if self._owns_http:
            await self._http.aclose()

    async def create_or_get(
        self, payment: NewPayment, *, is_first_attempt: bool = False
    ) -> StartedPayment:
        """Return the payment under this reference, which is created unless it exists: call it again
        after any failure, also after a restart. See :func:`mmo_merchant.create_or_get`."""
        return await self._drive(
            create_or_get(self.access, payment, is_first_attempt=is_first_attempt)
        )

    async def create(self, payment: NewPayment) -> StartedPayment:
        """Send the payment once. After GatewayUnavailable it may have been created: `create_or_get`
        finds out."""
        return read_started(await self.send(creation_request(self.access, payment)))

    async def look_up(self, gateway_reference: str) -> TransactionObject:
        """Return the payment with this gatewayReference. Raises TransactionNotFound."""
        return read_found(await self.send(look_up_request(self.access, gateway_reference)))

    async def look_up_by_reference(self, merchant_reference: str) -> TransactionObject:
        """Return the newest payment with this merchantReference. Raises TransactionNotFound."""
        return read_found(
            await self.send(reference_look_up_request(self.access, merchant_reference))
        )

    async def records_page(self, window: RecordsWindow) -> TransactionPage:
        """Return the first page of a window's records."""
        return read_page(await self.send(records_request(self.access, window)))

    async def page(self, cursor: str) -> TransactionPage:
        """Return the page of records that a cursor names."""
        return read_page(await self.send(page_request(self.access, cursor)))

    async def records(self, window: RecordsWindow) -> AsyncIterator[TransactionObject]:
        """Yield the transactions of a window in the order of their creation, page by page."""
        page = await self.records_page(window)
        while True:
            for transaction in page.transactions:
                yield transaction
            if page.next is None:
                return
            page = await self.page(page.next)

    async def methods(self) -> BrandMethods:
        """Return the methods of the brand, with their limits, and whether they are open now. Raises
        ApiRejection with status 404 where the gateway doesn't tell."""
        return read_methods(await self.send(methods_request(self.access)))

    async def payee(self, method: str, msisdn: str, *, name: str = "") -> PayeeObject:
        """Return whose account is behind a number to which the brand may pay, as far as the
        operator tells it; `name` is what you believe, for operators that only compare. Raises
        ApiRejection with status 404 where the gateway doesn't tell, and with the cause
        `config_unsupported_payment_method` where the method's operator doesn't; GatewayUnavailable
        with a problem of status 429 where you ask too often."""
        return read_payee(await self.send(payee_request(self.access, method, msisdn, name)))

    async def reversals_page(self, begin: datetime, end: datetime) -> ReversalsPage:
        """Return the first page of the payments with reversals that changed last in this time: one
        was asked for, or ended. Raises as `methods` does."""
        return read_reversals(await self.send(reversals_request(self.access, begin, end)))

    async def reversals(self, begin: datetime, end: datetime) -> AsyncIterator[ReversedPayment]:
        """Yield these payments in the order of their last change, page by page. One that changes
        meanwhile may come again."""
        page = await self.reversals_page(begin, end)
        while True:
            for payment in page.payments:
                yield payment
            if page.next is None:
                return
            page = read_reversals(await self.send(reversals_page_request(self.access, page.next)))

    async def send(self, request: HttpRequest) -> Answer:
        """Send a request and return its answer. Redirects are not followed."""
        try:
            # One limit for the whole exchange; that of httpx counts for each wait, and a trickle
            # never ends it.
            with anyio.fail_after(self._timeout_s):
                response = await self._http.send(
                    to_httpx(self._http, request), follow_redirects=False
                )
        except httpx.HTTPError as error:
            return no_answer(error)
        except TimeoutError:
            return NoAnswer(f"nothing came within {self._timeout_s:g} s")

        return from_httpx(response)

    async def _drive(self, exchange: Exchange[T]) -> T:
        ask = next(exchange)
        while True:
            if ask.pause_s:
                await self._sleep(ask.pause_s)
            answer = await self.send(ask.request)
            try:
                ask = exchange.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result

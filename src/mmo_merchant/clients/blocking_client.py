"""Calls the merchant API with httpx and blocks: for web applications with threads, scripts and
scheduled jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from types import TracebackType
from typing import Final, TypeVar

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
from mmo_sansio.http.messages import HttpRequest, HttpResponse

# Seconds for each of connecting, sending and waiting for data; the gateway answers or gives up
# within 10.
TIMEOUT_S: Final = 30.0

T = TypeVar("T")


class MerchantClient:
    """Calls the merchant API of one gateway for one brand; several threads may share it.

    Errors of every call: ApiRejection (with its kinds KeyRejected, TransactionNotFound and
    ReferenceUsed) and GatewayUnavailable."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        allow_clear: bool = False,
        http: httpx.Client | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Prepare calls to the gateway at this scheme and host. `http` is a client of the caller's
        own, with its proxies, certificates and time limits, which the caller closes.

        Raises ValueError for an address with more than scheme and host, and for a clear one
        (`http://`) of anything but loopback, which would give the key away, unless `allow_clear`.
        To a clear one no proxy of the environment is used."""
        self.access = ApiAccess(base_url, api_key, allow_clear)
        # Without TLS a proxy of the environment would read the key.
        self._http = http or httpx.Client(timeout=TIMEOUT_S, trust_env=self.access.uses_tls)
        # Who brought a client may use it elsewhere: it is not ours to close.
        self._owns_http = http is None
        self._sleep = sleep

    def __enter__(self) -> MerchantClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, unless the caller has brought them."""
        if self._owns_http:
            self._http.close()

    def create_or_get(
        self, payment: NewPayment, *, is_first_attempt: bool = False
    ) -> StartedPayment:
        """Return the payment under this reference, which is created unless it exists: call it again
        after any failure, also after a restart. See :func:`mmo_merchant.create_or_get`."""
        return self._drive(create_or_get(self.access, payment, is_first_attempt=is_first_attempt))

    def create(self, payment: NewPayment) -> StartedPayment:
        """Send the payment once. After GatewayUnavailable it may have been created: `create_or_get`
        finds out."""
        return read_started(self.send(creation_request(self.access, payment)))

    def look_up(self, gateway_reference: str) -> TransactionObject:
        """Return the payment with this gatewayReference. Raises TransactionNotFound."""
        return read_found(self.send(look_up_request(self.access, gateway_reference)))

    def look_up_by_reference(self, merchant_reference: str) -> TransactionObject:
        """Return the newest payment with this merchantReference. Raises TransactionNotFound."""
        return read_found(self.send(reference_look_up_request(self.access, merchant_reference)))

    def records_page(self, window: RecordsWindow) -> TransactionPage:
        """Return the first page of a window's records."""
        return read_page(self.send(records_request(self.access, window)))

    def page(self, cursor: str) -> TransactionPage:
        """Return the page of records that a cursor names."""
        return read_page(self.send(page_request(self.access, cursor)))

    def records(self, window: RecordsWindow) -> Iterator[TransactionObject]:
        """Yield the transactions of a window in the order of their creation, page by page."""
        page = self.records_page(window)
        yield from page.transactions
        while page.next is not None:
            page = self.page(page.next)
            yield from page.transactions

    def methods(self) -> BrandMethods:
        """Return the methods of the brand, with their limits, and whether they are open now. Raises
        ApiRejection with status 404 where the gateway doesn't tell."""
        return read_methods(self.send(methods_request(self.access)))

    def payee(self, method: str, msisdn: str, *, name: str = "") -> PayeeObject:
        """Return whose account is behind a number to which the brand may pay, as far as the
        operator tells it; `name` is what you believe, for operators that only compare. Raises
        ApiRejection with status 404 where the gateway doesn't tell, and with the cause
        `config_unsupported_payment_method` where the method's operator doesn't; GatewayUnavailable
        with a problem of status 429 where you ask too often."""
        return read_payee(self.send(payee_request(self.access, method, msisdn, name)))

    def reversals_page(self, begin: datetime, end: datetime) -> ReversalsPage:
        """Return the first page of the payments with reversals that changed last in this time: one
        was asked for, or ended. Raises as `methods` does."""
        return read_reversals(self.send(reversals_request(self.access, begin, end)))

    def reversals(self, begin: datetime, end: datetime) -> Iterator[ReversedPayment]:
        """Yield these payments in the order of their last change, page by page. One that changes
        meanwhile may come again."""
        page = self.reversals_page(begin, end)
        yield from page.payments
        while page.next is not None:
            page = read_reversals(self.send(reversals_page_request(self.access, page.next)))
            yield from page.payments

    def send(self, request: HttpRequest) -> Answer:
        """Send a request and return its answer. Redirects are not followed."""
        try:
            # A redirect would carry the key to another host.
            response = self._http.send(to_httpx(self._http, request), follow_redirects=False)
        except httpx.HTTPError as error:
            return no_answer(error)
        return from_httpx(response)

    def _drive(self, exchange: Exchange[T]) -> T:
        # The first request comes before any answer; a generator's result comes with its
        # StopIteration.
        ask = next(exchange)
        while True:
            if ask.pause_s:
                self._sleep(ask.pause_s)
            answer = self.send(ask.request)
            try:
                ask = exchange.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result


def to_httpx(http: httpx.Client | httpx.AsyncClient, request: HttpRequest) -> httpx.Request:
    """Return the request as httpx sends it."""
    return http.build_request(
        request.method,
        request.target.decode("ascii"),
        headers=list(request.headers),
        content=request.body or None,
    )


def from_httpx(response: httpx.Response) -> HttpResponse:
    """Return a response that was read by httpx."""
    headers = tuple((name.lower(), value) for name, value in response.headers.raw)
    return HttpResponse(response.status_code, headers, response.content)


def no_answer(error: httpx.HTTPError) -> NoAnswer:
    """Return that there was no answer, and why."""
    # Some errors of httpx have no text of their own.
    return NoAnswer(f"{type(error).__name__}: {error}".rstrip(": "))

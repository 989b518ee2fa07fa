"""The merchant API behind a door: who asks, what for, and the answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Final, assert_never

from attrs import define

from mmo_sansio.api.incoming import query_string, requests
from mmo_sansio.api.incoming.routes import (
    ApiRoute,
    Create,
    Health,
    Hook,
    ListRecordsRoute,
    Ready,
    StatusByMerchantReference,
    StatusByReference,
    route,
    route_name,
)
from mmo_sansio.api.outgoing import responses
from mmo_sansio.api.settings import ApiSettings
from mmo_sansio.http.messages import HttpRequest, HttpResponse, RequestHead
from mmo_sansio.http.request_head import origin_form
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.values import problems
from mmo_sansio.values.model import Brand, Terms
from mmo_sansio.values.problems import Problem, RefusedError
from mmo_trio.api.authentication import Authenticator
from mmo_trio.api.brand_hosts import Hosts
from mmo_trio.api.webhooks import Hooks
from mmo_trio.engine.engine import Submit
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.storage.interface.store import OutcomeUnknown, Store, StoreUnavailable
from mmo_trio.system.ids import References, page_token

REFUSALS: Final = (RefusedError, StoreUnavailable, OutcomeUnknown)
"""What a merchant is told in a problem document; everything else is a fault of ours."""

UNAVAILABLE = problems.UNAVAILABLE.problem(
    "Nothing was stored. Send the same request again, with the same reference."
)
OUTCOME_UNKNOWN = problems.INTERNAL.problem(
    "It is not known whether the payment was taken. Look it up by its merchantReference before sending it again."
)


@define(eq=False)
class MerchantApi:
    """Answers the requests of merchants; serve it behind any door (:mod:`mmo_trio.http.handler`)."""

    settings: ApiSettings
    terms: Terms
    body_limit: int
    """Bytes of a creation request's body (G7)."""
    store: Store
    submit: Submit
    authenticator: Authenticator
    hosts: Hosts
    references: References
    hooks: Hooks

    async def admit(
        self, head: RequestHead, context: RequestContext, /
    ) -> HttpResponse | Problem | Admitted:
        """The answer, or leave to send a creation request's body, after all that can be said without it (C9)."""
        try:
            return await self._admit(head, context)
        except REFUSALS as error:
            return _refusal(error)

    async def _admit(
        self, head: RequestHead, context: RequestContext
    ) -> HttpResponse | Problem | Admitted:
        found = route(_origin(head))
        context.route = route_name(found)
        match found:
            case Health():
                return _alive(b"alive")
            case Ready():
                await self.store.check()
                return _alive(b"ready")
            case Hook(provider, token):
                return self.hooks.admit(provider, token, head, context)
            case asked:
                brand = await self._brand(head, context)
                return await self._asked(asked, head, brand)

    async def _brand(self, head: RequestHead, context: RequestContext) -> Brand:
        """Who asks. Raises RefusedError for a wrong key, a key on another brand's host, and a disabled brand."""
        brand = await self.authenticator.brand_for(requests.presented_key(head))
        if brand is None or not await self.hosts.is_open_to(brand.id, head, context):
            raise RefusedError(requests.unauthorized())
        context.brand = brand.id
        requests.check_enabled(brand)
        return brand

    async def _asked(
        self, asked: ApiRoute, head: RequestHead, brand: Brand
    ) -> HttpResponse | Problem | Admitted:
        match asked:
            case Create():
                requests.check_content(head)
                return Admitted(self.body_limit, self._creating(asked, head, brand))
            case StatusByReference(reference):
                query = query_string.look_up(brand.id, reference)
                return responses.look_up_response(await self.store.look_up(query))
            case StatusByMerchantReference(reference):
                by_merchant = query_string.look_up_by_merchant_reference(brand.id, reference)
                return responses.look_up_response(await self.store.look_up(by_merchant))
            case ListRecordsRoute(text):
                call = query_string.records_call(
                    brand.id, text, cursor_key=self.settings.cursor_key
                )
                records = await self.store.list_records(call.query)
                return responses.records_response(records, call, self.settings)
            case _:
                assert_never(asked)

    def _creating(
        self, asked: Create, head: RequestHead, brand: Brand
    ) -> Callable[[bytes], Awaitable[HttpResponse | Problem]]:
        async def respond(body: bytes) -> HttpResponse | Problem:
            try:
                given = self._creation(asked, head, brand, body)
                return responses.creation_response(await self.submit(given), self.settings)
            except REFUSALS as error:
                return _refusal(error)

        return respond

    def _creation(
        self, asked: Create, head: RequestHead, brand: Brand, body: bytes
    ) -> CreatePayment:
        return requests.creation(
            HttpRequest(head.method, head.target, head.headers, body),
            asked,
            self.settings,
            brand=brand,
            gateway_reference=self.references.next(),
            page_token=page_token(),
            terms=self.terms,
        )


def _refusal(error: RefusedError | StoreUnavailable | OutcomeUnknown) -> Problem:
    """The problem that stands in for an answer (P5)."""
    match error:
        case RefusedError():
            return error.problem
        case StoreUnavailable():
            return UNAVAILABLE
        case OutcomeUnknown():
            return OUTCOME_UNKNOWN
        case _:
            assert_never(error)


def _origin(head: RequestHead) -> RequestHead:
    target = origin_form(head.target)
    return head if target is head.target else RequestHead(head.method, target, head.headers)


def _alive(state: bytes) -> HttpResponse:
    body = json.dumps({"status": state.decode()}).encode()
    return HttpResponse(200, ((b"content-type", b"application/json"),), body)

"""The merchant API behind a door: who asks, what for, and the answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Final, assert_never

from attrs import define

from mmo_sansio.api.incoming import query_string, requests
from mmo_sansio.api.incoming.routes import (
    ApiRoute,
    CreateRoute,
    HealthRoute,
    ListRecordsRoute,
    LookUpByMerchantReferenceRoute,
    LookUpRoute,
    ReadinessRoute,
    WebhookRoute,
    find_route,
    route_name,
)
from mmo_sansio.api.outgoing import responses
from mmo_sansio.api.settings import ApiSettings
from mmo_sansio.http.messages import HttpRequest, HttpResponse, RequestHead
from mmo_sansio.http.request_head import to_origin_form
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.values import problems
from mmo_sansio.values.model import Brand, Terms
from mmo_sansio.values.problems import Problem, ProblemError
from mmo_trio.api.authentication import Authenticator
from mmo_trio.api.brand_hosts import BrandHosts
from mmo_trio.api.webhooks import Webhooks
from mmo_trio.engine.engine import Submit
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.storage.interface.store import OutcomeUnknown, Store, StoreUnavailable
from mmo_trio.system.ids import ReferenceGenerator, generate_page_token

PROBLEM_ERRORS: Final = (ProblemError, StoreUnavailable, OutcomeUnknown)
"""What a merchant is told in a problem document; everything else is a fault of ours."""

STORE_UNAVAILABLE = problems.UNAVAILABLE.problem(
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
    brand_hosts: BrandHosts
    references: ReferenceGenerator
    webhooks: Webhooks

    async def admit(
        self, head: RequestHead, context: RequestContext, /
    ) -> HttpResponse | Problem | Admitted:
        """The answer, or leave to send a creation request's body, after all that can be said without it (C9)."""
        try:
            return await self._route(head, context)
        except PROBLEM_ERRORS as error:
            return _to_problem(error)

    async def _route(
        self, head: RequestHead, context: RequestContext
    ) -> HttpResponse | Problem | Admitted:
        found = find_route(_in_origin_form(head))
        context.route = route_name(found)
        match found:
            case HealthRoute():
                return _health_response(b"alive")
            case ReadinessRoute():
                await self.store.check()
                return _health_response(b"ready")
            case WebhookRoute(provider, token):
                return self.webhooks.admit(provider, token, head, context)
            case asked:
                brand = await self._authenticate(head, context)
                return await self._handle(asked, head, brand)

    async def _authenticate(self, head: RequestHead, context: RequestContext) -> Brand:
        """Who asks. Raises RefusedError for a wrong key, a key on another brand's host, and a disabled brand."""
        brand = await self.authenticator.brand_for_key(requests.read_api_key(head))
        if brand is None or not await self.brand_hosts.is_allowed(brand.id, head, context):
            raise ProblemError(requests.unauthorized_problem())
        context.brand = brand.id
        requests.check_enabled(brand)
        return brand

    async def _handle(
        self, matched_route: ApiRoute, head: RequestHead, brand: Brand
    ) -> HttpResponse | Problem | Admitted:
        match matched_route:
            case CreateRoute():
                requests.check_content_type(head)
                return Admitted(
                    self.body_limit, self._creation_responder(matched_route, head, brand)
                )
            case LookUpRoute(reference):
                query = query_string.look_up(brand.id, reference)
                return responses.look_up_response(await self.store.look_up(query))
            case LookUpByMerchantReferenceRoute(reference):
                by_merchant = query_string.look_up_by_merchant_reference(brand.id, reference)
                return responses.look_up_response(await self.store.look_up(by_merchant))
            case ListRecordsRoute(text):
                call = query_string.parse_records_query(
                    brand.id, text, cursor_key=self.settings.cursor_key
                )
                records = await self.store.list_records(call.query)
                return responses.records_response(records, call, self.settings)
            case _:
                assert_never(matched_route)

    def _creation_responder(
        self, matched_route: CreateRoute, head: RequestHead, brand: Brand
    ) -> Callable[[bytes], Awaitable[HttpResponse | Problem]]:
        async def respond(body: bytes) -> HttpResponse | Problem:
            try:
                given = self._creation_input(matched_route, head, brand, body)
                return responses.creation_response(await self.submit(given), self.settings)
            except PROBLEM_ERRORS as error:
                return _to_problem(error)

        return respond

    def _creation_input(
        self, matched_route: CreateRoute, head: RequestHead, brand: Brand, body: bytes
    ) -> CreatePayment:
        return requests.parse_creation(
            HttpRequest(head.method, head.target, head.headers, body),
            matched_route,
            self.settings,
            brand=brand,
            gateway_reference=self.references.next(),
            page_token=generate_page_token(),
            terms=self.terms,
        )


def _to_problem(error: ProblemError | StoreUnavailable | OutcomeUnknown) -> Problem:
    """The problem that stands in for an answer (P5)."""
    match error:
        case ProblemError():
            return error.problem
        case StoreUnavailable():
            return STORE_UNAVAILABLE
        case OutcomeUnknown():
            return OUTCOME_UNKNOWN
        case _:
            assert_never(error)


def _in_origin_form(head: RequestHead) -> RequestHead:
    target = to_origin_form(head.target)
    return head if target is head.target else RequestHead(head.method, target, head.headers)


def _health_response(state: bytes) -> HttpResponse:
    body = json.dumps({"status": state.decode()}).encode()
    return HttpResponse(200, ((b"content-type", b"application/json"),), body)

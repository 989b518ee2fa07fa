"""Handles every request of the API listener: the merchant API, the webhooks and health."""

from __future__ import annotations

import json

from attrs import define

from mmo_sansio.api.incoming.routes import HealthRoute, ReadinessRoute, WebhookRoute, find_route, route_name
from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_sansio.values import problems
from mmo_sansio.values.problems import Problem
from mmo_trio.api.merchant_api import PROBLEM_ERRORS, MerchantApi, problem_of_error
from mmo_trio.api.readiness import Readiness
from mmo_trio.api.webhooks import Webhooks
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.storage.interface.store import StoreUnavailable

NOT_READY = problems.UNAVAILABLE.problem(
    "The store cannot be reached or written to, or the master key is not the store's."
)


@define(eq=False)
class ApiHandler:
    """Routes requests; serve it with any listener (:mod:`mmo_trio.http.handler`)."""

    merchant_api: MerchantApi
    webhooks: Webhooks
    readiness: Readiness

    async def admit(self, head: RequestHead, context: RequestContext, /) -> HttpResponse | Problem | Admitted:
        """Return the response, or admit the body, after every check that needs no body (C9)."""
        try:
            route = find_route(head)
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


def _health_response(status: str) -> HttpResponse:
    body = json.dumps({"status": status}).encode()
    return HttpResponse(200, ((b"content-type", b"application/json"),), body)

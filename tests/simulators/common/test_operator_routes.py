"""The routes of the simulated operators."""

from __future__ import annotations

from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.testing import START
from mmo_simulators.common.faults import AnswerInstead, PlannedFault
from mmo_simulators.common.operator_routes import SimulatedRoute, match_route
from mmo_simulators.operators.airtel import api as airtel
from mmo_simulators.operators.mtn import api as mtn

ROUTES = (
    SimulatedRoute("balance", "GET", "/users/balance", "first"),
    SimulatedRoute("user", "GET", "/users/{msisdn}", "second"),
    SimulatedRoute("ask", "GET", "/v1.0/{product}/payments/{id}", "third"),
)


@pytest.mark.parametrize(
    ("method", "path", "handler", "segments"),
    [
        ("GET", "/users/balance", "first", {}),
        ("GET", "/users/752000000", "second", {"msisdn": "752000000"}),
        ("GET", "/v1.0/collection/payments/GW-1", "third", {"product": "collection", "id": "GW-1"}),
        ("POST", "/users/balance", None, None),
        ("GET", "/users/752000000/more", None, None),
        ("GET", "/users/", None, None),
        ("GET", "/v1x0/collection/payments/GW-1", None, None),
    ],
)
def test_the_first_route_of_method_and_path_is_found(
    method: str, path: str, handler: str | None, segments: dict[str, str] | None
) -> None:
    found = match_route(ROUTES, method, path)
    assert (found and (found[0].handler, found[1])) == (
        None if handler is None else (handler, segments)
    )


@pytest.mark.parametrize("routes", [airtel.ROUTES, mtn.ROUTES], ids=["airtel", "mtn"])
def test_no_two_routes_of_an_operator_are_the_same(routes: tuple[SimulatedRoute[Any], ...]) -> None:
    offered = [(each.method, each.template) for each in routes]
    assert len(set(offered)) == len(offered)


def test_a_path_that_mtn_does_not_offer_is_answered_by_404_unless_a_fault_is_planned() -> None:
    simulator = mtn.MtnSimulator()
    request = HttpRequest("GET", b"/collection/v1_0/nothing", ())
    for asked in (request, HttpRequest("POST", b"/unknown/token/", ())):
        refused = simulator.handle_request(asked, now=START)
        assert isinstance(refused, HttpResponse)
        assert refused.status == 404
    planned = HttpResponse(503)
    simulator.faults.plan([PlannedFault("account", AnswerInstead(planned))])
    assert simulator.handle_request(request, now=START) == planned

"""Answers the requests that control a simulation.

POST /_simulator/faults     {"faults": [{"at": "b2c", "do": "lose_answer", "times": 1}, ...]}
POST /_simulator/accounts   {"accounts": [{...}, ...]}, with the simulator's own members
GET  /_simulator/book       all accounts and payments
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_simulators.common.faults import parse_planned_fault
from mmo_simulators.common.messages import json_response, parse_json_object, path_and_query
from mmo_simulators.common.simulator import Simulator


def handle_control_request(simulator: Simulator, request: HttpRequest) -> HttpResponse | None:
    """Return the response to a request that controls the simulation; None for any other request."""
    path, _ = path_and_query(request)
    try:
        match request.method, path:
            case "GET", "/_simulator/book":
                return json_response(200, simulator.snapshot())
            case "POST", "/_simulator/faults":
                simulator.faults.plan(parse_planned_fault(each) for each in _required_object_list(request, "faults"))
                return json_response(200, {"planned": True})
            case "POST", "/_simulator/accounts":
                simulator.open_accounts(_required_object_list(request, "accounts"))
                return json_response(200, {"opened": True})
            case _:
                return None
    except ValueError as error:
        return json_response(400, {"error": str(error)})


def _required_object_list(request: HttpRequest, name: str) -> list[Mapping[str, Any]]:
    found = parse_json_object(request.body).get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"{name} must be a list of objects")
    return found

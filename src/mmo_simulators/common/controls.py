"""Answers the requests that control a simulation, but not those of a page of another site.

POST /_simulator/faults     {"faults": [{"at": "b2c", "do": "lose_answer", "times": 1}, ...]}
POST /_simulator/accounts   {"accounts": [{...}, ...]}, with the simulator's own members
GET  /_simulator/book       all accounts and payments
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmo_sansio.http.egress_rules import UrlError, parse_url
from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_simulators.common.faults import parse_planned_fault
from mmo_simulators.common.messages import json_response, parse_json_object, path_and_query
from mmo_simulators.common.simulator import Simulator


def handle_control_request(simulator: Simulator, request: HttpRequest) -> HttpResponse | None:
    """Return the response to a request that controls the simulation; None for any other request."""
    path, _ = path_and_query(request)
    # A page that a tester has open must not plan faults, or read the book.
    if path.startswith("/_simulator/") and (refusal := _foreign_refusal(request)) is not None:
        return refusal

    try:
        match request.method, path:
            case "GET", "/_simulator/book":
                return json_response(200, simulator.snapshot())
            case "POST", "/_simulator/faults":
                simulator.faults.plan(
                    parse_planned_fault(fault) for fault in _required_object_list(request, "faults")
                )
                return json_response(200, {"planned": True})
            case "POST", "/_simulator/accounts":
                simulator.open_accounts(_required_object_list(request, "accounts"))
                return json_response(200, {"opened": True})
            case _:
                return None
    except ValueError as error:
        return json_response(400, {"error": str(error)})


def _foreign_refusal(request: HttpRequest) -> HttpResponse | None:
    """Return the response to a request from a page of another site; None for any other request.

    Such a page may let its own name lead here (DNS rebinding), which its requests then name."""
    try:
        target = parse_url(f"http://{(request.value(b'host') or b'').decode('ascii', 'replace')}/")
    except UrlError as error:
        return json_response(400, {"error": f"Host: {error}"})

    # An address can't be rebound to another machine.
    if target.address is None and target.host != "localhost":
        return json_response(
            421, {"error": "Controls are not served under this host: name an address or localhost"}
        )

    # What a browser says of a request (Fetch Metadata); other programs don't send it.
    if request.value(b"sec-fetch-site") not in (None, b"same-origin", b"none"):
        return json_response(403, {"error": "Controls take no requests from pages of other sites"})

    return None


def _required_object_list(request: HttpRequest, name: str) -> list[Mapping[str, Any]]:
    objects = parse_json_object(request.body).get(name)
    if not isinstance(objects, list) or not all(isinstance(item, dict) for item in objects):
        raise ValueError(f"{name} must be a list of objects")
    return objects

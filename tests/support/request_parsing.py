"""Reads requests as the API listener does, from the bytes of the socket to the input or query;
without a socket."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from mmo_sansio.api.incoming import requests
from mmo_sansio.api.incoming.requests import (
    CreationHead,
    HealthRoute,
    ReadinessRoute,
    WebhookRoute,
    find_route,
)
from mmo_sansio.http.request_head import HeadLimits
from mmo_sansio.values.model import Terms
from mmo_sansio.values.problems import ProblemError
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.http.server.connection import RequestReader
from mmo_trio.settings.values import parse_networks
from tests.support.api_requests import BRAND, SETTINGS, TOKEN, ULID
from tests.support.hostile_input import BODY_BYTES

LIMITS = HeadLimits()
PROXIES = TrustedProxies(parse_networks("10.0.0.0/8"))


def parse_request(pieces: Iterable[bytes]) -> object:
    """Return what the bytes ask for: an input, a query or a route; None for a request that is
    rejected or not whole."""
    with suppress(ProblemError):
        return _parse(pieces)
    return None


def _parse(pieces: Iterable[bytes]) -> object:
    reader, parsed, creation = RequestReader(LIMITS), None, None
    for piece in pieces:
        reader.receive(piece)
        if parsed is None:
            parsed = reader.next_head()
            if parsed is None:
                continue
            head = parsed.head
            route = find_route(head)
            PROXIES.requested_host("10.0.0.1", head)
            PROXIES.client_address(
                "10.0.0.1", [each.decode("latin-1") for each in head.values(b"x-forwarded-for")]
            )
            if isinstance(route, WebhookRoute | HealthRoute | ReadinessRoute):
                return route
            requests.read_api_key(head)
            asked = requests.check_head(head, route, BRAND, SETTINGS)
            if not isinstance(asked, CreationHead):
                return asked
            creation = asked
        if creation is not None and (body := reader.next_body(BODY_BYTES)) is not None:
            return requests.parse_creation(
                creation, body, SETTINGS, gateway_reference=ULID, page_token=TOKEN, terms=Terms()
            )
    return None

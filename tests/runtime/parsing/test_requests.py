"""A request costs at most three times what a harmless one of its length costs, from the bytes of
the socket to what it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeAlias

import pytest

from mmo_sansio.api.incoming import requests
from mmo_sansio.api.incoming.query_string import RecordsRequest
from mmo_sansio.api.incoming.requests import (
    CreationHead,
    HealthRoute,
    ReadinessRoute,
    WebhookRoute,
    find_route,
)
from mmo_sansio.http.request_head import HeadLimits
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.values.model import Terms
from mmo_sansio.values.problems import ProblemError
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.http.server.connection import RequestReader
from mmo_trio.settings.values import NETWORKS
from tests.support import hostile_input
from tests.support.api_requests import BRAND, SETTINGS, TOKEN, ULID
from tests.support.hostile_input import BODY_BYTES, CREATE, HEAD_BYTES, chunked, cut, request_head
from tests.support.parsing_cost import COST_MAX, measure

Pieces: TypeAlias = tuple[bytes, ...]
"""A request as the reads of its connection bring it."""
READ_BYTES = 64 * 1024
JSON = b"Content-Type: application/json\r\n"
LIMITS = HeadLimits()
PROXIES = TrustedProxies(NETWORKS.read("10.0.0.0/8"))


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


def posted(body: bytes, *, read_bytes: int = READ_BYTES) -> Pieces:
    """Return a creation request with this body."""
    head = request_head(JSON + b"Content-Length: %d\r\n" % len(body), method=b"POST", target=CREATE)
    return tuple(cut(head + body, read_bytes))


def in_chunks(chunks: bytes) -> Pieces:
    """Return a creation request with this chunked body."""
    head = request_head(JSON + b"Transfer-Encoding: chunked\r\n", method=b"POST", target=CREATE)
    return tuple(cut(head + chunks, READ_BYTES))


def cases() -> Iterator[tuple[str, Pieces, Pieces]]:
    """Yield a name, a hostile request and a harmless one of its length, each as large as it may
    be."""
    heads = hostile_input.heads(HEAD_BYTES)
    for name, head in heads.items():
        for read_bytes in (READ_BYTES, 512):
            hostile = tuple(cut(head, read_bytes))
            harmless = tuple(cut(heads["harmless"], read_bytes))
            yield f"head in reads of {read_bytes} bytes: {name}", hostile, harmless
    empty = b"\r\n" * (HEAD_BYTES // 2)
    yield "empty lines before a head", (empty + request_head(b""),), (heads["harmless"],)

    bodies = hostile_input.creation_bodies(BODY_BYTES)
    for name, body in bodies.items():
        for read_bytes in (READ_BYTES, 4096):
            hostile = posted(body, read_bytes=read_bytes)
            harmless = posted(bodies["harmless"], read_bytes=read_bytes)
            yield f"body in reads of {read_bytes} bytes: {name}", hostile, harmless

    harmless = posted(bodies["harmless"])
    for size, extension in ((256, b""), (512, b";a=b"), (1024, b";" + b"x" * 240), (65_536, b"")):
        text = chunked(BODY_BYTES, bytes_each=size, extension=extension, content=bodies["harmless"])
        yield f"chunks of {size} bytes", in_chunks(text), harmless
    yield "chunks of one byte", in_chunks(b"1\r\nx\r\n" * 10_000), harmless
    yield "a long line before a chunk", in_chunks(b"1;" + b"x" * BODY_BYTES), harmless
    yield "zeros before a chunk", in_chunks(b"0" * BODY_BYTES), harmless


def test_the_harmless_requests_are_parsed_whole() -> None:
    heads = hostile_input.heads(HEAD_BYTES)
    assert HEAD_BYTES - 500 < len(heads["harmless"]) <= HEAD_BYTES
    assert isinstance(parse_request([heads["harmless"]]), RecordsRequest)
    body = hostile_input.creation_bodies(BODY_BYTES)["harmless"]
    assert isinstance(parse_request(posted(body)), CreatePayment)
    chunks = chunked(0, bytes_each=256, content=body)
    assert isinstance(parse_request(in_chunks(chunks)), CreatePayment)


@pytest.mark.long
@pytest.mark.parametrize(
    ("hostile", "harmless"), [pytest.param(*pair, id=name) for name, *pair in cases()]
)
def test_no_request_costs_three_times_what_a_harmless_one_does(
    hostile: Pieces, harmless: Pieces
) -> None:
    cost = measure(parse_request, hostile, harmless)
    assert cost.ratio <= COST_MAX, cost

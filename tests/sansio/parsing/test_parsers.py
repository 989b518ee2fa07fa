"""Each parser of the core takes time in proportion to its text, and at most three times what
harmless text takes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from mmo_sansio.api.cursor import CursorError, decode_cursor
from mmo_sansio.api.incoming.query_string import parse_records_query
from mmo_sansio.api.incoming.requests import find_route
from mmo_sansio.http.chunked_body import ChunkedBody, ChunkedBodyError
from mmo_sansio.http.egress_rules import (
    EgressRules,
    delivery_url_error,
    parse_any_url,
    redirect_url_error,
)
from mmo_sansio.http.messages import HttpRequest, HttpResponse, RequestHead
from mmo_sansio.http.request_head import HeadLimits, check_partial_head, parse_head
from mmo_sansio.http.response_reader import ResponseHeadError, ResponseHeadReader
from mmo_sansio.providers.airtel_money.wire import parse_response
from mmo_sansio.providers.mpesa_daraja.wire import parse_json as parse_mpesa_json
from mmo_sansio.values.clock import parse_timestamp
from mmo_sansio.values.problems import ProblemError
from mmo_sansio.values.strict_json import parse_object
from tests.sansio.providers.test_conformance import CASES
from tests.support import hostile_input
from tests.support.hostile_input import (
    BODY_BYTES,
    HEAD_BYTES,
    RESPONSE_BODY_BYTES,
    RESPONSE_HEAD_BYTES,
    TARGET_BYTES,
    Corpus,
    chunked,
)
from tests.support.parsing_cost import COST_MAX, growth, measure

pytestmark = pytest.mark.long

LIMITS = HeadLimits()
JSON_HEADERS = ((b"content-type", b"application/json"),)
GROWTH_MAX = 3.0
"""Twice the text may take three times as long: a parser that needs the square takes four times."""


def read_request_head(head: bytes) -> None:
    with suppress(ProblemError):
        parse_head(head, LIMITS)


def read_partial_request_head(head: bytes) -> None:
    check_partial_head(head[:-2], LIMITS)


def read_response_head(head: bytes) -> None:
    with suppress(ResponseHeadError):
        final = ResponseHeadReader().receive(head)
        if final is not None:
            final.headers  # noqa: B018 - The fields are read only here.


def read_json(text: bytes) -> None:
    with suppress(ProblemError):
        parse_object(text)


def read_airtel_answer(text: bytes) -> None:
    parse_response(HttpResponse(200, (), text))


def read_mpesa_answer(text: bytes) -> None:
    with suppress(ValueError):
        parse_mpesa_json(text)


def read_query(query: bytes) -> None:
    with suppress(ProblemError):
        parse_records_query("acme", query, cursor_keys=[b"key"])


def read_path(path: bytes) -> None:
    with suppress(ProblemError):
        find_route(RequestHead("GET", path))


def read_chunks(text: bytes) -> None:
    with suppress(ChunkedBodyError):
        for _ in ChunkedBody(has_trailers=True).receive(text):
            pass


def read_cursor(text: bytes) -> None:
    with suppress(CursorError):
        decode_cursor(text.decode(), brand="acme", keys=[b"key"])


def read_timestamp(text: bytes) -> None:
    with suppress(ValueError):
        parse_timestamp(text.decode())


def read_url(text: bytes) -> None:
    parse_any_url.cache_clear()
    delivery_url_error(text.decode(), rules=EgressRules())
    redirect_url_error(text.decode(), extra_schemes=("acme",))


def chunks(size: int) -> Corpus:
    """Return chunked bodies of about this size on the wire."""
    return {
        "one chunk": chunked(size, bytes_each=size),
        "chunks of one byte": chunked(size // 6, bytes_each=1),
        "extensions": chunked(size // 64, bytes_each=16, extension=b";" + b"x" * 240),
        "no line end": hostile_input.fill(b"0", size),
        "trailers": b"0\r\n" + hostile_input.fill(b"a: b\r\n", size),
        "line ends": hostile_input.fill(b"\r\n", size),
    }


def cursors(size: int) -> Corpus:
    texts = (b"A", b"-", b"=", b"A=", b".", "é".encode())
    return {repr(each): hostile_input.fill(each, size - size % len(each)) for each in texts}


def timestamps(size: int) -> Corpus:
    day = b"2026-11-21"
    return {
        repr(each): day + hostile_input.fill(each, size)
        for each in (b"0", b"-", b" ", b"T00:00", b"+")
    }


def urls(size: int) -> Corpus:
    """Return URLs of this size; one beyond 2,048 characters is refused for its length."""
    labels = {
        repr(each): b"https://" + hostile_input.fill(each, size)
        for each in (b"a.", b".", b"1.", b"9", b":", b"@")
    }
    return {
        **labels,
        "a scheme": hostile_input.fill(b"a", size) + b":",
        "a path": b"https://a.b/" + b"%41" * (size // 3),
    }


Build = Callable[[int], Corpus]
PARSERS: dict[str, tuple[Callable[[bytes], None], Build, int]] = {
    "request head": (read_request_head, hostile_input.heads, HEAD_BYTES),
    "partial request head": (read_partial_request_head, hostile_input.heads, HEAD_BYTES),
    "response head": (read_response_head, hostile_input.response_heads, RESPONSE_HEAD_BYTES),
    "request JSON": (read_json, hostile_input.json_texts, BODY_BYTES),
    "Airtel's answer": (read_airtel_answer, hostile_input.json_texts, RESPONSE_BODY_BYTES),
    "M-Pesa's answer": (read_mpesa_answer, hostile_input.json_texts, RESPONSE_BODY_BYTES),
    "query": (read_query, hostile_input.queries, TARGET_BYTES),
    "path": (read_path, hostile_input.paths, TARGET_BYTES),
    "chunked body": (read_chunks, chunks, BODY_BYTES),
    "cursor": (read_cursor, cursors, TARGET_BYTES),
    "timestamp": (read_timestamp, timestamps, TARGET_BYTES),
    "URL": (read_url, urls, 2_000),
}


@pytest.mark.parametrize(
    ("parser", "name"),
    [
        pytest.param(parser, name, id=f"{parser}: {name}")
        for parser, (_, build, _) in PARSERS.items()
        for name in build(1024)
    ],
)
def test_a_parser_takes_time_in_proportion_to_its_text(parser: str, name: str) -> None:
    parse, build, size = PARSERS[parser]
    texts = [build(size // part)[name] for part in (4, 2, 1)]
    assert growth(parse, *texts, enough=GROWTH_MAX) <= GROWTH_MAX


@pytest.mark.parametrize("operator", CASES)
def test_no_notification_costs_three_times_what_a_harmless_one_does(operator: str) -> None:
    provider = CASES[operator].open_adapter()

    def read(body: bytes) -> None:
        provider.read_notification(
            HttpRequest("POST", b"/hooks/operator/token", JSON_HEADERS, body)
        )

    texts = hostile_input.json_texts(BODY_BYTES)
    for name, text in texts.items():
        cost = measure(read, text, texts["harmless"])
        assert cost.ratio <= COST_MAX, (name, cost)


@pytest.mark.parametrize("parser", ["response head", "Airtel's answer", "M-Pesa's answer"])
def test_no_answer_costs_three_times_what_a_harmless_one_does(parser: str) -> None:
    parse, build, size = PARSERS[parser]
    texts = build(size)
    for name, text in texts.items():
        cost = measure(parse, text, texts["harmless"])
        assert cost.ratio <= COST_MAX, (name, cost)

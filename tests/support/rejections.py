"""Checks rejections against the specification's table of errors, with a client that can send
invalid bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import trio

from tests.support.http_listener import Answer as WireAnswer
from tests.support.http_listener import Client
from tests.support.merchant import ROOT, TIMEOUT_S, Answer
from tests.support.sandbox_gateway import Running

TITLES_AND_CODES: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        401: ("Unauthorized", "unauthorized"),
        404: ("Not found", "not_found"),
        405: ("Method not allowed", "method_not_allowed"),
        408: ("Bad request", "bad_request"),
        413: ("Bad request", "bad_request"),
        414: ("Bad request", "bad_request"),
        429: ("Too many requests", "too_many_requests"),
        431: ("Bad request", "bad_request"),
        500: ("Internal server error", "internal_server_error"),
        503: ("Service unavailable", "service_unavailable"),
    }
)
"""Titles and codes by status; a 400 has two kinds, which its segment distinguishes (P2, P4)."""


def assert_problem(
    answer: Answer | WireAnswer, status: int, segment: str, *, note: object = ""
) -> dict[str, Any]:
    """The answer is the problem document of this cause, whole and nothing more (G3, G9, P1, P2);
    its members."""
    assert answer.status == status, (note, answer.status, answer.body)
    assert answer.headers["content-type"] == "application/problem+json", note
    assert answer.headers["cache-control"] == "no-store", note
    assert answer.headers["x-request-id"], note
    problem: dict[str, Any] = answer.json
    base, _, last = problem["type"].rpartition("/")
    assert (last, base.endswith("/errors")) == (segment, True), (note, problem)
    assert problem["status"] == status, (note, problem)
    assert (problem["title"], problem["errorCode"]) == _title_and_code(status, segment), note
    assert isinstance(problem["detail"], str), (note, problem)
    assert problem["detail"], (note, problem)
    names = ["type", "title", "status", "detail", "errorCode", "instance"]
    assert problem["instance"] == f"urn:x-request-id:{answer.headers['x-request-id']}", note
    has_fields = (status, segment) == (400, "validation_failed")
    assert list(problem) == ([*names, "errors"] if has_fields else names), (note, problem)
    assert ("allow" in answer.headers) == (status == 405), note
    assert ("retry-after" in answer.headers) == (status in (429, 503)), note
    return problem


def anonymous(answer: Answer | WireAnswer) -> bytes:
    """Return the body without its request id: rejections that must not differ have nothing else."""
    return answer.body.replace(answer.headers["x-request-id"].encode(), b"ID")


def assert_field_refused(answer: Answer, *fields: str, note: object = "") -> None:
    """Check that exactly these fields are rejected in this order, the first one in the detail (P1,
    C9)."""
    problem = assert_problem(answer, 400, "validation_failed", note=note)
    assert [each["field"] for each in problem["errors"]] == list(fields), (note, problem)
    assert problem["detail"] == problem["errors"][0]["detail"], (note, problem)


def _title_and_code(status: int, segment: str) -> tuple[str, str]:
    if status == 422:
        return "Business logic error", segment
    if status != 400:
        return TITLES_AND_CODES[status]
    if segment == "bad_request":
        return "Bad request", "bad_request"
    return "Validation failed", "validation_failed"


@asynccontextmanager
async def connected(running: Running) -> AsyncIterator[Client]:
    """Open a connection to the merchant API that sends exactly the given bytes."""
    api = urlsplit(running.ready.api)
    with trio.fail_after(TIMEOUT_S):
        stream = await trio.open_tcp_stream(api.hostname or "", api.port or 0)
        try:
            yield Client(stream)
        finally:
            await trio.aclose_forcefully(stream)


async def send_raw(running: Running, request: bytes) -> WireAnswer:
    """Return the answer to these bytes on a new connection."""
    async with connected(running) as client:
        return await client.ask(request)


def head(
    method: str, path: str, *lines: bytes, key: str | None = None, host: bytes = b"h"
) -> bytes:
    """A request head for a path below the root of the merchant API, with these further lines."""
    header_lines = [
        b"%s %s%s HTTP/1.1" % (method.encode(), ROOT.encode(), path.encode()),
        b"Host: " + host,
    ]
    if key is not None:
        header_lines.append(b"X-Api-Key: " + key.encode())
    return b"\r\n".join([*header_lines, *lines]) + b"\r\n\r\n"


ENDPOINTS = (
    ("POST", "/direct/payin/mpesa_ke"),
    ("POST", "/direct/payout/mpesa_ke"),
    ("POST", "/qr/payin/mpesa_ke"),
    ("POST", "/web/payin/mpesa_ke"),
    ("POST", "/direct/taxpayout/mpesa_ke"),
    ("GET", "/status/01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    ("GET", "/status/mref/order"),
    ("GET", "/records?from=2026-01-01&to=2026-01-02"),
)
"""Every endpoint where a key is needed, with a path that leads there."""

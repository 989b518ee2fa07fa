"""Reads and writes the messages of a simulated operator, which are mostly JSON."""

from __future__ import annotations

import json
from typing import Any, Final

from mmo_sansio.http.messages import HttpRequest, HttpResponse

JSON_HEADERS: Final = ((b"content-type", b"application/json"),)


def path_and_query(request: HttpRequest) -> tuple[str, str]:
    """Return the path and the query of a request, for either form of target."""
    target = request.target.decode("ascii", "replace")
    scheme, separator, rest = target.partition("://")
    # Absolute-form, as a client writes it to a proxy (RFC 9112 section 3.2.2).
    if separator and "/" not in scheme:
        _, slash, tail = rest.partition("/")
        target = slash + tail
    path, _, query = target.partition("?")
    return path or "/", query


def json_response(status: int, document: object) -> HttpResponse:
    """Return a response in JSON."""
    return HttpResponse(status, JSON_HEADERS, json.dumps(document, ensure_ascii=False).encode())


def parse_json_object(body: bytes) -> dict[str, Any]:
    """Parse the JSON object in a body. Raises ValueError for anything else."""
    try:
        # Python's parser recurses; a tester's body must not end the simulator.
        document = json.loads(body)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    return document

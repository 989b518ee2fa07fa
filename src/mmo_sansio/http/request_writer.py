"""Writes a request for a connection: its head with the fields that every request has, and its body."""

from __future__ import annotations

import re
from typing import Final

from mmo_sansio.http.egress_rules import UrlTarget
from mmo_sansio.http.messages import HttpRequest


class InvalidRequest(Exception):
    """The request cannot be written: a reader would misunderstand a line of its head."""


_REQUEST_LINE: Final = re.compile(rb"[A-Z]++ [\x21-\x7e]++ HTTP/1\.1")
_FIELD_LINE: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++: [\t\x20-\x7e\x80-\xff]*+")


def request_bytes(request: HttpRequest, target: UrlTarget, *, user_agent: bytes) -> bytes:
    """Return the request's bytes with the fields that every request has. Raises InvalidRequest."""
    request_line = f"{request.method} {target.path_and_query} HTTP/1.1".encode("ascii")
    fields = [b"Host: " + target.authority.encode("ascii"), b"User-Agent: " + user_agent, b"Accept-Encoding: identity"]
    if request.body or request.method not in ("GET", "DELETE"):
        fields.append(b"Content-Length: %d" % len(request.body))
    fields += [_field_name(name) + b": " + value for name, value in request.headers]
    if not (_REQUEST_LINE.fullmatch(request_line) and all(map(_FIELD_LINE.fullmatch, fields))):
        raise InvalidRequest("a line of its head holds what none may hold")
    return b"\r\n".join([request_line, *fields, b"", request.body])


def _field_name(name: bytes) -> bytes:
    """Return the field name as people write it, `X-API-KEY` as the specification does (Events, rule
    2). The case means nothing (RFC 9110 section 5.1), but simple receivers may compare it."""
    return b"X-API-KEY" if name == b"x-api-key" else name.title()

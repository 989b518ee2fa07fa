"""Represents HTTP messages as values: received by a listener, or to be sent by a client (RFC 9110)."""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

from attrs import frozen

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Field lines in the order of the message; names in lower case."""


def header_value(headers: Headers, name: bytes) -> bytes | None:
    """Return the first value of the field with this lower-case name, or None."""
    for each, value in headers:
        if each == name:
            return value
    return None


@frozen
class RequestHead:
    """Is a request before its body: enough to route and to authenticate it."""

    method: str
    """The method, as sent: methods are case-sensitive (RFC 9110 section 9.1)."""
    target: bytes
    """The raw request target, still percent-encoded (RFC 9112 section 3.2): in origin-form from a listener, in
    absolute-form (`https://host/path`) for a client."""
    headers: Headers = ()

    def values(self, name: bytes) -> tuple[bytes, ...]:
        """Return every value of the field with this lower-case name, in order."""
        return self._values.get(name, ())

    def value(self, name: bytes) -> bytes | None:
        """Return the first value of the field with this lower-case name, or None."""
        values = self.values(name)
        return values[0] if values else None

    def with_target(self, target: bytes) -> RequestHead:
        """Return the head of the same request for another resource; what was found in its fields is kept."""
        other = RequestHead(self.method, target, self.headers)
        object.__setattr__(other, "_values", self._values)
        return other

    @cached_property
    def _values(self) -> dict[bytes, tuple[bytes, ...]]:
        """Holds the values of each field, as several parts of the gateway ask for some."""
        found: dict[bytes, tuple[bytes, ...]] = {}
        for name, value in self.headers:
            found[name] = (*found.get(name, ()), value)
        return found


@frozen
class HttpRequest(RequestHead):
    """Is a whole request."""

    body: bytes = b""


@frozen
class HttpResponse:
    """Is a whole response. The listener adds Content-Length, Date and Connection."""

    status: int
    headers: Headers = ()
    body: bytes = b""

    def value(self, name: bytes) -> bytes | None:
        """Return the first value of the field with this lower-case name, or None."""
        return header_value(self.headers, name)

"""HTTP messages as values: what a listener has read, what a client shall send (RFC 9110)."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Field lines in the order they arrived or shall be sent; names in lower case."""


def header_values(headers: Headers, name: bytes) -> tuple[bytes, ...]:
    """Every value of the field with this lower-case name, in order; empty when there is none."""
    return tuple([value for each, value in headers if each == name])  # A generator costs double.


def header_value(headers: Headers, name: bytes) -> bytes | None:
    """The first value of the field with this lower-case name, or None."""
    for each, value in headers:
        if each == name:
            return value
    return None


@frozen
class RequestHead:
    """A request before its body: enough to route it and to know who asks."""

    method: str
    """The method, as sent: methods are case-sensitive (RFC 9110 section 9.1)."""
    target: bytes
    """The raw request target, still percent-encoded (RFC 9112 section 3.2): origin-form when a listener
    read it, absolute-form (`https://host/path`) when a client shall send it."""
    headers: Headers = ()

    def values(self, name: bytes) -> tuple[bytes, ...]:
        """Every value of the field with this lower-case name, in order."""
        return header_values(self.headers, name)

    def value(self, name: bytes) -> bytes | None:
        """The first value of the field with this lower-case name, or None."""
        return header_value(self.headers, name)


@frozen
class HttpRequest(RequestHead):
    """A whole request."""

    body: bytes = b""


@frozen
class HttpResponse:
    """A whole answer. Content-Length, Date and Connection are the listener's to add."""

    status: int
    headers: Headers = ()
    body: bytes = b""

    def value(self, name: bytes) -> bytes | None:
        """The first value of the field with this lower-case name, or None."""
        return header_value(self.headers, name)

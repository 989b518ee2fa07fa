"""Writes the head of an HTTP/2 request as one of HTTP/1.1, so that one parser judges both (RFC 9113
sections 8.2 and 8.3).

What HTTP/1.1 can't say, or would say otherwise, is refused here: a field that holds a line end
would become two."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from mmo_sansio.values.problems import MALFORMED, ProblemError

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]++")
_VALUE: Final = re.compile(
    rb"(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?"
)

# Fields about a connection, which HTTP/2 has frames for (RFC 9113 section 8.2.2).
_CONNECTION_FIELDS: Final = frozenset(
    {
        b"connection",
        b"http2-settings",
        b"keep-alive",
        b"proxy-connection",
        b"transfer-encoding",
        b"upgrade",
    }
)

_PSEUDO_FIELDS: Final = frozenset({b":method", b":scheme", b":authority", b":path"})


def http1_head(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the same head as HTTP/1.1 writes it, with `:authority` as its first field, `host`.

    Raises ProblemError for a malformed one (RFC 9113 section 8.1.1). Whether method, target and
    length are good is left to the parser of HTTP/1.1."""
    # 1. Pseudo fields and others apart, each checked alone.
    pseudo: dict[bytes, bytes] = {}
    regular: list[tuple[bytes, bytes]] = []
    for name, value in fields:
        if _VALUE.fullmatch(value) is None:
            raise _malformed(
                "The value of a header field holds a control character, or begins or ends with "
                "white space."
            )
        if name.startswith(b":"):
            _add_pseudo_field(pseudo, name, value, is_late=bool(regular))
        else:
            _check_field(name, value)
            regular.append((name, value))

    # 2. What HTTP/1.1 has one place for: the request line, Host, Cookie.
    method, path = _request_line(pseudo)
    host = [(b"host", authority) for authority in _authorities(pseudo, regular)]
    cookies = [value for name, value in regular if name == b"cookie"]
    rest = [field for field in regular if field[0] not in (b"host", b"cookie")]
    if cookies:  # Clients may divide it for the sake of compression (RFC 9113 section 8.2.3).
        rest.append((b"cookie", b"; ".join(cookies)))

    lines = [b"%s: %s\r\n" % header for header in [*host, *rest]]
    return b"%s %s HTTP/1.1\r\n%s\r\n" % (method, path, b"".join(lines))


def _add_pseudo_field(
    pseudo: dict[bytes, bytes], name: bytes, value: bytes, *, is_late: bool
) -> None:
    if name not in _PSEUDO_FIELDS:
        raise _malformed("A field that begins with a colon is none of a request.")
    if name in pseudo:
        raise _malformed(f"{name.decode()} is sent more than once.")
    # RFC 9113 section 8.3: a proxy that reads only the beginning would see another request.
    if is_late:
        raise _malformed(f"{name.decode()} stands behind a header field.")
    pseudo[name] = value


def _check_field(name: bytes, value: bytes) -> None:
    if _NAME.fullmatch(name) is None:
        raise _malformed(
            "The name of a header field holds a character that is not allowed there; HTTP/2 has no "
            "capital letters in names."
        )
    # `te: trailers` is the one exception of section 8.2.2.
    if name in _CONNECTION_FIELDS or (name == b"te" and value.lower() != b"trailers"):
        raise _malformed(f"The header field {name.decode()} does not exist in HTTP/2.")


def _request_line(pseudo: dict[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return method and path. A path in absolute-form would name a second host."""
    if pseudo.get(b":method") == b"CONNECT":
        raise _malformed("CONNECT is for proxies; this is none.")

    for name in (b":method", b":scheme", b":path"):
        if not pseudo.get(name):
            raise _malformed(f"The field {name.decode()} is missing.")

    method, path = pseudo[b":method"], pseudo[b":path"]

    # `*` asks about the server as a whole, and only OPTIONS does (RFC 9113 section 8.3.1).
    if not path.startswith(b"/") and not (path == b"*" and method == b"OPTIONS"):
        raise _malformed("The request target must be a path that begins with a slash.")

    return method, path


def _authorities(pseudo: dict[bytes, bytes], regular: list[tuple[bytes, bytes]]) -> list[bytes]:
    """Return every host that the request names, `:authority` and an equal `host` as one (RFC 9113
    section 8.3.1)."""
    hosts = [value for name, value in regular if name == b"host"]
    authority = pseudo.get(b":authority")
    if authority is None:
        return hosts
    if any(host != authority for host in hosts):
        raise _malformed("Host and :authority differ.")
    return [authority]


def _malformed(detail: str) -> ProblemError:
    return ProblemError(MALFORMED.problem(detail))

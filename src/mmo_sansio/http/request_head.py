"""Parses the raw bytes of a request head, and rejects every head that two programs in a row could
read differently (RFC 9112; clauses G3, P4).

One grammar checks and divides the head. A second parser behind it, as h11, would find nothing more,
and costs five times as much as both; the tests compare with it what is accepted here."""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from mmo_sansio.http.messages import Headers, RequestHead
from mmo_sansio.values.problems import (
    HEAD_TOO_LARGE,
    MALFORMED,
    TARGET_TOO_LONG,
    Problem,
    ProblemError,
)

KIB: Final = 1024


@frozen(cache_hash=True)
class HeadLimits:
    """Limits the size of a request head; a larger one is rejected, however well formed."""

    target_bytes: int = 9 * KIB
    """Bytes of the request target. Look-ups promise 8 KiB (L3); the remainder is for the path
    before it."""
    head_bytes: int = 32 * KIB
    """Bytes of the whole head, with the empty line that ends it: the target and a large key."""
    fields: int = 100
    """Field lines. Real clients send about ten, proxies add ten more."""


@frozen
class ParsedHead:
    """A request head and what it says about its connection."""

    head: RequestHead
    version: bytes
    """`1.0` or `1.1`."""
    keep_alive: bool
    """Whether the client lets the connection live on after the response (RFC 9112 section 9.3)."""
    expects_continue: bool
    """Whether the client sends its body only after a 100 response (RFC 9110 section 10.1.1)."""
    body_length: int | None
    """Bytes of the body that follows; None for a chunked one, which has its length in itself."""


END_OF_HEAD: Final = b"\r\n\r\n"

# Fields that offer another protocol for the connection. The offer is ignored (RFC 9110 section
# 7.8): clients such as Java's send it with every request in clear text. What takes the request
# further must not accept it either.
UPGRADE_FIELDS: Final = frozenset({b"upgrade", b"http2-settings"})

# Digits of a Content-Length, as many as 2^63 has: more are an attack on integers.
LENGTH_DIGITS_MAX: Final = 19

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_METHOD_AND_TARGET = rb"(?P<method>" + _TOKEN + rb"++) (?P<target>[\x21-\x7e]++)"

# A minor version that is not known yet is read as 1.1 (RFC 9110 section 2.5).
_REQUEST_LINE = re.compile(_METHOD_AND_TARGET + rb" HTTP/1\.(?P<minor>[0-9])")

_ANY_VERSION = re.compile(_METHOD_AND_TARGET + rb" HTTP/[0-9]+(?:\.[0-9]+)?")
_FIELD_LINE = re.compile(_TOKEN + rb"++:[\t\x20-\x7e\x80-\xff]*+")
_HEAD = re.compile(
    _REQUEST_LINE.pattern + rb"\r\n(?P<lines>(?:" + _FIELD_LINE.pattern + rb"\r\n)*+)\r\n"
)

# Divides lines that match the grammar above. The blanks behind the value are cut off afterwards, as
# an expression that leaves them out would try every way to divide a run of them. A name is looked
# for where a line begins only, or a long one would be tried from each of its letters.
_NAME_AND_VALUE = re.compile(rb"^([^:\r\n]++):[\t ]*+([^\r\n]*+)\r\n", re.MULTILINE)

# The white space around the value belongs to the match, as an expression that leaves it out would
# try every way to divide a run of blanks.
_FRAMING_FIELD = re.compile(
    rb"^(host|content-length|transfer-encoding):([^\r]*+)", re.IGNORECASE | re.MULTILINE
)

_FORBIDDEN_BYTE = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?!\n)")
_AUTHORITY = re.compile(rb"(?:[A-Za-z0-9\-._~!$&'()*+,;=%]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_ABSOLUTE_FORM = re.compile(rb"https?://(?P<authority>[^/?]*)(?P<rest>.*)", re.IGNORECASE)


def parse_head(head: bytes, limits: HeadLimits) -> ParsedHead:
    """Parse a complete head, which ends with its empty line. Raises ProblemError for one that must
    be rejected: any fault makes the end of the message uncertain, so answer it and close the
    connection."""
    matched = _HEAD.fullmatch(head)
    if matched is None:
        raise ProblemError(_syntax_problem(head, limits))

    method, target, minor, lines = matched.group("method", "target", "minor", "lines")
    problem = (
        _check_size(head, target, limits)
        or _check_target(method, target)
        or _check_fields(_FRAMING_FIELD.findall(lines), minor, target)
    )
    if problem is not None:
        raise ProblemError(problem)

    # RFC 9112 section 5.1: names have no case, and the blanks around a value are no part of it.
    headers: Headers = tuple(
        [(name.lower(), value.rstrip(b"\t ")) for name, value in _NAME_AND_VALUE.findall(lines)]
    )
    fields = dict(headers)
    if not UPGRADE_FIELDS.isdisjoint(fields):
        headers = tuple((name, value) for name, value in headers if name not in UPGRADE_FIELDS)

    # A minor version above 1 is read as 1.1 (RFC 9110 section 2.5).
    version = b"1.0" if minor == b"0" else b"1.1"

    # RFC 9112 section 6.3: chunks have their length in themselves; without a length there is no
    # body.
    body_length = None
    if b"transfer-encoding" not in fields:
        body_length = int(fields.get(b"content-length", b"0"))

    # An HTTP/1.0 client knows no 100 (RFC 9110 section 10.1.1), and where no body follows none
    # waits.
    asks_first = fields.get(b"expect", b"").lower() == b"100-continue"
    expects_continue = asks_first and version == b"1.1" and body_length != 0

    request_head = to_origin_form(RequestHead(method.decode("ascii"), target, headers))
    return ParsedHead(
        request_head,
        version,
        _keeps_alive(request_head, version),
        expects_continue,
        body_length,
    )


def _keeps_alive(head: RequestHead, version: bytes) -> bool:
    # RFC 9112 section 9.3: 1.1 lives on unless it says `close`, 1.0 only if it says `keep-alive`.
    options = b",".join(head.values(b"connection")).lower()
    if not options:
        return version == b"1.1"

    named = {option.strip() for option in options.split(b",")}
    return b"close" not in named and (version == b"1.1" or b"keep-alive" in named)


def check_partial_head(
    received: bytes, limits: HeadLimits, *, checked_bytes: int = 0
) -> Problem | None:
    """Return the reason to reject a head whose end has not arrived yet, or None to wait for more of
    it.

    `checked_bytes` counts bytes that an earlier call has passed already, so that a head that
    arrives in small pieces is not read again and again. Faults of a head that may never end are
    found here: bare LF, NUL, excess."""
    # The order is that of the whole head: bytes, target, size, request line.
    line_end = received.find(b"\r\n")
    fault = _FORBIDDEN_BYTE.search(received, max(0, checked_bytes - 1))
    if fault is not None and not (fault[0] == b"\r" and fault.end() == len(received)):
        return _forbidden_byte_problem(fault[0])
    if line_end < 0 and len(received) > limits.target_bytes + KIB:
        return _target_too_long_problem(limits)
    if len(received) > limits.head_bytes:
        return _head_too_large_problem(limits)
    if line_end >= 0 and checked_bytes <= line_end + 1:
        return _check_request_line(received[:line_end], limits)

    return None


def to_origin_form(head: RequestHead) -> RequestHead:
    """Return a head of this grammar with path and query as its target. The authority of a
    target in absolute-form takes the place of what Host says (RFC 9112 section 3.2.2); any other
    target stays as it is."""
    absolute = _ABSOLUTE_FORM.fullmatch(head.target)
    if absolute is None:
        return head

    rest: bytes = absolute["rest"]
    fields = [header for header in head.headers if header[0] != b"host"]
    if rest.startswith(b"/"):
        target = rest
    else:
        target = b"/" + rest

    return RequestHead(head.method, target, ((b"host", absolute["authority"]), *fields))


def _check_size(head: bytes, target: bytes, limits: HeadLimits) -> Problem | None:
    if len(target) > limits.target_bytes:
        return _target_too_long_problem(limits)
    # Two of its line ends are the request line's and the empty line's.
    if len(head) > limits.head_bytes or head.count(b"\n") - 2 > limits.fields:
        return _head_too_large_problem(limits)
    return None


def _syntax_problem(head: bytes, limits: HeadLimits) -> Problem:
    """Return why a head does not have the form of RFC 9112 section 2.1, the earliest fault
    first."""
    request_line, *field_lines = head.removesuffix(END_OF_HEAD).split(b"\r\n")
    if forbidden := _FORBIDDEN_BYTE.search(head):
        return _forbidden_byte_problem(forbidden[0])
    if fault := _check_request_line(request_line, limits):
        return fault
    faulty = (line for line in field_lines if not _FIELD_LINE.fullmatch(line))
    return MALFORMED.problem(_field_line_error(next(faulty, b"")))


def _check_request_line(line: bytes, limits: HeadLimits) -> Problem | None:
    # A line that is far too long is 414 even where it is malformed besides: its end has not come
    # yet.
    matched = _ANY_VERSION.fullmatch(line)
    if len(matched["target"] if matched else line) > limits.target_bytes:
        return _target_too_long_problem(limits)
    if _REQUEST_LINE.fullmatch(line):
        return None
    if matched:
        return MALFORMED.problem("Only HTTP/1 is spoken here.")

    return MALFORMED.problem(
        "The request line is not a method, a target and a version, one space apart."
    )


def _field_line_error(line: bytes) -> str:
    name, colon, _ = line.partition(b":")

    # RFC 9112 section 5.2: folding is obsolete, and was used to hide fields.
    if line.startswith((b" ", b"\t")):
        return "A header field is folded onto a second line; send it on one."
    if not colon:
        return "A header line has no colon."
    if not name:
        return "A header field has no name."

    # RFC 9112 section 5.1: some programs drop the blank, others the field.
    if name.endswith((b" ", b"\t")):
        return "There is a space between the name of a header field and its colon."
    return "The name of a header field holds a character that is not allowed there."


def _check_target(method: bytes, target: bytes) -> Problem | None:
    """Reject a target without a form that an origin server serves (RFC 9112 section 3.2)."""
    if method == b"CONNECT":
        return MALFORMED.problem("CONNECT is for proxies; this is none.")
    if b"#" in target:
        return MALFORMED.problem("The request target must not hold a fragment.")
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return None

    absolute = _ABSOLUTE_FORM.fullmatch(target)
    if absolute is None or not _AUTHORITY.fullmatch(absolute["authority"]):
        return MALFORMED.problem("The request target must be a path that begins with a slash.")

    return None


def _check_fields(fields: list[tuple[bytes, bytes]], minor: bytes, target: bytes) -> Problem | None:
    """Reject fields that leave doubt where the message ends, or which host it is for."""
    found: dict[bytes, list[bytes]] = {b"host": [], b"content-length": [], b"transfer-encoding": []}
    for name, text in fields:
        found[name.lower()].append(text.strip(b" \t"))
    hosts, lengths, codings = found.values()
    return (
        _check_transfer_coding(codings, lengths, minor)
        or _check_content_length(lengths)
        or _check_host(hosts, minor, target)
    )


def _check_transfer_coding(
    codings: list[bytes], lengths: list[bytes], minor: bytes
) -> Problem | None:
    """Check the transfer coding by RFC 9112 section 6.1."""
    if not codings:
        return None

    # RFC 9112 section 6.3: a proxy that took the other one would see a second request in the body.
    if lengths:
        return MALFORMED.problem("Content-Length and Transfer-Encoding exclude each other.")
    if minor == b"0":
        return MALFORMED.problem("Transfer-Encoding does not exist in HTTP/1.0.")
    if len(codings) > 1:
        return MALFORMED.problem("Transfer-Encoding is sent more than once.")
    if codings[0].lower() != b"chunked":
        return MALFORMED.problem("The only transfer coding understood here is chunked.")

    return None


def _check_content_length(lengths: list[bytes]) -> Problem | None:
    """Check the length by RFC 9112 section 6.3."""
    if not lengths:
        return None
    if len(lengths) > 1:
        return MALFORMED.problem("Content-Length is sent more than once.")
    if not lengths[0].isdigit() or len(lengths[0]) > LENGTH_DIGITS_MAX:
        return MALFORMED.problem("Content-Length must be one number, in digits.")
    return None


def _check_host(hosts: list[bytes], minor: bytes, target: bytes) -> Problem | None:
    """Check the host by RFC 9112 section 3.2."""
    if not hosts:
        if minor != b"0":
            return MALFORMED.problem("The Host header is missing.")
        return None

    if len(hosts) > 1:
        return MALFORMED.problem("Host is sent more than once.")

    # A target in absolute-form names the host itself (RFC 9112 section 3.2.2).
    is_ignored = hosts[0] == b"" and _ABSOLUTE_FORM.fullmatch(target) is not None
    if not is_ignored and not _AUTHORITY.fullmatch(hosts[0]):
        return MALFORMED.problem("Host must be a host name or address, with a port if need be.")

    return None


def _forbidden_byte_problem(byte: bytes) -> Problem:
    if byte in (b"\n", b"\r"):
        return MALFORMED.problem("Lines of a request head end in CR LF, both together.")
    return MALFORMED.problem("The request head holds a control character.")


def _target_too_long_problem(limits: HeadLimits) -> Problem:
    return TARGET_TOO_LONG.problem(
        f"The request target is longer than {limits.target_bytes} bytes."
    )


def _head_too_large_problem(limits: HeadLimits) -> Problem:
    return HEAD_TOO_LARGE.problem(
        f"The request head is larger than {limits.head_bytes} bytes or {limits.fields} "
        f"header fields."
    )

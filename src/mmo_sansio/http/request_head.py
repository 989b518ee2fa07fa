"""The raw bytes of a request head, judged before a lenient parser sees them: what two programs in a
row could read differently is refused (RFC 9112; clauses G3, P4)."""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from mmo_sansio.values.problems import HEAD_TOO_LARGE, MALFORMED, TARGET_TOO_LONG, Problem

KIB: Final = 1024


@frozen
class HeadLimits:
    """How large a request head may be; beyond these it is refused, however well formed."""

    target: int = 9 * KIB
    """Bytes of the request target. Look-ups promise 8 KiB (L3); the rest is room for the path
    before it."""
    head: int = 32 * KIB
    """Bytes of the whole head, with the empty line that ends it: the target and a large key beside
    it."""
    fields: int = 100
    """Field lines. Real clients send about ten, proxies add ten more."""


END_OF_HEAD: Final = b"\r\n\r\n"
LENGTH_DIGITS: Final = 19
"""Digits of a Content-Length, as many as 2^63 has: more are no length but an attack on somebody's
integers."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_METHOD_AND_TARGET = rb"(?P<method>" + _TOKEN + rb"++) (?P<target>[\x21-\x7e]++)"
_REQUEST_LINE = re.compile(_METHOD_AND_TARGET + rb" HTTP/1\.(?P<minor>[01])")
_ANY_VERSION = re.compile(_METHOD_AND_TARGET + rb" HTTP/[0-9]+(?:\.[0-9]+)?")
_FIELD_LINE = re.compile(_TOKEN + rb"++:[\t\x20-\x7e\x80-\xff]*+")
_HEAD = re.compile(
    _REQUEST_LINE.pattern + rb"\r\n(?P<lines>(?:" + _FIELD_LINE.pattern + rb"\r\n)*+)\r\n"
)
_WEIGHTY_FIELD = re.compile(
    rb"^(host|content-length|transfer-encoding|upgrade|http2-settings):[ \t]*([^\r]*?)[ \t]*\r$",
    re.IGNORECASE | re.MULTILINE,
)
_FORBIDDEN_BYTE = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?!\n)")
_AUTHORITY = re.compile(rb"(?:[A-Za-z0-9\-._~!$&'()*+,;=%]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_ABSOLUTE_FORM = re.compile(rb"https?://(?P<authority>[^/?]*)(?P<rest>.*)", re.IGNORECASE)


def find_fault(head: bytes, limits: HeadLimits) -> Problem | None:
    """The reason to refuse a complete head, from its first byte to its empty line, or None if it
    may be parsed.

    Any fault makes the end of the message uncertain: answer it and close the connection."""
    matched = _HEAD.fullmatch(head)
    if matched is None:
        return _fault_of_form(head, limits)
    return (
        _fault_of_size(head, matched["target"], limits)
        or _fault_of_target(matched["method"], matched["target"])
        or _fault_of_fields(
            _WEIGHTY_FIELD.findall(matched["lines"]), matched["minor"], matched["target"]
        )
    )


def find_early_fault(part: bytes, limits: HeadLimits, *, looked_at: int = 0) -> Problem | None:
    """The reason to refuse a head whose end has not come yet, or None to wait for more of it.

    `looked_at` counts bytes that an earlier call has passed already, so that a head that comes in
    drops is not read again and again. What waits for an end that may never come is found here: bare
    LF, NUL, excess."""
    line_end = part.find(b"\r\n")
    fault = _FORBIDDEN_BYTE.search(part, max(0, looked_at - 1))
    if fault is not None and not (fault[0] == b"\r" and fault.end() == len(part)):
        return _forbidden_byte(fault[0])
    if line_end < 0 and len(part) > limits.target + KIB:
        return _target_too_long(limits)
    if len(part) > limits.head:
        return _head_too_large(limits)
    if line_end >= 0 and looked_at <= line_end + 1:
        return _fault_of_request_line(part[:line_end], limits)
    return None


def origin_form(target: bytes) -> bytes:
    """The target as path and query: a target that passed `find_fault` in absolute-form loses its
    scheme and authority (RFC 9112 section 3.2.2); origin-form and asterisk-form are left alone."""
    absolute = _ABSOLUTE_FORM.fullmatch(target)
    if absolute is None:
        return target
    rest: bytes = absolute["rest"]
    return rest if rest.startswith(b"/") else b"/" + rest


def _fault_of_size(head: bytes, target: bytes, limits: HeadLimits) -> Problem | None:
    if len(target) > limits.target:
        return _target_too_long(limits)
    if len(head) > limits.head or head.count(b"\n") - 2 > limits.fields:
        return _head_too_large(limits)
    return None


def _fault_of_form(head: bytes, limits: HeadLimits) -> Problem:
    """Why a head does not have the form of RFC 9112 section 2.1, the earliest fault first."""
    request_line, *field_lines = head.removesuffix(END_OF_HEAD).split(b"\r\n")
    if forbidden := _FORBIDDEN_BYTE.search(head):
        return _forbidden_byte(forbidden[0])
    if fault := _fault_of_request_line(request_line, limits):
        return fault
    faulty = (line for line in field_lines if not _FIELD_LINE.fullmatch(line))
    return MALFORMED.problem(_detail_of_field_line(next(faulty, b"")))


def _fault_of_request_line(line: bytes, limits: HeadLimits) -> Problem | None:
    matched = _ANY_VERSION.fullmatch(line)
    if len(matched["target"] if matched else line) > limits.target:
        return _target_too_long(limits)
    if _REQUEST_LINE.fullmatch(line):
        return None
    if matched:
        return MALFORMED.problem("Only HTTP/1.0 and HTTP/1.1 are spoken here.")
    return MALFORMED.problem(
        "The request line is not a method, a target and a version, one space apart."
    )


def _detail_of_field_line(line: bytes) -> str:
    name, colon, _ = line.partition(b":")
    if line.startswith((b" ", b"\t")):
        return "A header field is folded onto a second line; send it on one."
    if not colon:
        return "A header line has no colon."
    if not name:
        return "A header field has no name."
    if name.endswith((b" ", b"\t")):
        return "There is a space between the name of a header field and its colon."
    return "The name of a header field holds a character that is not allowed there."


def _fault_of_target(method: bytes, target: bytes) -> Problem | None:
    """Whether the target has a form that an origin server serves (RFC 9112 section 3.2)."""
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


def _fault_of_fields(
    weighty: list[tuple[bytes, bytes]], minor: bytes, target: bytes
) -> Problem | None:
    """Whether the fields that say where the message ends, and to whom it goes, leave any doubt."""
    hosts: list[bytes] = []
    lengths: list[bytes] = []
    codings: list[bytes] = []
    for name, value in weighty:
        match name.lower():
            case b"host":
                hosts.append(value)
            case b"content-length":
                lengths.append(value)
            case b"transfer-encoding":
                codings.append(value)
            case b"upgrade" if b"h2c" not in value.lower():
                pass
            case _:
                return MALFORMED.problem("HTTP/2 in clear text is not spoken here.")
    return (
        _fault_of_coding(codings, lengths, minor)
        or _fault_of_length(lengths)
        or _fault_of_host(hosts, minor, target)
    )


def _fault_of_coding(codings: list[bytes], lengths: list[bytes], minor: bytes) -> Problem | None:
    """RFC 9112 section 6.1."""
    if not codings:
        return None
    if lengths:
        return MALFORMED.problem("Content-Length and Transfer-Encoding exclude each other.")
    if minor == b"0":
        return MALFORMED.problem("Transfer-Encoding does not exist in HTTP/1.0.")
    if len(codings) > 1:
        return MALFORMED.problem("Transfer-Encoding is sent more than once.")
    if codings[0].lower() != b"chunked":
        return MALFORMED.problem("The only transfer coding understood here is chunked.")
    return None


def _fault_of_length(lengths: list[bytes]) -> Problem | None:
    """RFC 9112 section 6.3."""
    if not lengths:
        return None
    if len(lengths) > 1:
        return MALFORMED.problem("Content-Length is sent more than once.")
    if not lengths[0].isdigit() or len(lengths[0]) > LENGTH_DIGITS:
        return MALFORMED.problem("Content-Length must be one number, in digits.")
    return None


def _fault_of_host(hosts: list[bytes], minor: bytes, target: bytes) -> Problem | None:
    """RFC 9112 section 3.2."""
    if not hosts:
        return MALFORMED.problem("The Host header is missing.") if minor == b"1" else None
    if len(hosts) > 1:
        return MALFORMED.problem("Host is sent more than once.")
    if not _AUTHORITY.fullmatch(hosts[0]):
        return MALFORMED.problem("Host must be a host name or address, with a port if need be.")
    if not target.startswith(b"/"):
        absolute = _ABSOLUTE_FORM.fullmatch(target)
        if absolute is not None and absolute["authority"].lower() != hosts[0].lower():
            return MALFORMED.problem("The request target and Host name different hosts.")
    return None


def _forbidden_byte(found: bytes) -> Problem:
    if found in (b"\n", b"\r"):
        return MALFORMED.problem("Lines of a request head end in CR LF, both together.")
    return MALFORMED.problem("The request head holds a control character.")


def _target_too_long(limits: HeadLimits) -> Problem:
    return TARGET_TOO_LONG.problem(f"The request target is longer than {limits.target} bytes.")


def _head_too_large(limits: HeadLimits) -> Problem:
    return HEAD_TOO_LARGE.problem(
        f"The request head is larger than {limits.head} bytes or {limits.fields} header fields."
    )

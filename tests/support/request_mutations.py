"""Mutations of valid HTTP requests: of their bytes, lines, targets and bodies.

Each is a function of a random source and a request, complete as bytes; what it gives need not be a
request any more. `mutant` makes whole cases of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final


def mutant(valid_requests: Sequence[bytes], seed: int, number: int) -> bytes:
    """Case `number` of this seed: one of the requests after one to four mutations."""
    rng = random.Random(f"{seed}/{number}")
    request = rng.choice(valid_requests)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        mutate = rng.choice(MUTATIONS)
        request = mutate(rng, request)
    return request


# Bytes, without a thought to what they mean.

NASTY_BYTES: Final = (
    *(bytes((byte,)) for byte in b'\x00\r\n\t :;,/%#?"\\{}[]\x7f\x80\xff'),
    *(b"\r\n", b"\r\n\r\n", b"\n\n", b"%00", b"%2F", b"%c3%28", b"%", b"..", b"\xed\xa0\x80"),
    *(b"\xef\xbb\xbf", b"A" * 300, b"9" * 50, b"\x16\x03\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
)


def _flip_bit(rng: random.Random, request: bytes) -> bytes:
    place = rng.randrange(len(request) + 1)
    flipped = bytes(byte ^ 1 << rng.randrange(8) for byte in request[place : place + 1])
    return request[:place] + flipped + request[place + 1 :]


def _insert(rng: random.Random, request: bytes) -> bytes:
    place = rng.randrange(len(request) + 1)
    return request[:place] + rng.choice(NASTY_BYTES) + request[place:]


def _overwrite(rng: random.Random, request: bytes) -> bytes:
    place = rng.randrange(len(request) + 1)
    nasty = rng.choice(NASTY_BYTES)
    return request[:place] + nasty + request[place + len(nasty) :]


def _cut_out(rng: random.Random, request: bytes) -> bytes:
    start, end = sorted(rng.randrange(len(request) + 1) for _ in range(2))
    return request[:start] + request[min(end, start + rng.choice((1, 2, 10, 1000))) :]


def _repeat(rng: random.Random, request: bytes) -> bytes:
    start, end = sorted(rng.randrange(len(request) + 1) for _ in range(2))
    return request[:end] + request[start:end] * rng.choice((1, 1, 2, 20)) + request[end:]


def _break_off(rng: random.Random, request: bytes) -> bytes:
    return request[: rng.randrange(len(request) + 1)]


def _noise(rng: random.Random, request: bytes) -> bytes:
    place = rng.randrange(len(request) + 1)
    return request[:place] + rng.randbytes(rng.choice((1, 8, 200))) + request[place:]


# Lines of the head.

NASTY_LINES: Final = (
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding : chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Content-Length: 5",
    b"Content-Length: +5",
    b"Content-Length: 5, 5",
    b"Content-Length: -1",
    b"Content-Length: 1000000000000",
    b"Content-Length: 99999999999999999999999",
    b"Content-Encoding: gzip",
    b"Content-Type: text/plain",
    b"Content-Type: application/json; charset=utf-16",
    b"Content-Type: application/problem+json",
    b"Expect: 100-continue",
    b"Expect: nonsense",
    b"Host: evil.example",
    b"Host:",
    b"Connection: close",
    b"Connection: upgrade, keep-alive",
    b"Upgrade: h2c",
    b"HTTP2-Settings: AAMAAABkAAQAAP__",
    b"X-Api-Key: ",
    b"X-Api-Key: \xc3\xa9\xff",
    b"X-Api-Key: " + b"k" * 10_000,
    b"X-Forwarded-For: 127.0.0.1",
    b"X-Forwarded-Host: evil.example",
    b"X-Sandbox-Scenario: nonsense",
    b"X-Long: " + b"x" * 40_000,
    b" folded: yes",
    b": nameless",
    b"no colon",
    b"Range: bytes=0-0",
    b"Accept: text/html",
    b"Cookie: a=b; c=d",
)


def _split(request: bytes) -> tuple[list[bytes], bytes]:
    head, _, body = request.partition(b"\r\n\r\n")
    return head.split(b"\r\n"), body


def _join(lines: list[bytes], body: bytes) -> bytes:
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _drop_line(rng: random.Random, request: bytes) -> bytes:
    lines, body = _split(request)
    del lines[rng.randrange(len(lines))]
    return _join(lines, body)


def _double_line(rng: random.Random, request: bytes) -> bytes:
    lines, body = _split(request)
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return _join(lines, body)


def _add_line(rng: random.Random, request: bytes) -> bytes:
    lines, body = _split(request)
    lines.insert(rng.randrange(1, len(lines) + 1), rng.choice(NASTY_LINES))
    return _join(lines, body)


def _many_lines(rng: random.Random, request: bytes) -> bytes:
    lines, body = _split(request)
    return _join(lines + [b"X-%d: y" % number for number in range(rng.choice((50, 150)))], body)


def _other_method(rng: random.Random, request: bytes) -> bytes:
    others = (
        b"GET",
        b"POST",
        b"PUT",
        b"DELETE",
        b"OPTIONS",
        b"TRACE",
        b"CONNECT",
        b"get",
        b"M-X",
        b"",
    )
    return rng.choice(others) + b" " + request.partition(b" ")[2]


def _other_version(rng: random.Random, request: bytes) -> bytes:
    others = (b"HTTP/1.0", b"HTTP/0.9", b"HTTP/1.2", b"HTTP/2", b"HTTP/11", b"http/1.1", b"")
    return request.replace(b"HTTP/1.1", rng.choice(others), 1)


# The target.


def _with_target(request: bytes, change: Callable[[bytes], bytes]) -> bytes:
    method, _, rest = request.partition(b" ")
    target, _, rest = rest.partition(b" ")
    return b" ".join((method, change(target), rest))


def _nasty_in_target(rng: random.Random, request: bytes) -> bytes:
    pieces = (
        *(b"/", b"//", b"/./", b"/../", b"%2e%2e/", b"%2F", b"%252F", b"%00", b"%", b"%zz", b"%ff"),
        *(b"%ed%a0%80", b"+", b";a=b", b"?", b"?page=%00", b"?pageSize=1e9", b"&from=&to=", b"#x"),
        *(b"*", b"http://evil.example/", b"x" * 300, b"%41" * 3000, b"x" * 12_000, b"\xc3\xa9"),
    )

    def change(target: bytes) -> bytes:
        place = rng.randrange(len(target) + 1)
        return target[:place] + rng.choice(pieces) + target[place:]

    return _with_target(request, change)


def _less_target(rng: random.Random, request: bytes) -> bytes:
    def change(target: bytes) -> bytes:
        segments = target.split(b"/")
        del segments[rng.randrange(len(segments))]
        return b"/".join(segments)

    return _with_target(request, change)


# The body, with a Content-Length that fits it.

NASTY_JSON: Final = (
    *(
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-1",
        "1e2",
        "1e400",
        "1e1000000000",
        "0.1",
        "00.5",
        "+1",
    ),
    *("NaN", "Infinity", "-Infinity", "9" * 41, "9" * 5000, "0x10", "1_000", ".5", "1.", "10.505"),
    *('""', '" "', '"x"', '"\\ud800"', '"\\u0000"', '"a\\u0001b"', '"\t"', '"\\x"', "'x'", '"é😀"'),
    *('"' + "x" * 300 + '"', '"javascript:alert(1)"', '"https://127.0.0.1/"', '"//x"', '"٣"'),
    *("{}", "[]", "[1]", '{"value":1}', '{"a":1,"a":2}', "[" * 40 + "]" * 40, "[" * 9000),
    *("", ",", "}", "{", "//", "\ufeff1"),
)


def _with_body(request: bytes, body: bytes) -> bytes:
    lines, _ = _split(request)
    other_lines = [line for line in lines if not line.lower().startswith(b"content-length:")]
    return _join([*other_lines, b"Content-Length: %d" % len(body)], body)


def _nasty_value(rng: random.Random, request: bytes) -> bytes:
    """Put a nasty value in place of some member's, or a nasty member beside it."""
    _, body = _split(request)
    colons = [place for place, byte in enumerate(body) if byte == ord(":")]
    if not colons:
        return _with_body(request, rng.choice(NASTY_JSON).encode("utf-8"))
    start = rng.choice(colons) + 1
    end = min((e for e in (body.find(b",", start), body.find(b"}", start)) if e > 0), default=start)
    return _with_body(request, body[:start] + rng.choice(NASTY_JSON).encode("utf-8") + body[end:])


def _nasty_body(rng: random.Random, request: bytes) -> bytes:
    """Mutate the bytes of the body alone."""
    _, body = _split(request)
    mutate = rng.choice((_flip_bit, _insert, _overwrite, _cut_out, _repeat, _break_off, _noise))
    return _with_body(request, mutate(rng, body))


def _large_body(rng: random.Random, request: bytes) -> bytes:
    return _with_body(request, b'{"a":"' + b"x" * rng.choice((60_000, 65_536, 300_000)) + b'"}')


def _chunked(rng: random.Random, request: bytes) -> bytes:
    """The same body in chunks, now and then in broken ones."""
    lines, body = _split(request)
    other_lines = [line for line in lines if not line.lower().startswith(b"content-length:")]
    size = rng.choice((1, 7, 100, 100_000))
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    end = rng.choice(
        (b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"0\r\n\n", b"-1\r\n", b"5;\r\n")
    )
    return _join([*other_lines, b"Transfer-Encoding: chunked"], chunks + end)


def _wrong_length(rng: random.Random, request: bytes) -> bytes:
    lines, body = _split(_with_body(request, _split(request)[1]))
    wrong = max(0, len(body) + rng.choice((-100, -1, 1, 100)))
    return _join([*lines[:-1], b"Content-Length: %d" % wrong], body)


def _another_behind(rng: random.Random, request: bytes) -> bytes:
    return request + rng.choice((request, b"\r\n" + request, request[:40], b"\n", b"\0"))


MUTATIONS: Final[tuple[Callable[[random.Random, bytes], bytes], ...]] = (
    *(_flip_bit, _insert, _overwrite, _cut_out, _repeat, _break_off, _noise),
    *(_drop_line, _double_line, _add_line, _add_line, _many_lines, _other_method, _other_version),
    *(_nasty_in_target, _nasty_in_target, _less_target),
    *(_nasty_value, _nasty_value, _nasty_value, _nasty_body, _large_body, _chunked, _wrong_length),
    _another_behind,
)

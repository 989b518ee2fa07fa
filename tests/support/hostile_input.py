"""Builds requests and answers that are as large as they may be, and as laborious to read as their
size allows; and harmless ones of the same size to compare them with.

Every function takes the size in bytes and returns texts by name; `harmless` is one of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TypeAlias

from tests.support.api_requests import body as creation_body

HEAD_BYTES = 32 * 1024
TARGET_BYTES = 9 * 1024
BODY_BYTES = 256 * 1024
RESPONSE_HEAD_BYTES = 16 * 1024
RESPONSE_BODY_BYTES = 256 * 1024

Corpus: TypeAlias = Mapping[str, bytes]
RECORDS = b"/gateway/mmo/v2/records?from=2026-11-21&to=2026-11-22"
CREATE = b"/gateway/mmo/v2/direct/payin/mpesa_ke"


def fill(pattern: bytes, size: int) -> bytes:
    """Return the pattern repeated, cut to this size."""
    return (pattern * (size // len(pattern) + 1))[: max(0, size)]


def fields(size: int) -> Corpus:
    """Return field lines, CR LF included, of this size in all."""

    def one(name: bytes, begin: bytes, repeated: bytes, end: bytes = b"") -> bytes:
        line = name + b": " + begin
        return line + fill(repeated, size - len(line) - len(end) - 2) + end + b"\r\n"

    width = size // 98 - 13
    found = {
        "harmless": b"".join(
            b"X-Field%02d: %b\r\n" % (number, fill(b"value; ", width)) for number in range(98)
        ),
        "blanks within": one(b"X", b"a", b" ", b"b"),
        "blanks behind": one(b"X", b"a", b" "),
        "blanks before": one(b"X", b"", b" ", b"b"),
        "tabs and letters": one(b"X", b"", b"\ta"),
        "letters and blanks": one(b"X", b"", b"a "),
        "one long value": one(b"X", b"", b"a"),
        "obsolete text": one(b"X", b"", b"\xff"),
        "a long name": fill(b"a", size - 4) + b": \r\n",
        "very many fields": fill(b"a:\r\n", size - size % 4),
        "many lines of blanks": b"".join(
            b"X%02d: a%bb\r\n" % (number, b" " * (width + 4)) for number in range(98)
        ),
        "a control character at the end": one(b"X", b"", b"a", b"\0"),
        "a lone LF at the end": one(b"X", b"", b"a", b"\nb"),
        "a lone CR at the end": one(b"X", b"", b"a", b"\rb"),
        "no colon": fill(b"a", size - 2) + b"\r\n",
        "a blank before the colon": one(b"X ", b"", b"a"),
        "a folded line": one(b"X", b"", b"a\r\n "),
    }
    for name in (b"Content-Length", b"Transfer-Encoding", b"Upgrade", b"HTTP2-Settings", b"Host"):
        found[f"blanks within {name.decode()}"] = one(name, b"1", b" ", b"b")
        found[f"commas in {name.decode()}"] = one(name, b"1", b",1")
    for name, begin, repeated in (
        (b"Content-Type", b"application/json", b";"),
        (b"Content-Type", b"application/json", b"; a=b"),
        (b"Content-Type", b'application/json; a="', b'\\"'),
        (b"Content-Type", b"application/json", b" ;"),
        (b"Connection", b"", b"a,"),
        (b"Connection", b"close", b" ,"),
        (b"Expect", b"", b"100-continue,"),
        (b"X-Forwarded-For", b"", b"1.1.1.1,"),
        (b"X-Forwarded-For", b"", b","),
        (b"X-Forwarded-Host", b"", b"[a,"),
        (b"X-Sandbox-Scenario", b"", b" a,"),
        (b"X-Api-Key", b"", b" a"),
        (b"Cookie", b"", b"a=b;"),
    ):
        found[f"{name.decode()}: {begin.decode()} {repeated.decode()!r}"] = one(
            name, begin, repeated
        )
    return found


def queries(size: int) -> Corpus:
    """Return query strings of this size."""
    return {
        "harmless": b"from=2026-11-21&to=2026-11-22&method=" + fill(b"mpesa_ke", size - 37),
        "zeros in a page size": b"pageSize=" + fill(b"0", size - 10) + b"x",
        "digits in a page size": b"pageSize=" + fill(b"9", size - 9),
        "escapes": b"method=" + fill(b"%20", size - 7 - (size - 7) % 3),
        "letters and escapes": b"method=" + fill(b"a%C3%A9", size - 7 - (size - 7) % 7),
        "stray escapes": b"method=" + fill(b"%", size - 7),
        "ampersands": fill(b"&", size),
        "very many parameters": fill(b"a&", size),
        "very many parameters with values": fill(b"a=b&", size),
        "the same name again": fill(b"to=&", size),
        "encoded names": fill(b"%61=&", size),
        "encoded names of ours": fill(b"t%6f=&", size),
        "blanks within": b"from=a" + fill(b"+", size - 7) + b"b",
        "blanks behind": b"from=2026-11-21" + fill(b"+", size - 15),
        "digits in a time": b"from=" + fill(b"2", size - 5),
        "a fraction in a time": b"from=2026-11-21T00:00:00." + fill(b"2", size - 25),
        "a cursor": b"page=" + fill(b"A", size - 5),
        "a cursor of signs": b"page=" + fill(b"-_=", size - 5),
    }


def paths(size: int) -> Corpus:
    """Return paths of this size."""
    mref = b"/gateway/mmo/v2/status/mref/"
    return {
        "a path of slashes": fill(b"/", size),
        "a path of dots": b"/" + fill(b"../", size - 1),
        "a method of escapes": CREATE[:-8] + fill(b"%41", (size - len(CREATE) + 8) // 3 * 3),
        "a reference of escapes": mref + fill(b"%C3%A9", (size - len(mref)) // 6 * 6),
        "a reference of bad escapes": mref + fill(b"%4", size - len(mref)),
        "a long ULID": b"/gateway/mmo/v2/status/" + fill(b"0", size - 23),
        "a hook of slashes": b"/hooks/a/b" + fill(b"/c", size - 10),
        "an absolute target": b"http://a" + fill(b"a.", size - 9) + b"/",
        "an absolute target of ports": b"http://a" + fill(b":1", size - 8),
    }


def request_head(field_lines: bytes, *, method: bytes = b"GET", target: bytes = RECORDS) -> bytes:
    """Return a head of these field lines after those that every request needs."""
    return (
        method
        + b" "
        + target
        + b" HTTP/1.1\r\nHost: pay.example\r\nX-Api-Key: a-key\r\n"
        + field_lines
        + b"\r\n"
    )


def heads(size: int) -> Corpus:
    """Return request heads of this size, with targets of up to 9 KiB."""
    smallest = len(request_head(b""))
    target_size = min(TARGET_BYTES, size // 3)
    found = {name: request_head(lines) for name, lines in fields(size - smallest).items()}
    begin = {
        f"query: {name}": RECORDS.partition(b"?")[0] + b"?" + query
        for name, query in queries(target_size - 24).items()
    }
    for name, target in {**begin, **paths(target_size)}.items():
        remaining = size - smallest - len(target) + len(RECORDS)
        found[name] = request_head(fields(remaining)["harmless"], target=target)
    found["a long method"] = request_head(b"", method=fill(b"A", size - smallest))
    return found


def json_texts(size: int) -> Corpus:
    """Return JSON, and what is nearly JSON, of this size."""

    def text(begin: bytes, repeated: bytes, end: bytes) -> bytes:
        room = size - len(begin) - len(end)
        return begin + fill(repeated, room - room % len(repeated)) + end

    pairs = ((b"key-%05d" % number, number) for number in range(size // 16))
    return {
        "harmless": text(b'{"note":"', b"a plain text, with words; ", b'"}'),
        "ordinary members": _members(size),
        "very many members": b"{"
        + b",".join(b'"%b":%d' % each for each in pairs)[: size - 10]
        + b',"a":1}',
        "numbers": text(b'{"a":[', b"1,", b"1]}"),
        "as many numbers as are allowed": text(b'{"a":[' + b"1," * 990 + b'"', b"x", b'"]}'),
        "as many objects as are allowed": text(b'{"a":[' + b'{"a":1},' * 490 + b'"', b"x", b'"]}'),
        "as many long numbers as are allowed": text(
            b'{"a":[' + fill(b"1" * 60 + b",", 61 * 990) + b'"', b"x", b'"]}'
        ),
        "one long number": text(b'{"a":', b"1", b"}"),
        "one long exponent": text(b'{"a":1e', b"1", b"}"),
        "one long fraction": text(b'{"amount":{"value":0.', b"1", b"}}"),
        "empty objects": text(b'{"a":[', b"{},", b"1]}"),
        "empty arrays": text(b'{"a":[', b"[],", b"1]}"),
        "objects": text(b'{"a":[', b'{"a":1},', b"1]}"),
        "empty strings": text(b'{"a":[', b'"",', b"1]}"),
        "brackets in a string": text(b'{"a":"', b"[{,", b'"}'),
        "open arrays": fill(b"[", size),
        "open objects": fill(b'{"a":', size),
        "quotation marks": fill(b'"', size),
        "escaped quotation marks": text(b'{"a":"', b'\\"', b""),
        "backslashes": text(b'{"a":"', b"\\", b""),
        "escapes": text(b'{"a":"', b"\\n", b'"}'),
        "escaped letters": text(b'{"a":"', b"\\u00e9", b'"}'),
        "escaped pairs": text(b'{"a":"', b"\\ud83d\\ude00", b'"}'),
        "escaped halves": text(b'{"a":"', b"\\ud83d", b'"}'),
        "pairs and numbers": text(
            b'{"a":"\\ud83d\\ude00","b":[' + b"1," * 980 + b'"', b"x", b'"]}'
        ),
        "letters beyond ASCII": text(b'{"a":"', "é".encode(), b'"}'),
        "blanks": text(b"{", b" ", b"}"),
        "blanks behind": text(b"{}", b" ", b"x"),
        "lines": fill(b"\n", size),
        "bytes that are not UTF-8": text(b'{"a":"', b"a", b'\xff"}'),
        "colons": text(b'{"a"', b":", b"1}"),
    }


def _members(size: int) -> bytes:
    text = b"{" + b",".join(
        b'"member%04d":"%b"' % (number, fill(b"text ", size // 900 - 20)) for number in range(900)
    )
    return text[: size - 2] + b'"}'


def creation_bodies(size: int) -> Corpus:
    """Return bodies of creation requests of this size, most of them with one member that fills
    them."""
    found = dict(json_texts(size))
    members = creation_body()
    without = len(json.dumps({**members, "labels": {"key": ""}}))

    def with_member(repeated: str, **changes: object) -> bytes:
        padding = fill(repeated.encode(), size - without - 200)
        return json.dumps({**members, **changes}).encode()[:-1] + b',"note":"' + padding + b'"}'

    found["harmless"] = with_member("a plain text, with words; ")
    found["as many labels as are allowed"] = with_member(
        "x", labels={f"{n}" * 50: "{[,\\" * 250 for n in range(10)}
    )
    for name, url in {
        "a URL of labels": "https://" + "a." * 1_019 + "b",
        "a URL of dots": "https://" + "." * 2_040,
        "a URL of numbers": "https://" + "1." * 1_019 + "1",
        "a URL of digits": "https://" + "9" * 2_040,
        "a URL of letters beyond ASCII": "https://" + "é" * 2_040,
        "a URL of full-width letters": "https://" + "ａ。" * 1_000,
        "a URL of colons": "https://" + ":" * 2_040,
        "a URL of brackets": "https://[" + "1:" * 1_000 + "]",
        "a URL of escapes": "https://a.example/" + "%41" * 670,
        "a URL with a path beyond ASCII": "https://a.example/" + "é" * 2_000,
    }.items():
        found[name] = with_member("x", resultUrl=url)
    party = {"id": "1", "msisdn": "+254700000000"}
    found["an e-mail address of labels"] = with_member(
        "x", payer={**party, "email": "a@" + "a." * 158 + "!"}
    )
    found["an e-mail address of hyphens"] = with_member(
        "x", payer={**party, "email": "a@a" + "-" * 300 + "!"}
    )
    found["a long msisdn"] = with_member("x", payer={**party, "msisdn": "+" + "1" * 30_000})
    found["a long reference"] = with_member("x", merchantReference=" " * 30_000)
    found["a long label"] = with_member("x", labels={"\x01" * 30_000: 1})
    return {name: text[:size] for name, text in found.items()}


def chunked(
    size: int, *, bytes_each: int, extension: bytes = b"", content: bytes | None = None
) -> bytes:
    """Return content of this size in chunks of the same size, with an extension each."""
    whole = fill(b"x", size) if content is None else content
    pieces = [whole[at : at + bytes_each] for at in range(0, len(whole), bytes_each)]
    return (
        b"".join(b"%x%b\r\n%b\r\n" % (len(each), extension, each) for each in pieces) + b"0\r\n\r\n"
    )


def response_heads(size: int) -> Corpus:
    """Return response heads of this size."""
    status = b"HTTP/1.1 200 OK\r\n"
    found = {
        name: status + lines + b"\r\n" for name, lines in fields(size - len(status) - 2).items()
    }
    found["a long reason"] = b"HTTP/1.1 200 " + fill(b" ", size - 17) + b"\r\n\r\n"
    found["interim answers"] = b"HTTP/1.1 100 \r\n\r\n" * 10 + status + b"\r\n"
    return found


def cut(text: bytes, size: int) -> list[bytes]:
    """Return the text in pieces of this size, as a slow sender cuts it."""
    return [text[at : at + size] for at in range(0, len(text), size)]


Parser: TypeAlias = Callable[[bytes], object]

"""Lists what a connection can bring, whole: heads, bodies, and bodies in chunks, each as large as
it may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from attrs import frozen

from tests.support import hostile_input
from tests.support.hostile_input import BODY_BYTES, CREATE, HEAD_BYTES, chunked, cut, request_head

Pieces: TypeAlias = tuple[bytes, ...]
JSON = b"Content-Type: application/json\r\n"
READ_BYTES = 64 * 1024


@frozen
class Case:
    """Is one hostile request with a harmless one of the same length, as the reads of the connection
    bring them."""

    name: str
    hostile: Pieces
    harmless: Pieces


def cases() -> Iterator[Case]:
    """Yield every request of the corpus at the largest size that is allowed."""
    heads = hostile_input.heads(HEAD_BYTES)
    for name, head in heads.items():
        yield Case(
            f"head: {name}", *(tuple(cut(each, READ_BYTES)) for each in (head, heads["harmless"]))
        )
        yield Case(
            f"head in pieces: {name}",
            *(tuple(cut(each, 512)) for each in (head, heads["harmless"])),
        )
    empty = b"\r\n" * (HEAD_BYTES // 2)
    yield Case("empty lines before a head", (empty + request_head(b""),), (heads["harmless"],))
    bodies = hostile_input.creation_bodies(BODY_BYTES)
    harmless = posted(bodies["harmless"])
    for name, body in bodies.items():
        yield Case(f"body: {name}", posted(body), harmless)
        yield Case(
            f"body in pieces: {name}",
            posted(body, read_bytes=4096),
            posted(bodies["harmless"], read_bytes=4096),
        )
    for size, extension in ((256, b""), (512, b";a=b"), (1024, b";" + b"x" * 240), (65_536, b"")):
        text = chunked(BODY_BYTES, bytes_each=size, extension=extension, content=bodies["harmless"])
        yield Case(f"chunks of {size} bytes", in_chunks(text), harmless)
    yield Case("chunks of one byte", in_chunks(b"1\r\nx\r\n" * 10_000), harmless)
    yield Case("a long line before a chunk", in_chunks(b"1;" + b"x" * BODY_BYTES), harmless)
    yield Case("zeros before a chunk", in_chunks(b"0" * BODY_BYTES), harmless)


def posted(body: bytes, *, read_bytes: int = READ_BYTES) -> Pieces:
    """Return the reads of a creation request with this body."""
    head = request_head(JSON + b"Content-Length: %d\r\n" % len(body), method=b"POST", target=CREATE)
    return tuple(cut(head + body, read_bytes))


def in_chunks(chunks: bytes) -> Pieces:
    """Return the reads of a creation request with this chunked body."""
    head = request_head(JSON + b"Transfer-Encoding: chunked\r\n", method=b"POST", target=CREATE)
    return tuple(cut(head + chunks, READ_BYTES))

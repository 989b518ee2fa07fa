"""A fuzzer for HTTP listeners of the gateway: valid requests, mutated, over real sockets.

    await fuzz(("127.0.0.1", 8080), valid_requests, seed=1, count=5000)

Whatever arrives, the listener must answer or close, and what it answers must keep these invariants:

1. no hang: the connection ends within `PATIENCE_S`;
2. every answer is a well-formed HTTP/1.1 answer with `X-Request-Id` and `Cache-Control: no-store`;
3. none is `text/html`;
4. every error is a problem document whose `status` equals the HTTP status;
5. no 5xx, but where the caller allows it.

A case is made from its seed and number alone, so a violation names all that is needed to see it
again (`mutant`). Requests are complete HTTP/1.1 requests as bytes, with a key that is accepted."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import trio

from tests.support.request_mutations import mutant

TIMEOUT_S: Final = 20.0
"""Longer than any limit after which the server closes an idle connection."""
WORKERS: Final = 16
"""Connections at one time."""


class ViolationError(AssertionError):
    """An invariant does not hold; the message has the case and what was answered."""


async def fuzz(
    address: tuple[str, int],
    valid_requests: Sequence[bytes],
    *,
    seed: int,
    count: int,
    allowed: Collection[int] = (),
) -> Counter[int]:
    """Send `count` mutants, each on a connection of its own; how often each status was answered, 0
    for a connection closed without an answer. Raises ViolationError at the first invariant that
    breaks.

    `allowed` are the 5xx that are right here: 503 belongs there when the listener's caps are
    low."""
    tally: Counter[int] = Counter()
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            sent = mutant(valid_requests, seed, number)
            came = await _exchange(address, sent)
            try:
                statuses = check_answers(came, allowed=allowed, lenient=b"HEAD" in sent)
            except ViolationError as violation:
                case = f"seed {seed}, case {number}: sent {sent[:2000]!r}"
                raise ViolationError(f"{violation}; {case}; came {came[:2000]!r}") from None
            tally.update(statuses or [0])

    async with trio.open_nursery() as nursery:
        for _ in range(WORKERS):
            nursery.start_soon(work)
    return tally


async def _exchange(address: tuple[str, int], sent: bytes) -> bytes:
    """Send the bytes, end the stream, and read everything."""
    came = bytearray()
    with trio.move_on_after(TIMEOUT_S) as timeout:
        stream = await trio.open_tcp_stream(*address)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_send, stream, sent)
                async for data in stream:
                    came += data
                nursery.cancel_scope.cancel()
        except* trio.BrokenResourceError:
            pass  # a reset is an end, too; an answer cut short by it fails the check
        finally:
            await trio.aclose_forcefully(stream)
    if timeout.cancelled_caught:
        raise ViolationError(f"hangs: sent {sent[:2000]!r}; came {bytes(came[:2000])!r}")
    return bytes(came)


async def _send(stream: trio.SocketStream, sent: bytes) -> None:
    try:
        await stream.send_all(sent)
        await stream.send_eof()
    except trio.BrokenResourceError:
        pass  # it has heard enough: what it answered is read by the other task


def check_answers(
    came: bytes, *, allowed: Collection[int] = (), lenient: bool = False
) -> list[int]:
    """The statuses of all final answers; raises ViolationError. `lenient` lets an answer lack the
    body it announces, as answers to HEAD do."""
    statuses = []
    while came:
        head, end, came = came.partition(b"\r\n\r\n")
        status_line, *lines = head.split(b"\r\n")
        if not end or not re.fullmatch(rb"HTTP/1\.1 [1-5][0-9][0-9] .*", status_line):
            raise ViolationError(f"no HTTP/1.1 answer: {head!r}")
        status = int(status_line[9:12])
        if status == 100:
            continue
        parted = (line.partition(b": ") for line in lines)
        fields = {name.lower(): value for name, _, value in parted}
        length = int(fields.get(b"content-length", b"0"))
        is_bare = lenient and (not came or came.startswith(b"HTTP/1.1 "))
        if len(came) < length and not is_bare:
            raise ViolationError(f"{status} is cut short")
        body, came = (b"", came) if is_bare else (came[:length], came[length:])
        _check(status, fields, None if is_bare else body, allowed)
        statuses.append(status)
    return statuses


def _check(
    status: int, fields: dict[bytes, bytes], body: bytes | None, allowed: Collection[int]
) -> None:
    kind = fields.get(b"content-type", b"").lower()
    if not fields.get(b"x-request-id") or fields.get(b"cache-control") != b"no-store":
        raise ViolationError(f"{status} lacks X-Request-Id or Cache-Control")
    if kind.startswith(b"text/html"):
        raise ViolationError(f"{status} is HTML")
    if status >= 500 and status not in allowed:
        raise ViolationError(f"{status} is not for a client to cause")
    if status >= 400 and kind != b"application/problem+json":
        raise ViolationError(f"{status} is {kind!r}, not a problem document")
    if status >= 400 and body is not None:
        problem = json.loads(body)
        if problem.get("status") != status:
            raise ViolationError(f"{status} with a document that says {problem.get('status')}")
        if not {"type", "title", "detail", "errorCode"} <= problem.keys():
            raise ViolationError(f"{status} with an incomplete document")

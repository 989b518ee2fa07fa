"""Runs receivers that a sandbox trusts; they record requests and may misbehave."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import frozen

from mmo_trio.sandbox.callback_receiver import OnRequest, ReceivedKind, ReceivedRequest
from mmo_trio.sandbox.local_ca import ensure_authority
from tests.support.hostile_receivers import Behaviour, Receiver, answers, running_receiver
from tests.support.merchant import TIMEOUT_S

NO_CONTENT = answers(b"HTTP/1.1 204 No Content\r\n\r\n")
"""The answer of a merchant to a callback."""


def answers_status(status: str, *headers: str) -> Behaviour:
    """Answers every request with this status line's end, and no body."""
    lines = (f"HTTP/1.1 {status}", "Content-Length: 0", *headers)
    return answers("".join(f"{line}\r\n" for line in lines).encode() + b"\r\n")


@asynccontextmanager
async def receiver(
    directory: Path, behave: Behaviour = NO_CONTENT, *, name: str = "localhost"
) -> AsyncIterator[Receiver]:
    """A receiver whose certificate is for this name and comes from the sandbox's own authority."""
    async with running_receiver(behave, ensure_authority(directory).issue(name)) as found:
        yield found


def url_of(receiver: Receiver) -> str:
    """Return the URL of its callbacks."""
    return f"https://localhost:{receiver.port}/callback"


def sort_requests(
    callbacks: list[ReceivedRequest],
    codes: list[ReceivedRequest] | None = None,
    refused: list[ReceivedRequest] | None = None,
) -> OnRequest:
    """Appends each new callback, each QR code and each request with a wrong key to its list."""

    def on_request(received: ReceivedRequest) -> None:
        if not received.has_right_key:
            (refused if refused is not None else []).append(received)
        elif received.kind is ReceivedKind.QR_CODE:
            (codes if codes is not None else []).append(received)
        elif received.kind is ReceivedKind.CALLBACK and not received.is_repeat:
            callbacks.append(received)

    return on_request


async def wait_for_requests(found: Receiver, count: int = 1) -> None:
    """Return once this many requests have arrived whole."""
    with trio.fail_after(TIMEOUT_S):
        while True:
            if len(found.requests) >= count:
                return
            await trio.sleep(0.02)


@frozen
class Call:
    """Holds a received callback."""

    line: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def transaction(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


def calls_to(found: Receiver) -> list[Call]:
    """Every request that arrived whole, in order."""
    calls = []
    for request in found.requests:
        head, _, body = request.partition(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")
        pairs = (field.partition(":") for field in fields)
        calls.append(Call(line, {name.lower(): value.strip() for name, _, value in pairs}, body))
    return calls

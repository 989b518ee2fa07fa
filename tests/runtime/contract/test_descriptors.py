"""After any crowd the whole gateway has as many open descriptors as before it."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count, cycle
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import pytest
import trio
import trio.testing
from attrs import Factory, define

from mmo_trio.storage.sqlite.connection import READERS_MAX
from tests.support.effort import by_effort
from tests.support.http_listener import Client
from tests.support.merchant import ROOT, TIMEOUT_S
from tests.support.sandbox_gateway import Running, Serve
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = [pytest.mark.long, pytest.mark.http1("sends bytes")]

REQUESTS = by_effort(500, 10_000)
STORE_FILES = 3 + 2 * (1 + READERS_MAX)
"""Its lock, the database that is locked as well, and its shared memory; the database and its log,
once for the writer and once for each reader, of which a loaded machine opens all."""
VISITORS = 16
SHORT_S = 5
"""So short that a crowd is soon gone, and so long that a machine that stalls cuts nobody off."""
LIMITS = [f"MMO_LIMITS_{each}_TIMEOUT" for each in ("IDLE", "HEAD", "BODY", "WRITE")]
SHORT = dict.fromkeys(LIMITS, f"{SHORT_S}s")


@define
class Crowd:
    """A merchant's octets for one gateway, and how many requests were sent."""

    gateway: Running
    orders: count[int] = Factory(count)
    sent: int = 0

    async def connect(self) -> Client:
        """A new connection to the merchant API."""
        parts = urlsplit(self.gateway.ready.api)
        return Client(await trio.open_tcp_stream("127.0.0.1", parts.port or 80))

    def get(self, path: str, *lines: str, version: str = "1.1") -> bytes:
        """GET a path below the root."""
        return self._head("GET", path, *lines, version=version)

    def create(self, *lines: str) -> bytes:
        """A pay-in that is in order."""
        merchant = self.gateway.merchant
        body = merchant.body(merchantReference=f"census-{next(self.orders)}")
        raw = json.dumps(body).encode()
        given = ("Content-Type: application/json", f"Content-Length: {len(raw)}", *lines)
        return self._head("POST", "direct/payin/mpesa_ke", *given) + raw

    def _head(self, method: str, path: str, *lines: str, version: str = "1.1") -> bytes:
        self.sent += 1
        key = f"X-Api-Key: {self.gateway.merchant.key}"
        first = f"{method} {ROOT}/{path} HTTP/{version}"
        return "\r\n".join((first, "Host: gateway", key, *lines, "", "")).encode()


UNKNOWN = "status/01ARZ3NDEKTSV4RRFFQ69G5FAV"
RECORDS = "records?from=2020-01-01&to=2100-01-01"
Way: TypeAlias = Callable[[Crowd, Client], Awaitable[None]]


async def in_http_1_0(crowd: Crowd, client: Client) -> None:
    assert (await client.ask(crowd.get(UNKNOWN, version="1.0"))).status == 404
    assert await client.is_closed()


async def closing(crowd: Crowd, client: Client) -> None:
    assert (await client.ask(crowd.get(UNKNOWN, "Connection: close"))).status == 404
    assert await client.is_closed()


async def creating(crowd: Crowd, client: Client) -> None:
    assert (await client.ask(crowd.create())).status == 200


async def many_in_a_row(crowd: Crowd, client: Client) -> None:
    for _ in range(20):
        assert (await client.ask(crowd.get(UNKNOWN))).status == 404
    assert (await client.ask(crowd.get(RECORDS + "&pageSize=5"))).status == 200


async def left_idle(crowd: Crowd, client: Client) -> None:
    assert (await client.ask(crowd.get(UNKNOWN))).status == 404
    assert await client.is_closed()


async def refused(crowd: Crowd, client: Client) -> None:
    crowd.sent += 1
    assert (await client.ask(b"nonsense\r\n")).status == 400
    assert await client.is_closed()


async def aborted(crowd: Crowd, client: Client) -> None:
    """Cut off somewhere, with a reset."""
    request = crowd.create()
    await client.send(request[: random.Random(crowd.sent).randrange(len(request) + 1)])
    reset(client)


async def unread(crowd: Crowd, client: Client) -> None:
    """Ten requests in one breath, and away."""
    await client.send(b"".join(crowd.get(UNKNOWN) for _ in range(10)))


WAYS: tuple[Way, ...] = (
    *(in_http_1_0, closing, many_in_a_row, creating, refused, aborted, unread, many_in_a_row),
    left_idle,
)


def reset(client: Client) -> None:
    """Let the connection's end be an abort rather than a good-bye."""
    assert isinstance(client.stream, trio.SocketStream)
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def visit(crowd: Crowd, requests: int) -> None:
    """So many requests more, on many connections at once, each in another way; then all is at rest
    again."""
    enough = crowd.sent + requests

    async def keep_visiting() -> None:
        for way in cycle(WAYS):
            client = await crowd.connect()
            await way(crowd, client)
            await trio.aclose_forcefully(client.stream)
            if crowd.sent >= enough:
                break

    with trio.fail_after(HANGS_AFTER_S):
        async with trio.open_nursery() as nursery:
            for _ in range(VISITORS):
                nursery.start_soon(keep_visiting)
    await at_rest(crowd.gateway)


async def at_rest(gateway: Running) -> None:
    """Wait until every payment has its callback's outcome, so that nothing of ours is open on their
    behalf."""
    merchant = gateway.merchant
    with trio.fail_after(TIMEOUT_S):
        while True:
            answer = await merchant.records(begin="2020-01-01", to="2100-01-01", pageSize=5000)
            made = {each["gatewayReference"] for each in answer.json["data"]}
            if made == {each.gateway_reference for each in gateway.received}:
                return
            await trio.sleep(0.05)


def open_files(gateway: Running) -> Counter[str]:
    """How many descriptors are open: the files of this gateway's store, the pairs of sockets by
    which its threads report, and all others. It keeps files and pairs for later readers, as many as
    there ever were readers at once."""
    table = Path("/proc/net/unix").read_text(encoding="ascii").splitlines()[1:]
    pairs = {f"socket:[{line.split()[6]}]" for line in table}
    found, store = Counter[str](), str(gateway.directory / "gateway.db")
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # It was the one that the directory was listed by.
            target = os.readlink(f"/proc/self/fd/{name}")
            if target.startswith(store):
                found["store"] += 1
            elif "gateway.db" not in target:  # Of a gateway that other tests share.
                found["pairs" if target in pairs else "others"] += 1
    return found


@pytest.mark.own_store
async def test_after_a_crowd_no_descriptor_is_left_open(serve: Serve) -> None:
    async with serve(environment=SHORT) as gateway:
        await gateway.merchant.accepted()  # It has done everything once.
        await at_rest(gateway)
        crowd = Crowd(gateway)
        await trio.testing.wait_all_tasks_blocked(0.1)
        before = open_files(gateway)
        await visit(crowd, REQUESTS)
        with trio.fail_after(TIMEOUT_S):
            while open_files(gateway)["others"] > before["others"]:  # noqa: ASYNC110
                await trio.sleep(0.02)
        after = open_files(gateway)
        assert after["store"] <= STORE_FILES
        assert after["pairs"] <= before["pairs"] + 2 * READERS_MAX

"""Whatever arrives at the whole gateway, it answers as it should, or closes."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import pytest
import trio

from mmo_sansio.values.model import Operation
from mmo_trio.storage.sqlite.connection import READERS_MAX
from tests.support.effort import by_effort
from tests.support.http_listener import open_descriptors, wait_for_descriptors
from tests.support.merchant import ROOT, TIMEOUT_S
from tests.support.request_fuzzer import fuzz
from tests.support.sandbox_gateway import Running, Serve
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = [pytest.mark.long, pytest.mark.http1("sends bytes")]

REQUESTS = by_effort(5_000, 100_000)
PER_S_AT_LEAST = 50
"""Requests per second below which something hangs; usually it is a multiple of this."""
SHORT = {"MMO_LIMITS_CALLBACK_TIMEOUT": "1s", "MMO_LIMITS_CONNECTIONS_PER_ADDRESS": "4096"}
"""Callbacks whose address was mutated may lead anywhere on this machine: they aren't waited for."""


def request(gateway: Running, method: str, path: str, body: dict[str, object] | None) -> bytes:
    """The octets of a good request."""
    lines = [f"{method} {ROOT}/{path} HTTP/1.1", "Host: gateway"]
    lines += [f"X-Api-Key: {gateway.merchant.key}"]
    raw = b"" if body is None else json.dumps(body).encode()
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(raw)}"]
    return "\r\n".join((*lines, "", "")).encode() + raw


async def valid_requests(gateway: Running) -> list[bytes]:
    """One good request at least for each endpoint."""
    merchant = gateway.merchant
    known = await merchant.accepted(labels={"till": 7, "note": "Zażółć"})
    await merchant.accepted()
    answer = await merchant.records(begin="2020-01-01", to="2100-01-01", pageSize=1)
    page = answer.json["pages"]["next"]
    creations = [
        request(
            gateway,
            "POST",
            f"{operation.value}/{merchant.method}",
            merchant.body(operation.value, labels={"till": 7}),
        )
        for operation in Operation
    ]
    window = "from=2020-01-01T00:00:00Z&to=2100-01-01&type=payin&pageSize=5"
    asked = [
        f"status/{known['gatewayReference']}",
        f"status/mref/{known['merchantReference']}",
        f"records?{window}",
        f"records?page={page}",
    ]
    return [*creations, *(request(gateway, "GET", path, None) for path in asked)]


@pytest.mark.spec("G3", "G7", "G9", "P1", "P3", "P4")
async def test_no_mutated_request_breaks_the_gateway(serve: Serve) -> None:
    async with serve(environment=SHORT) as gateway:
        valid = await valid_requests(gateway)
        address = ("127.0.0.1", urlsplit(gateway.ready.api).port or 80)
        before = open_descriptors()
        with trio.fail_after(HANGS_AFTER_S + REQUESTS / PER_S_AT_LEAST):
            tally = await fuzz(address, valid, seed=1, count=REQUESTS)
        print(f"{REQUESTS} requests: {sorted(tally.items())}")
        with trio.fail_after(TIMEOUT_S):
            await wait_for_descriptors(before + 2 * READERS_MAX)
        assert (await gateway.merchant.create()).status == 200
        assert tally.total() >= REQUESTS
        assert {0, 200, 400, 401, 404, 405} <= tally.keys(), "the mutations reach everywhere"

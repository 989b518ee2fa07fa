"""Clients of HTTP/2 that other people wrote, in their default settings, at `listen.http2` of a
sandbox: nghttp2's `nghttp` and `h2load`, and Node's."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from attrs import frozen

from mmo_trio.http.asgi.http2_protocol import STREAMS_MAX
from tests.support.merchant import TIMEOUT_S
from tests.support.mmo_process import FREE_PORTS, serving_process

PROGRAMS = Path(__file__).parent / "programs"
BODY = {
    "amount": {"value": 100, "currency": "KES"},
    "payer": {"id": "user-1", "msisdn": "254712345130"},
    "country": "KE",
    "resultUrl": "https://localhost:9/",
    "merchantReference": "order-1",
}


@frozen
class Sandbox:
    """A sandbox that speaks HTTP/2 in the clear."""

    url: str
    key: str


@asynccontextmanager
async def serving(tmp_path: Path) -> AsyncIterator[Sandbox]:
    """A sandbox as a process of its own."""
    config = tmp_path / "mmo.toml"
    config.write_text('[listen]\nhttp2 = "127.0.0.1:0"\n')
    data, log = tmp_path / "data", tmp_path / "log"
    async with serving_process(
        "sandbox", "--data", data, "--config", config, *FREE_PORTS, log=log
    ) as process:
        yield Sandbox(process.ready["http2"], process.ready["api_key"])


async def output_of(*command: str) -> str:
    """What a program prints; it has to end well."""
    if shutil.which(command[0]) is None:
        pytest.fail(f"{command[0]} is missing. Debian: apt install nghttp2-client nodejs")
    with trio.fail_after(8 * TIMEOUT_S):
        done = await trio.run_process([*command], capture_stdout=True)
    return done.stdout.decode()


async def test_nghttp_makes_a_payment(tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_text(json.dumps(BODY))
    async with serving(tmp_path) as sandbox:
        fields = ("-H", f"x-api-key: {sandbox.key}", "-H", "content-type: application/json")
        target = f"{sandbox.url}/gateway/mmo/v2/direct/payin/mpesa_ke"
        answer = json.loads(await output_of("nghttp", *fields, "-d", str(body), target))
        assert (answer["status"], answer["merchantReference"]) == ("pending", "order-1")


async def test_h2load_is_answered_every_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as sandbox:
        load = ("-n", "2000", "-c", "4", "-m", str(STREAMS_MAX))
        said = await output_of("h2load", *load, f"{sandbox.url}/healthz")
        assert "status codes: 2000 2xx" in said


async def test_h2load_goes_on_after_streams_beyond_the_limit(tmp_path: Path) -> None:
    """It opens a hundred before it knows the limit, and sends none of the refused ones again."""
    async with serving(tmp_path) as sandbox:
        load = ("-n", "1000", "-c", "1", "-m", "100")
        said = await output_of("h2load", *load, f"{sandbox.url}/healthz")
        found = re.search(r"1000 done, (\d+) succeeded, (\d+) failed", said)
        assert found, said
        succeeded, failed = map(int, found.groups())
        assert succeeded + failed == 1000
        assert failed <= 100 - STREAMS_MAX


async def test_node_sends_the_excess_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as sandbox:
        command = ("env", f"API_URL={sandbox.url}", "node", str(PROGRAMS / "node_http2.mjs"))
        said = json.loads(await output_of(*command))
        refused = [each for each in said["first"] if each != 200]
        assert refused == ["error 7"] * (20 - STREAMS_MAX)  # REFUSED_STREAM.
        assert said["again"] == [200] * 20

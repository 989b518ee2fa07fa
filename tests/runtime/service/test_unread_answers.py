"""Clients of the pages and the console that do not read: they hold bytes within a budget, and no
place."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from bench.machine import resident_kib

from mmo_trio.http.asgi.host import PLACES, Pacer
from mmo_trio.service import process
from mmo_trio.settings import Settings
from tests.support.console_browser import ConsoleBrowser, add_users
from tests.support.merchant import Merchant, ask
from tests.support.mmo_process import FREE_PORTS, serving_process
from tests.support.sandbox_gateway import serving
from tests.support.time_limits import HANGS_AFTER_S
from tests.support.unread_answers import is_whole, unread_answers

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8, and /proc"
)

LARGEST = "/openapi.json"
COUNTS = (4, 40, 400)
BUDGET_BYTES = Settings().limits.pages_listener_limits.write_buffer_bytes
CONSTANT_BYTES = 8 * 1024 * 1024
"""What 400 connections take besides, and what a process grows by itself."""
PATIENT = {"MMO_LIMITS_WRITE_TIMEOUT": "1h"}
"""Nothing ends an answer but its reader and the budget."""


@pytest.fixture
def pacers(monkeypatch: pytest.MonkeyPatch) -> list[Pacer]:
    """Those of the gateways that start: of the pages, then of the console."""
    made: list[Pacer] = []

    def make(share: float) -> Pacer:
        made.append(Pacer(share))
        return made[-1]

    monkeypatch.setattr(process, "Pacer", make)
    return made


@pytest.mark.parametrize("count", COUNTS)
async def test_clients_that_do_not_read_hold_no_place_of_the_pages(
    tmp_path: Path, pacers: list[Pacer], count: int
) -> None:
    async with serving(tmp_path, environment=PATIENT) as running:
        page = await _payment_page(running.merchant)
        async with _unread(running.ready.pages + LARGEST, count):
            assert (await ask(page)).status == 200
            await _take_all_places(pacers[0])


async def test_clients_that_do_not_read_hold_no_place_of_the_console(
    tmp_path: Path, pacers: list[Pacer]
) -> None:
    async with serving(tmp_path, environment=PATIENT) as running:
        await add_users(running.directory, vera="viewer")
        vera = ConsoleBrowser(running.ready.console)
        await vera.sign_in("vera")
        cookie = "; ".join(f"{name}={value}" for name, value in vera.cookies.items())
        async with _unread(f"{running.ready.console}/", 40, cookie=cookie):
            assert (await vera.get("/stuck")).status == 200
            await _take_all_places(pacers[1])


@pytest.mark.parametrize("count", COUNTS)
async def test_what_waits_for_readers_stays_within_its_budget(tmp_path: Path, count: int) -> None:
    settings = tmp_path / "mmo.toml"
    settings.write_text('[limits]\nwrite_timeout = "1h"\n')
    command = ("sandbox", "--config", str(settings), "--data", str(tmp_path / "data"), *FREE_PORTS)
    async with serving_process(*command, log=tmp_path / "log") as gateway:
        page = await _payment_page(Merchant(gateway.ready["api"], gateway.ready["api_key"]))
        largest = gateway.ready["pages"] + LARGEST
        size_bytes = len((await ask(largest)).body)
        assert (await ask(page)).status == 200
        before_kib = resident_kib(gateway.process.pid)
        async with _unread(largest, count) as connections:
            assert (await ask(page)).status == 200
            grown_bytes = 1024 * (resident_kib(gateway.process.pid) - before_kib)
            assert grown_bytes <= BUDGET_BYTES + CONSTANT_BYTES
            whole = [await trio.to_thread.run_sync(is_whole, each) for each in connections]
        assert sum(whole) == min(count, BUDGET_BYTES // size_bytes)


@asynccontextmanager
async def _unread(url: str, count: int, *, cookie: str = "") -> AsyncIterator[Any]:
    """Hold answers that nobody reads while the block lasts."""
    answers = unread_answers(url, count, cookie=cookie, timeout_s=HANGS_AFTER_S)
    connections = await trio.to_thread.run_sync(answers.__enter__)
    try:
        yield connections
    finally:
        answers.__exit__(None, None, None)


async def _payment_page(merchant: Merchant) -> str:
    return str((await merchant.accepted("web/payin"))["pageUrl"])


async def _take_all_places(pacer: Pacer) -> None:
    """Take as many turns at a time as there are places: each begins only if none is held."""
    with trio.fail_after(HANGS_AFTER_S):
        turns = [await pacer.take_turn(f"network {number}") for number in range(PLACES)]
    for turn in turns:
        turn.end()

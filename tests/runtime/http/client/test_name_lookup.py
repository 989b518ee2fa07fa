"""A name that nobody answers for holds back those who ask for it, and nobody else (K6)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_trio.http.client.client import HttpClient
from mmo_trio.http.client.name_lookup import LOOKUPS_MAX, NameLookups, SystemResolver
from tests.support.hostile_receivers import (
    HOST,
    PRIVATE,
    FixedResolver,
    answers_and_closes,
    callback_to,
    running_receiver,
    server_context,
    trusting_context,
)
from tests.support.time_limits import HANGS_AFTER_S


class HangingNames:
    """Answers at once, but for names that begin with `hangs`; keeps how many look-ups run and which
    were made."""

    def __init__(self) -> None:
        self.released = trio.Event()
        self.running = 0
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        self.running += 1
        try:
            if host.startswith("hangs"):
                await self.released.wait()
            return ["127.0.0.1"]
        finally:
            self.running -= 1


async def ask(
    names: NameLookups, host: str, owner: str, record: Callable[[list[str]], None] = lambda _: None
) -> None:
    with trio.move_on_after(15):
        record(await names.addresses(host, 443, owner=owner))


async def test_names_that_hang_leave_places_for_every_other_merchant(
    autojump_clock: MockClock,
) -> None:
    resolver = HangingNames()
    names = NameLookups(resolver)
    found: list[list[str]] = []
    async with trio.open_nursery() as nursery:
        for merchant in range(20):
            for number in range(64):
                nursery.start_soon(
                    ask, names, f"hangs{number}.of{merchant}.example", f"merchant {merchant}"
                )
        await wait_all_tasks_blocked()
        assert resolver.running < LOOKUPS_MAX, "some places stay free"
        for number in range(40):
            nursery.start_soon(
                ask, names, f"healthy{number}.example", "another merchant", found.append
            )
        with trio.fail_after(0.1):
            while len(found) < 40:
                await trio.lowlevel.checkpoint()


async def test_a_look_up_that_was_given_up_still_counts_against_who_asked(
    autojump_clock: MockClock,
) -> None:
    resolver = HangingNames()
    names = NameLookups(resolver, places=32)
    for round_ in range(10):
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(ask, names, f"hangs{round_}.{number}.example", "one")
    assert resolver.running == 3, "an eighth of the places that are free"
    with trio.fail_after(0.1):
        assert await names.addresses("healthy.example", 443, owner="another") == ["127.0.0.1"]
    resolver.released.set()
    await wait_all_tasks_blocked()
    with trio.fail_after(0.1):
        assert await names.addresses("healthy.example", 443, owner="one") == ["127.0.0.1"]


async def test_all_who_need_a_name_share_one_look_up(autojump_clock: MockClock) -> None:
    resolver = HangingNames()
    names = NameLookups(resolver)
    found: list[list[str]] = []
    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(ask, names, "hangs.example", f"merchant {number}", found.append)
        await wait_all_tasks_blocked()
        assert resolver.asked == ["hangs.example"]
        resolver.released.set()
    assert found == [["127.0.0.1"]] * 50
    await ask(names, "hangs.example", "one")
    assert len(resolver.asked) == 2, "an answer is not kept"


async def test_who_waits_for_a_place_gets_one_when_a_look_up_ends(
    autojump_clock: MockClock,
) -> None:
    resolver = HangingNames()
    names = NameLookups(resolver, places=8)
    found: list[list[str]] = []
    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(ask, names, f"hangs{number}.example", "one", found.append)
        await wait_all_tasks_blocked()
        assert resolver.running == 1
        resolver.released.set()
    assert len(found) == 6
    assert resolver.running == 0


async def test_everybody_learns_that_a_name_does_not_exist() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        await trio.lowlevel.checkpoint()
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    names = NameLookups(unknown)
    async with trio.open_nursery() as nursery:
        for _ in range(3):

            async def fails() -> None:
                with pytest.raises(OSError, match="not known"):
                    await names.addresses("nobody.example", 443, owner="one")

            nursery.start_soon(fails)


async def test_a_healthy_merchant_is_called_while_the_names_of_twenty_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system's resolver hangs in threads, which nobody can end."""
    released, real = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        if str(host).removeprefix("b'").startswith("hangs"):
            released.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real("127.0.0.1" if host == HOST.encode() else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    client = HttpClient(rules=PRIVATE, context=trusting_context())
    outcomes: list[DeliveryOutcome] = []

    async def call(url: str, brand: str, deadline_s: float) -> None:
        outcomes.append(
            (await client.deliver(callback_to(url), brand=brand, deadline_s=deadline_s)).outcome
        )

    try:
        async with running_receiver(
            answers_and_closes(b"HTTP/1.1 204 No Content\r\n\r\n"), server_context()
        ) as receiver:
            async with trio.open_nursery() as nursery:
                for number in range(320):
                    url = f"https://hangs{number}.example/"
                    nursery.start_soon(call, url, f"merchant {number % 20}", 0.5)
            assert outcomes == [DeliveryOutcome.TIMEOUT] * 320
            await call(receiver.url, "another", 30)
            assert outcomes[-1] is DeliveryOutcome.DELIVERED
    finally:
        released.set()


async def test_the_systems_resolver_knows_localhost_while_other_threads_are_busy() -> None:
    everyone = trio.to_thread.current_default_thread_limiter()
    for number in range(int(everyone.total_tokens)):
        everyone.acquire_on_behalf_of_nowait(number)
    try:
        with trio.fail_after(HANGS_AFTER_S):
            assert "127.0.0.1" in await SystemResolver()("localhost", 443)
    finally:
        for number in range(int(everyone.total_tokens)):
            everyone.release_on_behalf_of(number)


async def test_the_client_asks_for_the_same_name_again_for_every_request() -> None:
    resolver = FixedResolver(["127.0.0.1"])
    client = HttpClient(rules=PRIVATE, context=trusting_context(), resolver=resolver)
    async with running_receiver(
        answers_and_closes(b"HTTP/1.1 204 No Content\r\n\r\n"), server_context()
    ) as receiver:
        for _ in range(2):
            await client.deliver(callback_to(receiver.url), brand="one")
    assert resolver.asked == [HOST, HOST]

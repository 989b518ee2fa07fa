"""202 merchants, 201 of whose receivers hang: the callbacks of the one that is well all arrive
(K6)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from attrs import evolve

from mmo_sansio.resilience.fair_queue import DELIVERY_SLOTS_PER_BRAND
from tests.support.merchant import TIMEOUT_S, Merchant
from tests.support.mmo_process import recording_callbacks
from tests.support.sandbox_gateway import Serve

pytestmark = pytest.mark.long

OTHERS = 200
"""Merchants with one hanging callback each."""
MANY = 500
"""Hanging callbacks of one more merchant."""
HEALTHY = 100
AT_ONCE = 16
AGES = {"MMO_LIMITS_CALLBACK_TIMEOUT": "1h"}
"""What hangs, hangs to the end of the test."""

METHOD = """
[[brand.method]]
key = "mpesa_ke"
provider = "sandbox"
country = "KE"
flows = ["direct/payin"]
limits.KES = { min = "10", max = "150000" }
"""
HANGS_WITH_MANY, *HANG = [f"hangs-{number}" for number in range(OTHERS + 1)]


def key_of(brand: str) -> str:
    """The API key of a brand."""
    return f"the-key-of-{brand}"


def brands_toml(brands: Sequence[str]) -> str:
    """The file with these brands."""
    return "".join(
        f'[[brand]]\nid = "{each}"\nname = "{each}"\napi_keys = ["{key_of(each)}"]\n{METHOD}'
        for each in brands
    )


class Hanging:
    """A receiver that accepts connections and says nothing."""

    def __init__(self, port: int) -> None:
        self.url = f"https://127.0.0.1:{port}/"
        self.waiting = 0
        """Connections that wait for it."""

    async def hang(self, stream: trio.SocketStream) -> None:
        self.waiting += 1
        try:
            await trio.sleep_forever()
        finally:
            self.waiting -= 1
            await trio.aclose_forcefully(stream)

    async def keeps_waiting(self, count: int) -> None:
        """Return once so many wait."""
        with trio.fail_after(2 * TIMEOUT_S):
            while self.waiting < count:  # noqa: ASYNC110
                await trio.sleep(0.02)


@asynccontextmanager
async def hanging() -> AsyncIterator[Hanging]:
    """A receiver that hangs until the block ends."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=1024)
    receiver = Hanging(listeners[0].socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, receiver.hang, listeners)
        yield receiver
        nursery.cancel_scope.cancel()


async def create_all(merchants: Sequence[Merchant]) -> set[str]:
    """One payment for each entry; their gatewayReferences."""
    left = iter(merchants)
    made: set[str] = set()

    async def create() -> None:
        for merchant in left:
            made.add((await merchant.accepted())["gatewayReference"])

    with trio.fail_after(3 * TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(create)
    return made


@pytest.mark.spec("K6")
async def test_callbacks_of_a_healthy_merchant_arrive_while_those_of_201_others_hang(
    serve: Serve,
) -> None:
    brands = brands_toml([HANGS_WITH_MANY, *HANG, "healthy"])
    async with (
        serve(environment=AGES, brands=brands) as gateway,
        recording_callbacks(gateway.directory) as recorder,
        hanging() as dead,
    ):
        merchant = partial(Merchant, gateway.ready.api)
        hangs = [merchant(key_of(each), result_url=dead.url) for each in [HANGS_WITH_MANY, *HANG]]
        await create_all([*[hangs[0]] * MANY, *hangs[1:]])
        all_places = DELIVERY_SLOTS_PER_BRAND + OTHERS
        await dead.keeps_waiting(all_places)

        healthy = evolve(hangs[0], key=key_of("healthy"), result_url=recorder.url)
        made = await create_all([healthy] * HEALTHY)
        with trio.fail_after(TIMEOUT_S):
            while len(recorder.callbacks) < HEALTHY:  # noqa: ASYNC110
                await trio.sleep(0.02)
        assert {each.gateway_reference for each in recorder.callbacks} == made
        assert dead.waiting == all_places

"""The clients for merchants work against a real gateway, blocking, on Trio and on asyncio."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import trio
from attrs import evolve

from mmo_merchant import (
    ApiRejection,
    AsyncMerchantClient,
    GatewayUnavailable,
    KeyRejected,
    MerchantClient,
    NewPayment,
    OutcomeUnclear,
    QrPayIn,
    RecordsWindow,
    Status,
    TransactionNotFound,
    TransactionObject,
    read_callback,
)
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.money import Money
from tests.support.merchant_orders import a_pay_in, one_of_each
from tests.support.sandbox_gateway import Running, serving
from tests.support.simulated_api import BASE_URL, KEY, SimulatedApi
from tests.support.time_limits import HANGS_AFTER_S


def changes_for(gateway: Running) -> dict[str, Any]:
    """What the demo brand needs."""
    whole = Money(15_000, "KES")  # Operators in Kenya take no cents.
    return {"method": "mpesa_ke", "amount": whole, "result_url": gateway.merchant.result_url}


def for_demo(payment: NewPayment, gateway: Running) -> NewPayment:
    """The payment as the demo brand can make it."""
    changes = changes_for(gateway)
    if isinstance(payment, QrPayIn):
        changes["display_qr_url"] = gateway.merchant.result_url
    return evolve(payment, **changes)


@pytest.mark.spec("C1", "C2", "C3", "C4", "C5", "L1", "L2", "L3", "R1", "R6", "K1")
async def test_the_async_client_makes_and_reads_all_payments(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as gateway,
        AsyncMerchantClient(gateway.merchant.api, gateway.merchant.key) as client,
    ):
        started = []
        for payment in one_of_each():
            started.append(await client.create_or_get(for_demo(payment, gateway)))
        assert [each.merchant_reference for each in started] == [
            each.merchant_reference for each in one_of_each()
        ]
        assert [each.page_url is not None for each in started] == [False, True, False, False, False]
        direct, web, *_ = started
        received = await gateway.callback_for(direct.gateway_reference)
        result = read_callback(
            {"X-API-KEY": gateway.merchant.key}, received.body, [gateway.merchant.key]
        )
        assert result == await client.look_up(direct.gateway_reference)
        assert result == await client.look_up_by_reference("a/b?c=d&e 100%")
        assert isinstance(result, TransactionObject)
        assert result.status is Status.SUCCESS
        again = await client.create_or_get(for_demo(one_of_each()[1], gateway))
        assert (again.gateway_reference, again.page_url) == (web.gateway_reference, None)
        window = RecordsWindow(
            begin=web.created_at - timedelta(hours=1),
            end=web.created_at + timedelta(hours=1),
            page_size=2,
        )
        listed = [each.gateway_reference async for each in client.records(window)]
        assert sorted(listed) == sorted(each.gateway_reference for each in started)
        with pytest.raises(TransactionNotFound):
            await client.look_up_by_reference("nothing")
        with pytest.raises(ApiRejection) as rejected:
            await client.create(
                evolve(a_pay_in("order-9"), **changes_for(gateway) | {"amount": Money(1, "KES")})
            )
        assert rejected.value.problem.request_id is not None


@pytest.mark.spec("C1", "C12", "A1", "R6")
async def test_the_blocking_client_does_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path) as gateway:

        def shop() -> None:
            with MerchantClient(gateway.merchant.api, gateway.merchant.key) as client:
                payment = evolve(a_pay_in(), **changes_for(gateway))
                started = client.create(payment)
                found = client.create_or_get(payment)
                assert found.gateway_reference == started.gateway_reference
                assert client.look_up(started.gateway_reference).requested_amount == payment.amount
                for number in range(2, 5):
                    client.create_or_get(
                        evolve(payment, merchant_reference=f"order-{number}"), is_first_attempt=True
                    )
                hour = timedelta(hours=1)
                window = RecordsWindow(
                    begin=started.created_at - hour, end=started.created_at + hour, page_size=2
                )
                listed = [each.merchant_reference for each in client.records(window)]
                assert listed == [f"order-{number}" for number in range(1, 5)]
            with (
                MerchantClient(gateway.merchant.api, "wrong") as client,
                pytest.raises(KeyRejected),
            ):
                client.look_up(started.gateway_reference)

        await trio.to_thread.run_sync(shop)


class Lossy(httpx.BaseTransport):
    """A transport to a simulated gateway that loses the first answers."""

    def __init__(self, api: SimulatedApi, lost: int) -> None:
        self.api, self.lost = api, lost
        self.methods: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.methods.append(request.method)
        headers = tuple((name.lower(), value) for name, value in request.headers.raw)
        answer = self.api.answer(
            HttpRequest(request.method, str(request.url).encode(), headers, request.read())
        )
        if len(self.methods) <= self.lost:
            raise httpx.ReadTimeout("nothing came", request=request)
        return httpx.Response(answer.status, headers=list(answer.headers), content=answer.body)


@pytest.mark.spec("C12")
def test_a_lost_answer_is_looked_up_over_http_as_well() -> None:
    api, pauses = SimulatedApi(), list[float]()
    transport = Lossy(api, lost=1)
    with httpx.Client(transport=transport) as http:
        client = MerchantClient(BASE_URL, KEY, http=http, sleep=pauses.append)
        started = client.create_or_get(a_pay_in(), is_first_attempt=True)
    assert started.found is not None
    assert (transport.methods, pauses) == (["POST", "GET"], [1.0])
    assert len(api.payments) == 1


@pytest.mark.spec("A5")
def test_a_proxy_of_the_environment_never_reads_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    with MerchantClient("http://127.0.0.1:10", KEY) as client:
        assert not client._http._mounts
    with MerchantClient("https://gateway.example", KEY) as client:
        assert client._http._mounts


def test_a_gateway_that_is_not_there_is_unavailable() -> None:
    pauses: list[float] = []
    with MerchantClient("http://127.0.0.1:9", KEY, sleep=pauses.append) as client:
        with pytest.raises(GatewayUnavailable, match="ConnectError"):
            client.look_up("01K5TESTTESTTESTTESTTEST00")
        with pytest.raises(OutcomeUnclear):
            client.create_or_get(a_pay_in(), is_first_attempt=True)
    assert len(pauses) == 4


async def _look_up_in_vain() -> None:
    async def no_pause(_: float) -> None:
        return None

    async with AsyncMerchantClient("http://127.0.0.1:9", KEY, sleep=no_pause) as client:
        with pytest.raises(GatewayUnavailable):
            await client.look_up("01K5TESTTESTTESTTESTTEST00")
        with pytest.raises(OutcomeUnclear):
            await client.create_or_get(a_pay_in(), is_first_attempt=True)


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_the_async_client_runs_on_both_loops(backend: str) -> None:
    anyio.run(_look_up_in_vain, backend=backend)


async def _time_out(url: str) -> None:
    async with AsyncMerchantClient(url, KEY, timeout_s=0.2) as client:
        with pytest.raises(GatewayUnavailable, match="no answer"):
            await client.look_up("01K5TESTTESTTESTTESTTEST00")


async def test_a_silent_gateway_is_given_up(nursery: trio.Nursery) -> None:
    async def stay_silent(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    listeners = await nursery.start(partial(trio.serve_tcp, stay_silent, 0, host="127.0.0.1"))
    await _time_out(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")


CORE_ALONE = """
import sys
import mmo_merchant
loaded = {name.split(".")[0] for name in sys.modules}
assert not loaded & {"httpx", "anyio", "trio", "mmo_trio", "click"}, loaded
"""
BLOCKING_ALONE = """
import sys
gateways = ("mmo_trio", "trio", "hypercorn", "quart", "psycopg", "structlog")
sys.modules |= dict.fromkeys(gateways)  # An import of one fails; httpx 0.27 tries to import trio.
from mmo_merchant import MerchantClient
"""


@pytest.mark.parametrize("program", [CORE_ALONE, BLOCKING_ALONE], ids=["core", "blocking"])
def test_a_merchants_program_loads_nothing_of_the_gateway(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=HANGS_AFTER_S)

"""The console answers only under hosts that it knows: a page elsewhere may let its own name lead
here."""

from __future__ import annotations

import pytest

from mmo_trio.settings import SettingsError, load_settings
from tests.support.merchant import ask
from tests.support.sandbox_gateway import Running, Serve

PATHS = ("/metrics", "/sign-in", "/", "/static/console.css", "/nowhere")


@pytest.mark.parametrize("path", PATHS)
async def test_an_unknown_host_sees_nothing_and_learns_the_setting(
    sandbox: Running, path: str
) -> None:
    for host in (
        "evil.example",
        "evil.example:8082",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "1.2.3",
    ):
        answer = await ask(f"{sandbox.ready.console}{path}", headers={"Host": host})
        assert answer.status == 421
        assert b"console.hosts" in answer.body
        assert b"mmo_" not in answer.body


async def test_addresses_and_this_machine_are_known(sandbox: Running) -> None:
    for host in (
        "127.0.0.1",
        "127.0.0.1:8082",
        "[::1]:8082",
        "localhost:8082",
        "LOCALHOST",
        "10.1.2.3",
    ):
        answer = await ask(f"{sandbox.ready.console}/metrics", headers={"Host": host})
        assert answer.status == 200, host


async def test_names_can_be_set_and_a_trusted_proxy_reports_them(serve: Serve) -> None:
    proxy = {"MMO_LISTEN_PROXY_TRUSTED": "127.0.0.1", "MMO_LISTEN_PROXY_HOST": "true"}
    known = {"MMO_CONSOLE_HOSTS": "Console.Example.com, gateway-1", **proxy}
    async with serve(environment=known) as running:
        url = f"{running.ready.console}/metrics"
        for host in ("console.example.com", "gateway-1:8082", "CONSOLE.EXAMPLE.COM."):
            assert (await ask(url, headers={"Host": host})).status == 200, host
        forwarded = {"Host": "upstream", "X-Forwarded-Host": "console.example.com"}
        assert (await ask(url, headers=forwarded)).status == 200
        forged = forwarded | {"X-Forwarded-Host": "evil.example"}
        assert (await ask(url, headers=forged)).status == 421


@pytest.mark.parametrize(
    "hosts", ["https://console.example.com", "console.example.com:8082", "a b", "*.example.com"]
)
def test_a_host_is_a_bare_name(hosts: str) -> None:
    with pytest.raises(SettingsError, match=r"console\.hosts"):
        load_settings(options={"console.hosts": hosts})

"""Runs a complete gateway in this process, on free ports, and a TLS receiver for its callbacks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
from argon2 import PasswordHasher
from attrs import Factory, define

from mmo_sansio.providers.registry import ProviderKind
from mmo_trio.sandbox.callback_receiver import ReceivedRequest, receive_callbacks
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.service.process import run_service
from mmo_trio.settings import load_settings
from mmo_trio.settings.service import ServiceAddresses, ServiceConfig, sandbox_presets
from tests.support.http_version import http_version
from tests.support.merchant import TIMEOUT_S, Answer, Merchant, ask
from tests.support.password_hasher import CHEAP_HASHER
from tests.support.receivers import sort_requests
from tests.support.storages import Storage, storages


@define(eq=False)
class Running:
    """Controls a serving sandbox and holds the deliveries to its demo brand."""

    ready: ServiceAddresses
    directory: Path
    merchant: Merchant
    """The client of the demo brand."""
    storage: Storage
    received: list[ReceivedRequest] = Factory(list)
    codes: list[ReceivedRequest] = Factory(list)
    refused: list[ReceivedRequest] = Factory(list)
    """The callbacks whose key the receiver rejected."""

    async def control(self, name: str, **body: Any) -> Answer:
        """POST to a sandbox control."""
        return await ask(
            f"{self.ready.pages}/sandbox/{name}",
            method="POST",
            headers={"Content-Type": "application/json"},
            body=json.dumps(body).encode(),
        )

    async def seen(self, name: str) -> list[dict[str, Any]]:
        """GET a sandbox control: `callbacks` or `suspense`."""
        answer = await ask(f"{self.ready.pages}/sandbox/{name}")
        assert answer.status == 200, answer.body
        found: list[dict[str, Any]] = answer.json
        return found

    async def advance(self, span: str) -> None:
        """Advance the sandbox's clock."""
        answer = await self.control("clock", advance=span)
        assert answer.status == 200, answer.body

    async def create(self, operation: str = "direct/payin", **changes: Any) -> str:
        """Create a payment that must be accepted; return its gatewayReference."""
        return str((await self.merchant.accepted(operation, **changes))["gatewayReference"])

    async def concluded(self, **changes: Any) -> str:
        """Create a payment; return its gatewayReference once the end of its callback is known."""
        reference = await self.create(**changes)
        await self.outcome_of(reference)
        return reference

    async def callback_for(self, reference: str) -> ReceivedRequest:
        """Return the callback of this payment, once it has arrived."""
        with trio.fail_after(TIMEOUT_S):
            while True:
                for each in self.received:
                    if each.gateway_reference == reference:
                        return each
                await trio.sleep(0.02)

    async def outcome_of(self, reference: str) -> dict[str, Any]:
        """Return the recorded outcome of this payment's callback, once there is one."""
        with trio.fail_after(TIMEOUT_S):
            while True:
                for each in await self.seen("callbacks"):
                    if each["gatewayReference"] == reference:
                        return each
                await trio.sleep(0.02)


Serve = Callable[..., AbstractAsyncContextManager[Running]]


@asynccontextmanager
async def serving(
    directory: Path,
    *,
    environment: dict[str, str] | None = None,
    brands: str | None = None,
    api_key: str = "",
    provider_kinds: Mapping[str, ProviderKind] | None = None,
    password_hasher: PasswordHasher | None = CHEAP_HASHER,
) -> AsyncIterator[Running]:
    """A sandbox in this directory and a receiver for its demo brand; both end with the block.

    `environment`: further settings as MMO_… variables. `brands`: text of a brands.toml to serve
    instead of the demo brand, whose `api_key` the receiver then expects. `provider_kinds`: further
    kinds of provider. `password_hasher`: None for that of production.
    """
    authority = ensure_authority(directory)
    storage = storages.of(directory)
    presets = sandbox_presets(directory, free_ports=True) | storage.presets
    environment = http_version.environment | (environment or {})
    settings = load_settings(
        environment=environment, presets=presets, provider_kinds=provider_kinds
    )
    brands_file = None
    if brands is not None:
        brands_file = directory / "brands.toml"
        brands_file.write_text(brands, encoding="utf-8")
    config = ServiceConfig(
        settings,
        data_directory=directory,
        is_sandbox=True,
        has_demo_brand=brands is None,
        brands_file=brands_file,
    )
    drain = trio.Event()
    send_ready, receive_ready = trio.open_memory_channel[ServiceAddresses](1)
    async with trio.open_nursery() as nursery:
        ended = trio.Event()

        async def serve_until_drained() -> None:
            await run_service(
                config,
                on_ready=send_ready.send_nowait,
                drain=drain,
                password_hasher=password_hasher,
            )
            ended.set()

        nursery.start_soon(serve_until_drained)
        with trio.fail_after(TIMEOUT_S):
            ready = await receive_ready.receive()
        http_version.learn({"api": ready.api, "http2": ready.http2})
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        key = ready.api_key or api_key
        merchant = Merchant(ready.api, key, result_url=f"https://localhost:{port}/callback")
        running = Running(ready, directory, merchant, storage)
        context = authority.issue("localhost", "127.0.0.1")
        await nursery.start(
            partial(
                receive_callbacks,
                listeners,
                tls=lambda: context,
                expected_keys=[key.encode()],
                on_request=sort_requests(running.received, running.codes, running.refused),
            )
        )
        yield running
        drain.set()
        with trio.fail_after(TIMEOUT_S):
            await ended.wait()
        nursery.cancel_scope.cancel()

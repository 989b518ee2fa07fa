"""Wiring: each provider has an account of its own, and one simulated operator exists at most."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from mmo_sansio.http.exchange import ResponseReceived
from mmo_trio.api.authentication import Authenticator
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.service.resources import Resources, build_resources
from mmo_trio.service.wiring import ConfiguredAccounts, Foundation, assemble, build_workers
from mmo_trio.settings import SettingsError, load_settings
from mmo_trio.settings.service import ServiceAddresses, ServiceConfig
from mmo_trio.storage.sql.store import Store
from tests.support.hostile_receivers import (
    answers_and_closes,
    authority,
    callback_to,
    running_receiver,
    server_context,
)
from tests.support.sqlite_store import StoreFile
from tests.support.time_limits import HANGS_AFTER_S

ADDRESSES = ServiceAddresses("http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3")


async def resources_of(
    directory: Path, store: Store, environment: Mapping[str, str], *, is_sandbox: bool = True
) -> Resources:
    """The resources of a gateway with these settings, given as MMO_... variables."""
    presets = {"keys.master_key_file": str(directory / "master.key")}
    settings = load_settings(environment=environment, presets=presets)
    return await build_resources(ServiceConfig(settings, is_sandbox=is_sandbox), store, ADDRESSES)


async def test_a_second_simulated_operator_is_an_error_at_start(tmp_path: Path) -> None:
    kinds = {f"MMO_PROVIDER__{name}__KIND": "sandbox" for name in ("ONE", "TWO")}
    async with StoreFile().open() as store:
        resources = await resources_of(tmp_path, store, kinds)
        with pytest.raises(SettingsError, match="there is one sandbox operator") as caught:
            assemble(resources)
    assert "provider.two" in str(caught.value)


async def test_a_provider_without_an_account_is_an_error_at_start(tmp_path: Path) -> None:
    async with StoreFile().open() as store:
        resources = await resources_of(tmp_path, store, {"MMO_PROVIDER__ONE__KIND": "sandbox"})
        clock = resources.clock
        authenticator = Authenticator(store, resources.keyring, monotonic=clock.monotonic)
        engine = Engine(store, clock, Outbox())
        known = KnownConfiguration()
        with pytest.raises(SettingsError, match="has no account with an operator") as caught:
            build_workers(
                Foundation(resources, ConfiguredAccounts(None, {}), known, authenticator, engine)
            )
    assert "provider.one" in str(caught.value)


async def test_a_sandbox_without_providers_has_the_simulated_operator(tmp_path: Path) -> None:
    async with StoreFile().open() as store:
        workers = assemble(await resources_of(tmp_path, store, {})).workers
        assert workers.simulated_operator is not None
        assert set(workers.providers.providers) == {"sandbox"}


async def test_passwords_cost_what_rfc_9106_recommends(tmp_path: Path) -> None:
    async with StoreFile().open() as store:
        hasher = (await resources_of(tmp_path, store, {})).password_hasher
    assert (hasher.memory_cost, hasher.time_cost, hasher.parallelism) == (64 * 1024, 3, 4)


async def test_production_without_providers_has_no_simulated_operator(tmp_path: Path) -> None:
    async with StoreFile().open() as store:
        await resources_of(
            tmp_path, store, {}
        )  # This makes the master key, as production never does.
        components = assemble(await resources_of(tmp_path, store, {}, is_sandbox=False))
    assert components.workers.simulated_operator is None
    assert components.pages_context.sandbox is None
    files = await trio.Path(tmp_path).iterdir()
    assert [each.name for each in files] == ["master.key"]


@pytest.mark.parametrize("is_set", [False, True])
async def test_staff_are_told_where_a_webhook_is_set(tmp_path: Path, is_set: bool) -> None:
    environment = {"MMO_NOTICES_WEBHOOK_URL": "https://chat.example/x"} if is_set else {}
    async with StoreFile().open() as store:
        components = assemble(await resources_of(tmp_path, store, environment))
    assert (components.notices is not None) is is_set


async def test_a_key_for_the_webhook_that_is_not_there_is_an_error_at_start(tmp_path: Path) -> None:
    environment = {
        "MMO_NOTICES_WEBHOOK_URL": "https://chat.example/x",
        "MMO_NOTICES_WEBHOOK_KEY_FILE": str(tmp_path / "none"),
    }
    async with StoreFile().open() as store:
        resources = await resources_of(tmp_path, store, environment)
        with pytest.raises(SettingsError, match=r"notices\.webhook_key_file: .* can't be read"):
            assemble(resources)


@pytest.mark.parametrize("key", ["EXTRA_CA_FILE", "PROVIDER_CA_FILE"])
async def test_receivers_and_operators_are_trusted_by_authorities_of_their_own(
    tmp_path: Path, key: str
) -> None:
    authority().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    environment = {
        f"MMO_EGRESS_{key}": str(tmp_path / "ca.pem"),
        "MMO_EGRESS_ALLOW_PRIVATE": "true",
    }
    trusted, answered = [], answers_and_closes(b"HTTP/1.1 204 No Content\r\n\r\n")
    async with (
        StoreFile().open() as store,
        running_receiver(answered, server_context()) as receiver,
    ):
        resources = await resources_of(tmp_path, store, environment)
        request = callback_to(f"https://127.0.0.1:{receiver.port}/")
        for client in (resources.clients.deliveries, resources.clients.providers):
            with trio.fail_after(HANGS_AFTER_S):
                attempt = await client.exchange(request, skip_egress_rules=True)
            trusted.append(isinstance(attempt, ResponseReceived))
            assert trusted[-1] or "the certificate is not accepted" in str(attempt)
    assert trusted == [key == "EXTRA_CA_FILE", key == "PROVIDER_CA_FILE"]

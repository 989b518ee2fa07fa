"""The master key is replaced while merchants work, and a process that lacks it says so (clauses A3,
A5, R5)."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
import trio

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import StoredMasterKey
from mmo_trio.storage.postgres import PostgresStore
from mmo_trio.storage.sqlite import SqliteStore
from tests.support.merchant import TIMEOUT_S, Answer, ask
from tests.support.mmo_process import mmo
from tests.support.sandbox_gateway import Running, Serve
from tests.support.storages import storages

WINDOW = "records?from=2026-01-01&to=2036-01-01&pageSize=1"


async def keys(step: str, directory: Path) -> None:
    """Run a step of `mmo keys` on the store of the sandbox in this directory."""
    config = directory / "operator.toml"
    url, file = storages.of(directory).url, directory / "master.key"
    config.write_text(
        f'[database]\nurl = "{url}"\n\n[keys]\nmaster_key_file = "{file}"\n', encoding="utf-8"
    )
    await mmo("keys", step, "--config", config)


async def check_whole_work(sandbox: Running) -> None:
    """A payment is made, ends and is called back with the merchant's key."""
    await sandbox.advance("2m")  # No key is remembered for more than a minute.
    made = await sandbox.merchant.accepted()
    await sandbox.callback_for(made["gatewayReference"])
    assert (await sandbox.outcome_of(made["gatewayReference"]))["outcome"] == "delivered"
    assert sandbox.refused == []
    ready = await ask(f"{sandbox.ready.api}/readyz")
    assert ready.status == 200, ready.body


@pytest.mark.spec("A5", "R5")
async def test_the_master_key_is_replaced_under_a_serving_gateway(sandbox: Running) -> None:
    await check_whole_work(sandbox)
    for _ in range(2):
        await sandbox.merchant.accepted(scenario="never")
    cursor = (await sandbox.merchant.get(WINDOW)).json["pages"]["next"]
    assert cursor is not None
    for step in ("prepare", "rotate", "finish"):
        await keys(step, sandbox.directory)
        await check_whole_work(sandbox)
        page = await sandbox.merchant.get(f"records?page={quote(cursor)}")
        assert page.status == 200, page.body
    async with storages.of(sandbox.directory).open_for_admin() as store:
        assert isinstance(store, SqliteStore | PostgresStore)
        assert not await store.integrity_errors()


@pytest.mark.spec("A5", "R5")
async def test_cursors_of_before_a_rotation_are_valid_after_a_restart_until_it_is_finished(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve() as before:
        for _ in range(3):
            await before.merchant.accepted(scenario="never")
        page = (await before.merchant.get(WINDOW)).json
    cursor = quote(page["pages"]["next"])
    directory = before.directory
    await keys("prepare", directory)
    await keys("rotate", directory)
    async with serve() as between:
        assert (await between.merchant.get(f"records?page={cursor}")).status == 200
        newer = quote((await between.merchant.get(f"records?page={cursor}")).json["pages"]["next"])
    await keys("finish", directory)
    async with serve() as after:
        assert (await after.merchant.get(f"records?page={cursor}")).status == 400
        assert (await after.merchant.get(f"records?page={newer}")).status == 200


async def unready_answer(sandbox: Running) -> Answer:
    """The first answer of /readyz that is not 200; an answer holds for a second."""
    with trio.fail_after(TIMEOUT_S):
        while True:
            answer = await ask(f"{sandbox.ready.api}/readyz")
            if answer.status != 200:
                return answer
            await trio.sleep(0.1)


@pytest.mark.spec("A5")
async def test_a_process_that_lacks_a_master_key_of_the_store_says_that_it_is_not_ready(
    sandbox: Running,
) -> None:
    assert (await ask(f"{sandbox.ready.api}/readyz")).status == 200
    async with storages.of(sandbox.directory).open_for_admin() as store:
        assert await store.admin.add_master_key(StoredMasterKey(2, "another-one", Instant(1)))
    answer = await unready_answer(sandbox)
    assert answer.status == 503
    assert "master key" in json.loads(answer.body)["detail"]
    assert (await ask(f"{sandbox.ready.api}/healthz")).status == 200

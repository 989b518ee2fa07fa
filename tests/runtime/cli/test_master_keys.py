"""`mmo keys` replaces the master key of a store step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import load_master_keys
from mmo_trio.storage.open_store import open_store
from tests.support.commands import SECRET, mmo

API_KEY = SECRET
BRANDS = f"""
[[brand]]
id = "acme"
name = "Acme Ltd"
api_keys = ["{API_KEY}"]
"""


def succeed(*arguments: object) -> str:
    done = mmo(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def data(data: Path, tmp_path: Path) -> Path:
    """The data directory of a store with a brand, one key in use and a retired one."""
    data.mkdir(parents=True)
    (tmp_path / "brands.toml").write_text(BRANDS)
    (tmp_path / "brands.toml").chmod(0o600)
    succeed("brands apply", tmp_path / "brands.toml")
    succeed("brands key add acme")
    succeed("brands key retire acme 1")
    return data


def shown(data: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(succeed("keys show --json"))
    return found


def owners(data: Path, ring: KeyRing) -> tuple[list[bool], str]:
    """Which of the brand's keys this keyring opens, and which that of the file is."""

    async def read() -> tuple[list[bool], str]:
        async with open_store(f"sqlite:///{data}/gateway.db", serving=False) as store:
            record = await store.brand_record("acme")
            assert record is not None
            opened = [ring.sealing_key_id("acme", key.sealed) is not None for key in record.keys]
            named = [
                str(key.id) for key in record.keys if key.digest in ring.digests(API_KEY.encode())
            ]
            return opened, ",".join(named)

    return trio.run(read)


def test_the_master_key_is_replaced_in_three_steps(data: Path, tmp_path: Path) -> None:
    file = data / "master.key"
    (old,) = load_master_keys(file)
    (before,) = shown(data)
    assert (before["inFile"], before["generation"], before["apiKeys"]) == ("in use", 1, 2)

    succeed("keys prepare")
    assert load_master_keys(file)[0] == old
    assert [each["inFile"] for each in shown(data)] == ["in use", "accepted"]
    assert owners(data, KeyRing(old)) == ([True, True], "1")
    again = mmo("keys prepare")
    assert (again.exit_code, "two keys already" in again.stderr) == (1, True)
    early = mmo("keys finish")
    assert (early.exit_code, "`mmo keys rotate` is the next step" in early.stderr) == (1, True)

    succeed("keys rotate")
    new, previous = load_master_keys(file)
    assert previous == old
    assert owners(data, KeyRing(old)) == ([False, False], "")
    assert owners(data, KeyRing(new)) == ([True, True], "1")
    assert [(each["inFile"], each["generation"], each["apiKeys"]) for each in shown(data)] == [
        ("in use", 2, 2),
        ("accepted", 1, 0),
    ]
    again = mmo("keys rotate")
    assert (again.exit_code, "`mmo keys finish` is the next step" in again.stderr) == (1, True)
    plan = json.loads(succeed("brands apply", tmp_path / "brands.toml", "--json"))
    assert plan["unchanged"] == ["acme"], (
        "the retired key of the file is known under the new master key"
    )

    succeed("keys finish")
    assert load_master_keys(file) == [new]
    assert [(each["id"], each["generation"]) for each in shown(data)] == [
        (KeyRing(new).master_key_id, 2)
    ]
    assert mmo("db check").exit_code == 0
    acts = [each["act"] for each in json.loads(succeed("audit list --json"))]
    assert {"master_key_prepared", "master_key_rotated", "master_key_rotation_finished"} <= {*acts}
    verified = mmo("audit verify")
    assert verified.exit_code == 0, verified.output


def test_a_step_that_was_interrupted_is_taken_again(data: Path) -> None:
    file = data / "master.key"
    (old,) = load_master_keys(file)
    succeed("keys prepare")
    prepared = file.read_bytes()
    succeed("keys rotate")
    new, _ = load_master_keys(file)
    file.write_bytes(prepared)  # As if the process had died before it replaced the file.
    succeed("keys rotate")
    assert load_master_keys(file) == [new, old]
    assert owners(data, KeyRing(new)) == ([True, True], "1")
    rotated = file.read_bytes()
    succeed("keys finish")
    file.write_bytes(rotated)
    succeed("keys finish")
    assert load_master_keys(file) == [new]


def test_on_sqlite_one_command_is_enough_to_begin(data: Path) -> None:
    (old,) = load_master_keys(data / "master.key")
    said = mmo("keys rotate")
    assert said.exit_code == 0, said.output
    new, previous = load_master_keys(data / "master.key")
    assert previous == old
    assert KeyRing(new).master_key_id in said.stderr
    assert "mmo keys finish" in said.stderr


def test_a_node_that_did_not_get_the_new_key_is_refused(data: Path) -> None:
    file = data / "master.key"
    before = file.read_bytes()
    succeed("keys rotate")
    rotated = file.read_bytes()
    for content, fault in (
        (before, "its keys are not those of the store"),
        (rotated.splitlines()[0], "its keys are not those of the store"),
    ):
        file.write_bytes(content)
        refused = mmo("brands key add acme")
        assert (refused.exit_code, fault in refused.stderr) == (2, True), refused.output
    file.write_bytes(rotated)
    succeed("keys finish")
    new, old = rotated.splitlines()
    file.write_bytes(b"\n".join((old, new)))
    refused = mmo("brands key add acme")
    assert (refused.exit_code, "is not in use any more" in refused.stderr) == (2, True)
    file.write_bytes(b"\n".join((new, old)))
    succeed("brands key add acme")

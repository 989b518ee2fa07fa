"""A sandbox that starts for the first time: `mmo listen` waits for its keys, and brands without a
key get one."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import trio

from mmo_sansio.http.egress_rules import EgressRules
from mmo_trio.brands.apply import apply_brands_file
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.settings import SettingsError
from mmo_trio.storage.open_store import open_store
from tests.conformance.driver import NOON
from tests.support.mmo_process import COMMAND, FREE_PORTS, environment_without_settings
from tests.support.time_limits import HANGS_AFTER_S

KEYLESS = """
[[brand]]
id = "acme"
name = "Acme"

[[brand]]
id = "zoo"
name = "Zoo"
api_keys = ["a-key-of-the-zoo-that-is-long-enough"]
"""
MADE_KEY = re.compile(r"API key of acme \(made now, shown this once\): (\S+)\n")


def started(directory: Path, *words: str | Path) -> subprocess.Popen[str]:
    command = [*COMMAND, *map(str, words), "--data", str(directory)]
    return subprocess.Popen(
        command,
        env=environment_without_settings(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


async def test_who_listens_first_waits_for_the_keys_that_the_sandbox_makes(tmp_path: Path) -> None:
    data, brands = tmp_path / "data", tmp_path / "brands.toml"
    brands.write_text(KEYLESS, encoding="utf-8")
    listener = started(data, "listen", "--port", "0")
    assert listener.stdout is not None
    assert listener.stderr is not None
    with trio.fail_after(HANGS_AFTER_S):
        assert "Waiting for the keys" in await trio.to_thread.run_sync(listener.stderr.readline)
    sandbox = started(data, "sandbox", "--brands", brands, *FREE_PORTS)
    assert sandbox.stdout is not None
    try:
        with trio.fail_after(HANGS_AFTER_S):
            said = [await trio.to_thread.run_sync(sandbox.stdout.readline) for _ in range(2)]
            assert "Listening at" in await trio.to_thread.run_sync(listener.stdout.readline)
        assert said[0].startswith("READY ")
        assert MADE_KEY.fullmatch(said[1]), said
        assert json.loads((data / "running.json").read_text())["api"] in said[0]
    finally:
        for process in (listener, sandbox):
            process.terminate()
            process.communicate(timeout=HANGS_AFTER_S)


async def test_who_serves_in_production_is_told_of_some_brands_without_a_key(
    tmp_path: Path,
) -> None:
    file = tmp_path / "brands.toml"
    file.write_text(
        "".join(f'[[brand]]\nid = "b{number:03}"\nname = "B"\n' for number in range(200)), "utf-8"
    )
    async with open_store(f"sqlite:///{tmp_path}/gateway.db", serving=True) as store:
        with pytest.raises(SettingsError) as refused:
            await apply_brands_file(
                file, store, KeyRing(bytes(32)), {}, EgressRules(), now=NOON, is_sandbox=False
            )
    said = "these brands have no API key: b000, b001, b002, b003, b004 and 195 more. Give them"
    assert said in str(refused.value)

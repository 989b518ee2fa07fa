"""A serving gateway logs where its audit log ends, so that `mmo audit verify --seen` has something
to compare."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import trio
from click.testing import CliRunner

from mmo_trio.cli.group import main
from tests.support.console_browser import ConsoleBrowser, add_users
from tests.support.mmo_process import COMMAND, FREE_PORTS, serving_process

WITH_JSON = ("env", "MMO_LOG_FORMAT=json", *COMMAND)


async def test_the_log_of_a_process_holds_the_end_of_the_audit_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with serving_process(
        "sandbox", "--data", tmp_path, *FREE_PORTS, log=log, command=WITH_JSON
    ) as gateway:
        await add_users(tmp_path, ada="admin")
        person = ConsoleBrowser(gateway.ready["console"])
        await person.sign_in("ada")
        await person.post("/sign-out")
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    ends = [each["end"] for each in lines if each["event"] == "audit_head"]
    assert [each.partition(":")[0] for each in ends] == ["0", "2"]
    words = ["audit", "verify", "--seen", ends[-1], "--data", str(tmp_path)]
    verified = await trio.to_thread.run_sync(partial(CliRunner().invoke, main, words))
    assert (verified.exit_code, verified.stdout.strip()) == (0, ends[-1])

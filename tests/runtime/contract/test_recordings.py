"""`mmo providers record` writes what a serving gateway and an operator say to each other."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
from pathlib import Path

import pytest
import trio

from mmo_trio.storage.interface.admin_types import NoteTopic
from tests.runtime.contract.test_mpesa import PAYER, Kenya, in_kenya
from tests.support.console_browser import open_store_of
from tests.support.merchant import TIMEOUT_S
from tests.support.mmo_process import COMMAND, environment_without_settings
from tests.support.sandbox_gateway import Serve


async def pay_until_recorded(kenya: Kenya, text: str) -> None:
    """Make pay-outs until this text is recorded of one."""
    with trio.fail_after(TIMEOUT_S):
        while True:
            await kenya.ended(await kenya.began("direct/payout"))
            async with open_store_of(kenya.running.directory) as store:
                notes = await store.admin.provider_notes(NoteTopic.RECORDED)
            if any(text in each.content for each in notes):
                return


@pytest.mark.spec("A5")
async def test_a_person_records_an_operator_of_a_gateway_that_serves(
    serve: Serve, tmp_path: Path
) -> None:
    file = tmp_path / "kenya.jsonl"
    async with in_kenya(serve, tmp_path) as kenya:
        directory = str(kenya.running.directory)
        command = [*COMMAND, "providers", "record", "kenya", "--to", str(file), "--data", directory]
        environment = {**environment_without_settings(), **kenya.environment}
        recording = await trio.lowlevel.open_process(
            command, env=environment, stderr=subprocess.PIPE
        )
        await pay_until_recorded(kenya, '"from": "operator"')
        recording.send_signal(signal.SIGINT)
        assert recording.stderr is not None
        errors = b"".join([each async for each in recording.stderr])
        assert await recording.wait() == 0, errors
        assert b"exchanges. Ctrl-C ends it." in errors
        async with open_store_of(kenya.running.directory) as store:
            assert await store.admin.provider_notes(NoteTopic.RECORDED, NoteTopic.RECORDING) == []
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "only its owner reads it"
    lines = [json.loads(each) for each in file.read_text().splitlines()]
    assert {each["from"] for each in lines} == {"gateway", "operator"}
    assert any(each["target"].endswith("/b2c/v3/paymentrequest") for each in lines)
    for forbidden in (
        PAYER[3:],
        kenya.options["initiator_password"],
        kenya.options["passkey"],
        "/hooks/kenya/",
    ):
        assert forbidden not in file.read_text()

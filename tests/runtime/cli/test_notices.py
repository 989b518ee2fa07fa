"""`mmo notices test` tries the webhook for staff as the gateway uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from mmo_trio.cli.group import main
from tests.support.hostile_receivers import (
    answers_and_closes,
    authority,
    running_receiver,
    server_context,
)
from tests.support.time_limits import HANGS_AFTER_S

SECRET = "a-secret-path"


def written(folder: Path, port: int, *, allow_private: bool = True) -> Path:
    """Write settings whose webhook is on this machine."""
    authority().cert_pem.write_to_path(str(folder / "ca.pem"))
    (folder / "key").write_text("abc-123")
    config = folder / "mmo.toml"
    config.write_text(
        f"""
[gateway]
base_url = "https://pay.example.com"
[egress]
extra_ca_file = "{folder}/ca.pem"
[notices]
webhook_url = "https://127.0.0.1:{port}/{SECRET}"
webhook_key_file = "{folder}/key"
allow_private = {str(allow_private).lower()}
"""
    )
    return config


def mmo(config: Path) -> Result:
    done = CliRunner().invoke(main, ["notices", "test", "--config", str(config)])
    assert SECRET not in done.output
    assert "abc-123" not in done.output
    return done


async def test_the_message_arrives_as_those_of_the_gateway(tmp_path: Path) -> None:
    behaviour = answers_and_closes(b"HTTP/1.1 204 No Content\r\n\r\n")
    async with running_receiver(behaviour, server_context()) as receiver:
        config = written(tmp_path, receiver.port)
        with trio.fail_after(HANGS_AFTER_S):
            done = await trio.to_thread.run_sync(mmo, config)
    assert (done.exit_code, "HTTP 204" in done.stderr) == (0, True), done.output
    head, _, body = receiver.requests[0].partition(b"\r\n\r\n")
    assert b"authorization: bearer abc-123" in head.lower()
    message = json.loads(body)
    assert message["gateway"] == "https://pay.example.com"
    assert message["matters"] == []
    assert "test" in message["text"]


async def test_a_receiver_that_refuses_is_named(tmp_path: Path) -> None:
    behaviour = answers_and_closes(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
    async with running_receiver(behaviour, server_context()) as receiver:
        config = written(tmp_path, receiver.port)
        with trio.fail_after(HANGS_AFTER_S):
            done = await trio.to_thread.run_sync(mmo, config)
    assert (done.exit_code, "HTTP 403" in done.stderr) == (1, True), done.output


async def test_it_leads_to_no_private_address_unless_that_is_allowed(tmp_path: Path) -> None:
    async with running_receiver(answers_and_closes(b""), server_context()) as receiver:
        config = written(tmp_path, receiver.port, allow_private=False)
        with trio.fail_after(HANGS_AFTER_S):
            done = await trio.to_thread.run_sync(mmo, config)
    assert (done.exit_code, receiver.connections) == (1, 0)
    assert "only public addresses" in done.stderr
    assert "notices.allow_private = true" in done.stderr


def test_without_an_address_there_is_nothing_to_try(tmp_path: Path) -> None:
    config = tmp_path / "mmo.toml"
    config.write_text("")
    done = mmo(config)
    assert (done.exit_code, "notices.webhook_url" in done.stderr) == (2, True)


@pytest.mark.parametrize("key", ["", "two words", "\n", "x" * 2000, "schlüssel"])
def test_a_file_without_a_key_is_a_fault(tmp_path: Path, key: str) -> None:
    config = written(tmp_path, 1)
    (tmp_path / "key").write_text(key)
    done = CliRunner().invoke(main, ["notices", "test", "--config", str(config)])
    assert (done.exit_code, "notices.webhook_key_file" in done.stderr) == (2, True), done.output

"""A gateway that serves tells staff what waits for a person, and stops doing so when it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.runtime.contract.test_mpesa import until
from tests.support.hostile_receivers import (
    answers_and_closes,
    authority,
    running_receiver,
    server_context,
)
from tests.support.sandbox_gateway import serving


async def test_staff_are_told_of_a_stuck_payment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ROUND_S", "LOOK_S"):
        monkeypatch.setattr(f"mmo_trio.workers.notices.{name}", 0.01)
    authority().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    behaviour = answers_and_closes(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    async with running_receiver(behaviour, server_context()) as receiver:
        environment = {
            "MMO_NOTICES_WEBHOOK_URL": f"https://127.0.0.1:{receiver.port}/staff",
            "MMO_NOTICES_ALLOW_PRIVATE": "true",
            "MMO_NOTICES_CONSOLE_URL": "https://console.example.com",
            "MMO_EGRESS_EXTRA_CA_FILE": str(tmp_path / "ca.pem"),
        }
        async with serving(tmp_path / "data", environment=environment) as sandbox:
            stuck = (await sandbox.merchant.accepted(scenario="never"))["gatewayReference"]
            assert receiver.requests == []
            await sandbox.advance("61m")
            await until(lambda: bool(receiver.requests))
    head, _, body = receiver.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /staff HTTP/1.1\r\n")
    message = json.loads(body)
    (matter,) = message["matters"]
    assert (matter["kind"], matter["count"]) == ("payments_stuck", 1)
    assert list(matter["sums"]) == ["KES"]
    assert matter["link"] == "https://console.example.com/stuck"
    assert stuck not in body.decode()
    assert len(receiver.requests) == 1, "once"

"""Structured logs of a serving process: one object in each line, the request's id in it, and
nobody's data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mmo_trio.settings import SettingsError, load_settings
from tests.support.merchant import Merchant, ask
from tests.support.mmo_process import COMMAND, FREE_PORTS, serving_process

PRIVATE = ("Ada-Canary", "254799999101", "canary@shop.example", "order-canary", "label-canary")
WITH_JSON = ("env", "MMO_LOG_FORMAT=json", *COMMAND)


def lines(log: Path) -> list[dict[str, Any]]:
    """Every line, which is an object."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


@pytest.mark.spec("G9", "P3")
async def test_every_line_is_an_object_and_a_refusal_is_found_by_its_request_id(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    async with serving_process(
        "sandbox", "--data", tmp_path, *FREE_PORTS, log=log, command=WITH_JSON
    ) as gateway:
        merchant = Merchant(gateway.ready["api"], gateway.ready["api_key"])
        payer = {
            "id": PRIVATE[0],
            "msisdn": PRIVATE[1],
            "firstName": PRIVATE[0],
            "email": PRIVATE[2],
        }
        given: dict[str, Any] = {"payer": payer, "merchantReference": PRIVATE[3]}
        failing = await merchant.create(**given, labels={PRIVATE[4]: []}, country="")
        taken = await merchant.accepted(**given, labels={PRIVATE[4]: PRIVATE[4]})
        await merchant.ended(taken["gatewayReference"])
        twice = await merchant.create(**given)
        stranger = await ask(f"{gateway.ready['api']}/{PRIVATE[3]}?{PRIVATE[4]}")
        wrong_key = await merchant.get("records", **{"X-Api-Key": "wrong-key-canary"})
    told = lines(log)
    assert all({"event", "level", "timestamp", "logger"} <= set(each) for each in told)
    for answer, status, route in (
        (failing, 400, "direct/payin"),
        (twice, 422, "direct/payin"),
        (stranger, 404, "none"),
        (wrong_key, 401, "records"),
    ):
        (line,) = (
            each for each in told if each.get("request_id") == answer.headers["x-request-id"]
        )
        assert (line["event"], line["level"]) == ("request_rejected", "info")
        assert (line["status"], line["route"], line["problem"]) == (status, route, answer.segment)
        assert answer.json["instance"].endswith(line["request_id"])
    assert next(each for each in told if each.get("fields"))["fields"] == ["country", "labels"]
    text = log.read_text(encoding="utf-8")
    for canary in (*PRIVATE, gateway.ready["api_key"], "wrong-key-canary"):
        assert canary not in text


async def test_the_level_is_a_setting(tmp_path: Path) -> None:
    log = tmp_path / "log"
    quiet = ("env", "MMO_LOG_LEVEL=error", *COMMAND)
    async with serving_process(
        "sandbox", "--data", tmp_path, *FREE_PORTS, log=log, command=quiet
    ) as g:
        assert (await ask(f"{g.ready['api']}/nowhere")).status == 404
    assert log.read_text(encoding="utf-8") == ""


@pytest.mark.parametrize(
    "wrong", [("MMO_LOG_FORMAT", "xml"), ("MMO_LOG_LEVEL", "loud")], ids=lambda each: each[0]
)
def test_a_wrong_word_stops_the_start(wrong: tuple[str, str]) -> None:
    with pytest.raises(SettingsError, match='must be "'):
        load_settings(environment=dict([wrong]))

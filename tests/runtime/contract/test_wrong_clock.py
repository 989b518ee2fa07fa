"""A gateway whose machine shows a wrong wall clock, from outside: no payment ends early, none
sleeps, and recorded times are true again as soon as the clock is (S3)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.merchant import Merchant
from tests.support.mmo_process import FREE_PORTS, mmo, serving_process
from tests.support.wrong_clock import ClockError

pytestmark = [pytest.mark.own_store, pytest.mark.long]

FOUR_DAYS, HOUR = timedelta(days=4), timedelta(hours=1)
SOON = HOUR
"""More than a test takes on a busy machine, and far less than a clock is wrong here."""


@pytest.fixture
def clock_error(tmp_path: Path) -> ClockError:
    error = ClockError(tmp_path / "seconds-ahead")
    error.set()
    return error


@asynccontextmanager
async def serving(directory: Path, error: ClockError) -> AsyncIterator[Merchant]:
    """Run a sandbox under this clock."""
    data, log = directory / "data", directory / "log"
    async with serving_process(
        "sandbox", "--data", data, *FREE_PORTS, log=log, command=error.command
    ) as process:
        yield Merchant(process.ready["api"], process.ready["api_key"])


def is_true(written: str) -> bool:
    """Tell whether a written time lies around now, by this process's clock."""
    return abs(datetime.now(UTC) - datetime.fromisoformat(written)) < SOON


async def is_learnt_by_polling(merchant: Merchant) -> bool:
    """Tell whether a payment that has to be polled succeeds within the time that every test
    waits."""
    created = await merchant.accepted(scenario="by_poll")
    ended = await merchant.ended(created["gatewayReference"])
    return ended["status"] == "success" and is_true(ended["completedAt"])


@pytest.mark.spec("S3", "S6")
async def test_a_clock_four_days_ahead_ends_no_payment_and_dates_none(
    tmp_path: Path, clock_error: ClockError
) -> None:
    advance = partial(mmo, "sandbox-clock", "advance", "--data", tmp_path / "data")
    async with serving(tmp_path, clock_error) as merchant:
        before = await merchant.accepted(scenario="never")
        clock_error.set(FOUR_DAYS)
        meanwhile = await merchant.accepted(scenario="never")
        assert is_true(meanwhile["createdAt"])
        assert await is_learnt_by_polling(merchant)
        clock_error.set()
        after = await merchant.accepted(scenario="never")
        assert is_true(after["createdAt"])
        assert await is_learnt_by_polling(merchant)
        pending = [each["gatewayReference"] for each in (before, meanwhile, after)]

        await advance(str(3 * 24 * 60 - 2) + "m")
        assert [(await merchant.status(each))["status"] for each in pending] == ["pending"] * 3
        await advance("2m")
        assert [(await merchant.status(each))["errorCode"] for each in pending] == [
            "transaction_expired"
        ] * 3


@pytest.mark.spec("S3", "S6")
async def test_a_clock_that_steps_back_an_hour_delays_no_poll_nor_does_a_restart(
    tmp_path: Path, clock_error: ClockError
) -> None:
    async with serving(tmp_path, clock_error) as merchant:
        clock_error.set(-HOUR)
        assert await is_learnt_by_polling(merchant)
        created = await merchant.accepted(scenario="by_poll")
        assert is_true(created["createdAt"])
    async with serving(tmp_path, clock_error) as merchant:
        assert (await merchant.ended(created["gatewayReference"]))["status"] == "success"
        clock_error.set()
        assert await is_learnt_by_polling(merchant)


@pytest.mark.spec("S3", "R1")
async def test_what_was_taken_under_a_wrong_clock_is_named_and_corrected(
    tmp_path: Path, clock_error: ClockError
) -> None:
    data = ("--data", tmp_path / "data")
    clock_error.set(FOUR_DAYS)
    async with serving(tmp_path, clock_error) as merchant:
        wrong = (await merchant.accepted(scenario="never"))["gatewayReference"]
        ended = (await merchant.accepted())["gatewayReference"]
        await merchant.ended(ended)
    clock_error.set()
    async with serving(tmp_path, clock_error) as merchant:
        right = await merchant.accepted(scenario="never")
        assert is_true(right["createdAt"])
        assert await listed_today(merchant) == [right["gatewayReference"]]

        said = await mmo("db", "check", *data, "--json", exit_code=1)
        faults = " ".join(json.loads(said)["faults"])
        assert wrong in faults
        assert ended in faults
        assert right["gatewayReference"] not in faults
        await mmo("db", "mend-clock", *data)
        assert not is_true((await merchant.status(wrong))["createdAt"])

        await mmo("db", "mend-clock", "--apply", *data)
        assert json.loads(await mmo("db", "check", *data, "--json")) == {"faults": []}
        assert await listed_today(merchant) == [wrong, ended, right["gatewayReference"]]
        corrected = await merchant.status(ended)
        assert is_true(corrected["createdAt"])
        assert is_true(corrected["completedAt"])
        assert corrected["createdAt"] <= corrected["completedAt"]
        assert "clock_mended" in await mmo("audit", "list", *data)

        await mmo("sandbox-clock", "advance", "3d", *data)
        assert (await merchant.status(wrong))["errorCode"] == "transaction_expired"


async def listed_today(merchant: Merchant) -> list[Any]:
    """Return the references of the records of the last hour."""
    now = datetime.now(UTC)
    answer = await merchant.records(begin=(now - HOUR).isoformat(), to=(now + HOUR).isoformat())
    return [each["gatewayReference"] for each in answer.json["data"]]

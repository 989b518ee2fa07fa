"""Three days pass in a sandbox that runs, by the commands that a developer has (S3, S5)."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.support.merchant import TIMEOUT_S, Merchant
from tests.support.mmo_process import (
    FREE_PORTS,
    CallbackRecorder,
    mmo,
    recording_callbacks,
    serving_process,
)

pytestmark = [pytest.mark.own_store, pytest.mark.long]


async def callback_of(recorder: CallbackRecorder, reference: str) -> bytes:
    """The body of this payment's callback, once it has come."""
    with trio.fail_after(TIMEOUT_S):
        while True:
            for each in recorder.callbacks:
                if each.gateway_reference == reference:
                    return each.body
            await trio.sleep(0.02)


@pytest.mark.spec("S3", "S5", "S1", "S2")
async def test_what_is_never_heard_of_expires_and_what_comes_later_waits_for_a_person(
    tmp_path: Path,
) -> None:
    advance = partial(mmo, "sandbox-clock", "advance", "--data", tmp_path)
    suspense = partial(mmo, "suspense", "list", "--json", "--data", tmp_path)
    async with (
        recording_callbacks(tmp_path) as recorder,
        serving_process(
            "sandbox", "--data", tmp_path, *FREE_PORTS, log=tmp_path / "log"
        ) as sandbox,
    ):
        ready = sandbox.ready
        merchant = Merchant(ready["api"], ready["api_key"], result_url=recorder.url)
        never = (await merchant.accepted(scenario="never"))["gatewayReference"]
        late = (await merchant.accepted(scenario="after_expiry"))["gatewayReference"]
        usual = (await merchant.accepted())["gatewayReference"]
        await merchant.ended(usual)
        assert (await merchant.status(never))["status"] == "pending"
        assert json.loads(await suspense()) == []

        await advance("3d")

        for reference in (never, late):
            found = await merchant.status(reference)
            assert (found["status"], found["errorCode"]) == ("failed", "transaction_expired")
            assert found["completionSource"] == "expiry"
            assert found["finalAmount"] is None
            called = await callback_of(recorder, reference)
            assert called == (await merchant.get(f"status/{reference}")).body

        await advance("2s")

        [entry] = json.loads(await suspense())
        assert (entry["gatewayReference"], entry["reason"]) == (late, "late_result")
        assert (await merchant.status(late))["status"] == "failed"
        assert (await merchant.status(usual))["status"] == "success"
        await callback_of(recorder, usual)
        called_back = [each.gateway_reference for each in recorder.callbacks]
        assert sorted(called_back) == sorted([never, late, usual]), "each once"

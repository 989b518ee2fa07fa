"""Test the local servers of `mmo listen` and `mmo simulate`."""

from __future__ import annotations

import signal

import pytest
import trio

from mmo_trio.cli.support.local_server import serving_until_stopped
from tests.support.time_limits import HANGS_AFTER_S


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_server_can_be_stopped_as_soon_as_it_says_that_it_serves(
    number: signal.Signals,
) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        async with serving_until_stopped() as nursery:
            nursery.start_soon(trio.sleep_forever)
            signal.raise_signal(number)

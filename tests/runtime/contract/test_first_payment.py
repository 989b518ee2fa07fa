"""A payment from request to callback, through every socket there is."""

from __future__ import annotations

import pytest

from mmo_sansio.values.strict_json import parse_object
from tests.support.sandbox_gateway import Running


@pytest.mark.spec("C1", "C6", "K1", "S1", "T4")
async def test_a_direct_payin_is_accepted_completed_and_called_back(sandbox: Running) -> None:
    accepted = await sandbox.merchant.accepted()
    assert accepted["status"] == "pending"
    reference = accepted["gatewayReference"]

    ended = await sandbox.merchant.ended(reference)
    assert ended["status"] == "success"

    callback = await sandbox.callback_for(reference)
    looked_up = await sandbox.merchant.get(f"status/{reference}")
    assert callback.body == looked_up.body
    assert parse_object(callback.body)
    assert sandbox.refused == []

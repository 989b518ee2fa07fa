"""Personal data is masked when it is old, and nothing needs it any more."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded
from mmo_sansio.payments.personal_data import MASKED_PARTY
from mmo_sansio.values.clock import DAY
from mmo_sansio.values.model import Party
from mmo_trio.storage.interface.retention import RetentionDuty
from tests.conformance.driver import NOON, after_noon, submit_batch
from tests.conformance.inputs import DELIVERED, PAYER, creation, reference, succeeded
from tests.runtime.storage.test_conformance import sqlite
from tests.support.time_limits import HANGS_AFTER_S


@pytest.mark.spec("K1")
async def test_a_payment_is_not_masked_before_its_callback_is_sent(tmp_path: Path) -> None:
    """The callback needs the payment's data, and the whole address."""
    async with sqlite(tmp_path)() as store:

        async def age() -> Party:
            await store.retention.age(RetentionDuty.PERSONAL_DATA, after_noon(DAY), "", limit=2)
            transaction = await store.transaction(reference(1))
            assert transaction is not None
            return transaction.order.party

        with trio.fail_after(HANGS_AFTER_S):
            begin = BeginSubmission(reference(1))
            await submit_batch(
                store, (creation(1), NOON), (begin, after_noon(1)), (succeeded(1), after_noon(2))
            )
            assert await age() == PAYER
            await submit_batch(store, (CallbackConcluded(reference(1), DELIVERED), after_noon(3)))
            assert await age() == MASKED_PARTY

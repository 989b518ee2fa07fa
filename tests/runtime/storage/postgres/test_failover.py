"""The primary is killed under load and its synchronous standby promoted: nothing that was answered
is lost."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
import trio

from mmo_sansio.messages.replies import Accepted
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.storage.conformance.inputs import creation, reference
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.system.clock import WallClock
from tests.support.postgres_cluster import Cluster, postgres_cluster

BACK_WITHIN_S = 10.0


@pytest.mark.spec("P5", "C6")
async def test_a_promoted_standby_has_everything_that_was_answered() -> None:
    with postgres_cluster() as cluster:
        async with open_postgres(cluster.url, serving=True) as store:
            engine = Engine(store, WallClock(), Outbox())
            async with trio.open_nursery() as nursery:
                await nursery.start(engine.run)
                with trio.fail_after(90):
                    answers = await _load(engine, cluster)
                nursery.cancel_scope.cancel()
            for number, answer in answers.items():
                found = await store.transaction(reference(number))
                if answer == "Accepted":
                    assert found is not None, number
                if answer == "StoreUnavailable":
                    assert found is None, number
            assert Counter(answers.values())["Accepted"] > 100
            assert not await store.integrity_errors()


async def _load(engine: Engine, cluster: Cluster) -> dict[int, str]:
    """Create payments while the primary dies, until the new one has taken a hundred more."""
    numbers, answers = count(), dict[int, str]()

    async def create(enough: trio.CancelScope) -> None:
        while True:
            number = next(numbers)
            try:
                reply = await engine.submit(creation(number))
                answers[number] = type(reply).__name__
            except (StoreUnavailable, OutcomeUnknown) as error:
                answers[number] = type(error).__name__

    def accepted() -> int:
        return Counter(answers.values())[Accepted.__name__]

    async def more_than(number: int) -> None:
        while accepted() <= number:  # noqa: ASYNC110  (a look now and then is simpler than an event for each)
            await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(create, nursery.cancel_scope)
        await more_than(199)
        await trio.to_thread.run_sync(cluster.kill_primary)
        before = accepted()
        asked_at = trio.current_time()
        await trio.to_thread.run_sync(cluster.promote)
        with trio.fail_after(BACK_WITHIN_S):
            await more_than(before)
        print(f"served {trio.current_time() - asked_at:.1f} s after the promotion was asked for")
        await more_than(before + 100)
        nursery.cancel_scope.cancel()
    return answers

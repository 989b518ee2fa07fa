"""A worker of Citus is killed under load: what was answered is stored, and what was refused is
not."""

from __future__ import annotations

from functools import partial

import trio

from mmo_sansio.messages.queries import LookUp
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import after_noon, submit_batch
from tests.conformance.inputs import creation, reference
from tests.support.citus_cluster import CitusCluster

BRANDS = [f"brand-{number}" for number in range(8)]
KILLS = 3
BETWEEN_KILLS = 40
"""Answers at least."""


async def test_nothing_that_was_answered_is_lost(cluster: CitusCluster, distributed: str) -> None:
    answered: dict[int, str] = {}
    enough = trio.Condition()
    refused: dict[int, str] = {}
    unknown: dict[int, str] = {}

    async def create_without_end(store: Store, nth: int, *, of_several: bool) -> None:
        number = nth * 100_000
        while True:
            number += 10
            brands = BRANDS[:3] if of_several else [BRANDS[nth]]
            batch = {number + place: brand for place, brand in enumerate(brands)}
            try:
                await submit_batch(
                    store,
                    *(
                        (creation(each, brand_id=brand), after_noon(each))
                        for each, brand in batch.items()
                    ),
                )
            except StoreUnavailable:
                refused.update(batch)
            except OutcomeUnknown:
                unknown.update(batch)
            else:
                answered.update(batch)
                async with enough:
                    enough.notify_all()

    async def answers(count: int) -> None:
        """Wait for so many more answers."""
        wanted = len(answered) + count
        async with enough:
            while len(answered) < wanted:
                await enough.wait()

    with trio.fail_after(400):
        async with (
            open_postgres(distributed, serving=True, timeout_s=5) as store,
            trio.open_nursery() as nursery,
        ):
            for nth in range(4):
                nursery.start_soon(partial(create_without_end, store, nth, of_several=nth == 3))
            for kill in range(KILLS):
                await answers(BETWEEN_KILLS)
                worker = 1 + kill % 2
                await trio.to_thread.run_sync(cluster.kill_worker, worker)
                await trio.sleep(1)
                await trio.to_thread.run_sync(cluster.start)
            await answers(BETWEEN_KILLS)
            nursery.cancel_scope.cancel()
        async with open_postgres(distributed, serving=True) as store:
            missing = set(answered)
            while missing:  # A prepared commit is completed by Citus, after its recovery interval.
                found = {
                    each
                    for each in missing
                    if await store.look_up(LookUp(answered[each], reference(each)))
                }
                missing -= found
            stored = [
                each
                for each in refused
                if await store.look_up(LookUp(refused[each], reference(each)))
            ]
            assert stored == []
            assert await store.integrity_errors() == []

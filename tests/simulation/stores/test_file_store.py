"""What befalls a simulated file, and what its process sees of it."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, StoreUnusable
from tests.conformance.driver import create_payments
from tests.conformance.inputs import reference
from tests.simulation.stores.faults import NO_FAULTS, StoreFaults
from tests.simulation.stores.file_store import open_file_store
from tests.simulation.stores.simulated_run import a_file, outcome_of, run


def test_one_process_at_a_time_serves_a_file() -> None:
    async def main() -> None:
        async with a_file() as file, open_file_store(file, "one") as one:
            with pytest.raises(StoreUnusable, match="another process serves the file: one"):
                await open_file_store(file, "two").__aenter__()
            await create_payments(one, [1])
            one.kill()
            async with open_file_store(file, "two") as two:
                [work] = await two.claim_abandoned(limit=10)
                assert work.transaction.reference == reference(1)

    run(main)


def test_a_commit_in_progress_at_the_death_of_its_process_is_whole_or_absent() -> None:
    found = set()

    async def main(seed: int) -> None:
        faults = StoreFaults(commit_s=(1.0, 1.0))
        async with a_file(faults, seed=seed) as file, trio.open_nursery() as nursery, open_file_store(file, "1") as one:
            nursery.start_soon(outcome_of, partial(create_payments, one, [1, 2]), [])
            await trio.sleep(0.2)
            nursery.start_soon(outcome_of, partial(create_payments, one, [3]), [])
            await trio.sleep(0.2)
            one.kill()
            with pytest.raises(StoreUnavailable):
                await one.next_wake()
            stored = tuple(file.memory.ledger.transactions)
            await trio.sleep(5)
            assert tuple(file.memory.ledger.transactions) == stored
            found.add(stored)

    for seed in range(10):
        run(partial(main, seed))
    assert found == {(), (reference(1), reference(2))}


def test_a_commit_that_takes_too_long_goes_on_without_its_caller() -> None:
    async def main() -> None:
        outcomes: list[object] = []
        faults = StoreFaults(stall=1.0, stall_s=(30.0, 30.0))
        async with a_file(faults) as file, open_file_store(file, "one") as one, trio.open_nursery() as nursery:
            nursery.start_soon(outcome_of, partial(create_payments, one, [1]), outcomes)
            await trio.sleep(5)
            nursery.start_soon(outcome_of, partial(create_payments, one, [2]), outcomes)
            await trio.sleep(15)
            file.faults = NO_FAULTS
            assert outcomes == [OutcomeUnknown, StoreUnavailable]
            assert await one.claim_abandoned(limit=10) == []
            await trio.sleep(15)
            assert list(file.memory.ledger.transactions) == [reference(1)]
            [work] = await one.claim_abandoned(limit=10)
            assert work.transaction.reference == reference(1)
            assert await one.claim_abandoned(limit=10) == []

    run(main)


def test_a_disk_that_fails_in_a_commit_leaves_the_outcome_open() -> None:
    stored = set()

    async def main(seed: int) -> None:
        async with a_file(StoreFaults(lost_after=1.0), seed=seed) as file, open_file_store(file, "one") as one:
            with pytest.raises(OutcomeUnknown):
                await create_payments(one, [1])
            found = await one.claim_abandoned(limit=10)
            assert len(found) == len(file.memory.ledger.transactions)
            stored.add(len(found))

    for seed in range(10):
        run(partial(main, seed))
    assert stored == {0, 1}


def test_a_full_disk_lets_reads_pass() -> None:
    async def main() -> None:
        async with a_file() as file, open_file_store(file, "one") as one:
            await create_payments(one, [1])
            file.fill_disk(60)
            with pytest.raises(StoreUnavailable):
                await create_payments(one, [2])
            with pytest.raises(StoreUnavailable):
                await one.check()
            assert await one.transaction(reference(1)) is not None
            await trio.sleep(60)
            await create_payments(one, [2])
            assert file.draws.counts["disk_full"] == 1

    run(main)


def test_a_slow_or_busy_file_is_unavailable() -> None:
    async def main() -> None:
        async with a_file(StoreFaults(late=1.0, late_s=(11.0, 11.0), refused=1.0)) as file:
            async with open_file_store(file, "one") as one:
                with pytest.raises(StoreUnavailable, match="10 s"):
                    await one.next_wake()
                with pytest.raises(StoreUnavailable, match="busy"):
                    await create_payments(one, [1])
            assert file.memory.ledger.transactions == {}

    run(main)

"""What befalls a simulated file, and what its process sees of it: the shipped store on SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

import pytest
import trio

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.values.model import Stage, Transaction
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, StoreUnusable
from tests.conformance.driver import NOON, create_payments, submit_batch
from tests.conformance.inputs import reference
from tests.simulation.stores.faults import NO_FAULTS, StoreFaults
from tests.simulation.stores.file_store import FileProcess, SimulatedFile
from tests.simulation.stores.simulated_run import a_file, outcome_of, run

CREATED = (reference(1), reference(2))


def stored_in(file: SimulatedFile) -> tuple[str, ...]:
    """Return the references of the payments in the file, as another process reads them."""
    with closing(sqlite3.connect(file.stored.path)) as reader:
        return tuple(
            each
            for (each,) in reader.execute("SELECT gateway_reference FROM transactions ORDER BY id")
        )


def test_one_process_at_a_time_serves_a_file() -> None:
    async def main() -> None:
        async with a_file() as file:
            one, two = FileProcess(file, "one"), FileProcess(file, "two")
            async with one.open() as store:
                with pytest.raises(StoreUnusable, match="another process serves"):
                    await FileProcess(file, "too early").open().__aenter__()
                await create_payments(store, [1])
                one.kill()
                async with two.open() as later:
                    [work] = await later.claim_abandoned(limit=10)
                    assert work.transaction.reference == reference(1)

    run(main)


def test_a_commit_in_progress_at_the_death_of_its_process_is_whole_or_absent() -> None:
    found = set()

    async def main(seed: int) -> None:
        faults = StoreFaults(commit_s=(1.0, 1.0))
        async with a_file(faults, seed=seed) as file, trio.open_nursery() as nursery:
            one = FileProcess(file, "one")
            async with one.open() as store:
                nursery.start_soon(outcome_of, partial(create_payments, store, [1, 2]), [])
                await trio.sleep(0.2)
                nursery.start_soon(outcome_of, partial(create_payments, store, [3]), [])
                await trio.sleep(0.2)
                one.kill()
                with pytest.raises(StoreUnavailable):
                    await store.next_wake()
                stored = stored_in(file)
                await trio.sleep(5)
                assert stored_in(file) == stored
                found.add(stored)

    for seed in range(10):
        run(partial(main, seed))
    assert found == {(), CREATED}


def test_a_process_that_dies_between_two_statements_has_stored_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.simulation.stores.file_store.PAUSED", 1.0)

    async def main() -> None:
        async with (
            a_file(StoreFaults(commit_s=(0.001, 0.001))) as file,
            trio.open_nursery() as nursery,
        ):
            one = FileProcess(file, "one")
            async with one.open() as store:
                nursery.start_soon(outcome_of, partial(create_payments, store, [1]), [])
                await trio.sleep(0.001)
                one.kill()
            async with FileProcess(file, "two").open() as store:
                assert stored_in(file) == ()
                await create_payments(store, [2])
                assert stored_in(file) == (reference(2),)

    run(main)


def test_others_read_what_is_committed_while_a_commit_waits_for_the_disk() -> None:
    async def main() -> None:
        disk = StoreFaults(commit_s=(1.0, 1.0))
        async with (
            a_file(disk) as file,
            FileProcess(file, "one").open() as one,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(create_payments, one, [1])
            await trio.sleep(0.5)
            assert await one.transaction(reference(1)) is None
            await trio.sleep(1)
            assert await one.transaction(reference(1)) is not None

    run(main)


def test_a_commit_stands_still_while_its_process_is_suspended() -> None:
    waiting: list[Callable[[], None]] = []

    async def main() -> None:
        async with a_file(StoreFaults(commit_s=(1.0, 1.0))) as file:
            process = FileProcess(file, "one", when_running=waiting.append)
            async with process.open() as one, trio.open_nursery() as nursery:
                nursery.start_soon(create_payments, one, [1])
                await trio.sleep(5)
                assert stored_in(file) == ()
                waiting.pop()()
                assert stored_in(file) == (reference(1),)

    run(main)


def test_a_commit_that_takes_too_long_goes_on_without_its_caller() -> None:
    async def main() -> None:
        outcomes: list[object] = []
        faults = StoreFaults(stall=1.0, stall_s=(30.0, 30.0))
        async with (
            a_file(faults) as file,
            FileProcess(file, "one").open() as one,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(outcome_of, partial(create_payments, one, [1]), outcomes)
            await trio.sleep(5)
            nursery.start_soon(outcome_of, partial(create_payments, one, [2]), outcomes)
            await trio.sleep(15)
            file.faults = NO_FAULTS
            assert outcomes == [OutcomeUnknown, StoreUnavailable]
            assert await one.claim_abandoned(limit=10) == []
            await trio.sleep(15)
            assert stored_in(file) == (reference(1),)
            [work] = await one.claim_abandoned(limit=10)
            assert work.transaction.reference == reference(1)
            assert await one.claim_abandoned(limit=10) == []

    run(main)


def test_a_disk_that_fails_in_a_commit_leaves_the_outcome_open() -> None:
    stored = set()

    async def main(seed: int) -> None:
        async with (
            a_file(StoreFaults(lost_after=1.0), seed=seed) as file,
            FileProcess(file, "one").open() as one,
        ):
            with pytest.raises(OutcomeUnknown):
                await create_payments(one, [1])
            found = await one.claim_abandoned(limit=10)
            assert len(found) == len(stored_in(file))
            stored.add(len(found))

    for seed in range(10):
        run(partial(main, seed))
    assert stored == {0, 1}


@pytest.mark.spec("P5")
def test_what_a_commit_in_doubt_has_not_stored_is_not_decided_from() -> None:
    advanced: set[Stage] = set()

    async def main(seed: int) -> None:
        async with a_file(seed=seed) as file, FileProcess(file, "one").open() as one:
            await create_payments(one, [1])
            file.faults = StoreFaults(lost_after=1.0)
            with pytest.raises(OutcomeUnknown):
                await submit_batch(one, (BeginSubmission(reference(1)), NOON))
            file.faults = NO_FAULTS
            found: list[Transaction | None] = []

            def look(ledger: Ledger) -> Sequence[Decision]:
                found.append(ledger.transaction(reference(1)))
                return ()

            await one.transact(Reads(transactions=frozenset([reference(1)])), look)
            assert found == [await one.transaction(reference(1))]
            advanced.update(each.progress.stage for each in found if each is not None)

    for seed in range(10):
        run(partial(main, seed))
    assert advanced == {Stage.CREATED, Stage.SUBMITTING}


def test_a_full_disk_lets_reads_pass() -> None:
    async def main() -> None:
        async with a_file() as file, FileProcess(file, "one").open() as one:
            await create_payments(one, [1])
            file.fill_disk(60)
            with pytest.raises(StoreUnavailable, match="disk is full"):
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
        async with a_file() as file, FileProcess(file, "one").open() as one:
            file.faults = StoreFaults(late=1.0, late_s=(11.0, 11.0), refused=1.0)
            with pytest.raises(StoreUnavailable, match="10 s"):
                await one.next_wake()
            with pytest.raises(StoreUnavailable, match="locked"):
                await create_payments(one, [1])
            assert stored_in(file) == ()

    run(main)


def test_each_commit_that_takes_place_is_observed_once() -> None:
    async def main() -> None:
        observed: list[int] = []
        async with a_file() as file, FileProcess(file, "one").open() as one:
            file.observe = lambda decisions: observed.append(len(decisions))
            await create_payments(one, [1, 2])
            await one.admin.release_brand("nobody")
            await one.next_wake()
            file.faults = StoreFaults(refused=1.0)
            with pytest.raises(StoreUnavailable):
                await create_payments(one, [3])
        assert [each for each in observed if each] == [2]

    run(main)

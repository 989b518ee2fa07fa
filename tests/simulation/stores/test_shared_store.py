"""What befalls a simulated server, and what the processes that share it see of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Never

import pytest
import trio

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.messages.queries import ListRecords
from mmo_sansio.messages.replies import Accepted, Rejected
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.values.clock import MINUTE, SECOND, Instant, MonotonicInstant, Span
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreLost, StoreUnavailable
from tests.conformance.driver import NOON, after_noon, create_payments, submit_batch
from tests.conformance.inputs import creation, failed, reference
from tests.simulation.stores.faults import NO_FAULTS, StoreFaults
from tests.simulation.stores.shared_server import SimulatedServer
from tests.simulation.stores.shared_store import SimulatedSharedStore, open_shared_store
from tests.simulation.stores.simulated_run import a_server, outcome_of, quiet_server, run
from tests.support.stored_ledger import stored_ledger

SLOW = StoreFaults(latency_s=(0.1, 0.2), commit_s=(0.0, 0.1))


def stored_payments(server: SimulatedServer) -> Mapping[str, Transaction]:
    """Return the payments on record, by gatewayReference."""
    return stored_ledger(server.rows.connection).transactions


def test_what_a_dead_process_has_sent_arrives_whole_or_not_at_all() -> None:
    found = set()

    async def main(seed: int) -> None:
        async with (
            a_server(StoreFaults(latency_s=(1.0, 1.0)), seed=seed) as server,
            trio.open_nursery() as nursery,
        ):
            async with open_shared_store(server, "one") as one:
                nursery.start_soon(outcome_of, partial(create_payments, one, [1, 2]), [])
                await trio.sleep(2.5)
                one.kill()
                with pytest.raises(StoreUnavailable):
                    await one.next_wake()
            assert not stored_payments(server)
            await trio.sleep(5)
            found.add(tuple(stored_payments(server)))

    for seed in range(10):
        run(partial(main, seed))
    assert found == {(), (reference(1), reference(2))}


def test_a_lost_reply_to_a_commit_is_found_out() -> None:
    async def main() -> None:
        faults = StoreFaults(latency_s=(0.001, 0.01), lost_before=0.1, lost_after=0.3, conflict=0.1)
        async with a_server(faults) as server, open_shared_store(server, "one") as one:
            for number in range(100):
                await create_payments(one, [number])
            server.faults = NO_FAULTS
            assert len(stored_payments(server)) == 100
            assert server.draws.counts["lost_after"] > 20

    run(main)


def test_processes_that_create_the_same_payment_agree_on_one() -> None:
    async def main(seed: int) -> None:
        async with a_server(SLOW, seed=seed) as server, open_shared_store(server, "one") as one:
            async with open_shared_store(server, "two") as two:
                replies: list[object] = []
                async with trio.open_nursery() as nursery:
                    for number, store in enumerate([one, two, one, two]):
                        use = creation(number, merchant_reference="order-1"), after_noon(number)
                        nursery.start_soon(outcome_of, partial(submit_batch, store, use), replies)
            kinds = [
                type(each) for reply in replies if isinstance(reply, Sequence) for each in reply
            ]
            assert (kinds.count(Accepted), kinds.count(Rejected)) == (1, 3)

    for seed in range(5):
        run(partial(main, seed))


def test_a_payment_is_moved_by_one_process_at_a_time() -> None:
    async def main(seed: int) -> None:
        async with a_server(SLOW, seed=seed) as server, open_shared_store(server, "one") as one:
            async with open_shared_store(server, "two") as two:
                await create_payments(one, range(5))
                await submit_batch(
                    one, *((BeginSubmission(reference(each)), after_noon(10)) for each in range(5))
                )
                async with trio.open_nursery() as nursery:
                    for number in range(5):
                        for store in (one, two):
                            end = failed(number), after_noon(20 + number)
                            nursery.start_soon(outcome_of, partial(submit_batch, store, end), [])
            stored = stored_payments(server).values()
            assert {each.progress.version for each in stored} == {3}

    for seed in range(5):
        run(partial(main, seed))


def test_a_commit_in_doubt_is_settled_later() -> None:
    async def main() -> None:
        outcomes: list[object] = []
        async with (
            a_server(StoreFaults(commit_s=(1.0, 1.0))) as server,
            trio.open_nursery() as nursery,
            open_shared_store(server, "one") as one,
        ):
            nursery.start_soon(outcome_of, partial(create_payments, one, [1]), outcomes)
            await trio.sleep(0.5)  # The commit is in progress.
            server.stand_still(60)
            await trio.sleep(12)
            assert [
                issubclass(each, OutcomeUnknown) for each in outcomes if isinstance(each, type)
            ] == [True]
            await trio.sleep(60)
            assert list(stored_payments(server)) == [reference(1)]
            [work] = await one.claim_abandoned(limit=10)
            assert work.transaction.reference == reference(1)
            assert await one.claim_abandoned(limit=10) == ()

    run(main)


def test_a_commit_is_in_doubt_where_the_server_was_lost_before_its_reply() -> None:
    async def main() -> None:
        outcomes: list[object] = []
        async with (
            a_server(StoreFaults(commit_s=(1.0, 1.0))) as server,
            trio.open_nursery() as nursery,
            open_shared_store(server, "one") as one,
        ):
            nursery.start_soon(outcome_of, partial(create_payments, one, [1]), outcomes)
            await trio.sleep(0.5)  # The commit is in progress.
            server.is_reachable = lambda _: False
            nursery.start_soon(
                outcome_of, one.next_wake, []
            )  # It learns first that the server is lost.
            await trio.sleep(12)
            assert [
                issubclass(each, OutcomeUnknown) for each in outcomes if isinstance(each, type)
            ] == [True]
            server.is_reachable = lambda _: True
            [work] = await one.claim_abandoned(limit=10)
            assert work.transaction.reference == reference(1)

    run(main)


def test_what_a_claim_in_doubt_has_claimed_is_found_later() -> None:
    async def main() -> None:
        async with a_server() as server, open_shared_store(server, "two") as two:
            async with open_shared_store(server, "one") as one:
                await create_payments(one, [1])
            server.faults = StoreFaults(lost_after=1.0)
            with pytest.raises(OutcomeUnknown):
                await two.claim_abandoned(limit=10)
            server.faults = NO_FAULTS
            [work] = await two.claim_abandoned(limit=10)
            assert work.transaction.reference == reference(1)
            assert await two.claim_abandoned(limit=10) == ()

    run(main)


def test_a_claim_that_arrives_when_its_caller_has_given_up_claims_nothing() -> None:
    async def main() -> None:
        async with a_server() as server, open_shared_store(server, "two") as two:
            async with open_shared_store(server, "one") as one:
                await create_payments(one, [1])
            server.faults = StoreFaults(late=1.0, late_s=(20.0, 20.0))
            with pytest.raises(OutcomeUnknown):
                await two.claim_abandoned(limit=10)
            server.faults = NO_FAULTS
            await trio.sleep(60)  # What is late has arrived.
            [work] = await two.claim_abandoned(limit=10)
            assert work.transaction.reference == reference(1)

    run(main)


def test_work_of_a_settled_commit_is_not_lost_with_the_claim_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def lose(name: str, statement: object) -> Never:
        raise OutcomeUnknown("lost")

    async def main() -> None:
        outcomes: list[object] = []
        async with (
            a_server(StoreFaults(commit_s=(1.0, 1.0))) as server,
            trio.open_nursery() as nursery,
            open_shared_store(server, "one") as one,
        ):
            nursery.start_soon(outcome_of, partial(create_payments, one, [1]), outcomes)
            await trio.sleep(0.5)  # The commit is in progress.
            server.stand_still(60)
            await trio.sleep(80)
            with monkeypatch.context() as patch:
                patch.setattr(one, "write", lose)
                [work] = await one.claim_abandoned(limit=10)
            assert work.transaction.reference == reference(1)

    run(main)


def test_a_standby_has_what_was_acknowledged() -> None:
    stored = set()

    async def main(seed: int) -> None:
        faults = StoreFaults(latency_s=(0.01, 0.02), commit_s=(2.0, 2.0))
        outcomes: list[object] = []
        async with a_server(faults, seed=seed) as server, open_shared_store(server, "one") as one:
            await create_payments(one, [1])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(outcome_of, partial(create_payments, one, [2]), outcomes)
                await trio.sleep(1)
                server.fail_over(3.0, clock_step=Span(SECOND))
                stored.add(tuple(stored_payments(server)))
            assert outcomes == [None]
            assert list(stored_payments(server)) == [reference(1), reference(2)]
            assert server.wall() == server.clock() + NOON

    for seed in range(10):
        run(partial(main, seed))
    assert stored == {(reference(1),), (reference(1), reference(2))}


def test_a_lost_server_is_not_waited_for_again_and_again() -> None:
    async def main() -> None:
        async with a_server() as server, open_shared_store(server, "one") as one:
            server.is_reachable = lambda process: process != "one"
            began = trio.current_time()
            with pytest.raises(StoreUnavailable):
                await one.next_wake()
            assert trio.current_time() > began
            began = trio.current_time()
            with pytest.raises(StoreLost):
                await one.next_wake()
            assert trio.current_time() == began
            server.is_reachable = lambda _: True
            assert await one.next_wake() is None

    run(main)


def test_records_wait_for_a_commit_that_could_add_to_them() -> None:
    async def main() -> None:
        async with (
            a_server(StoreFaults(commit_s=(5.0, 5.0))) as server,
            trio.open_nursery() as nursery,
            open_shared_store(server, "one") as one,
            open_shared_store(server, "two") as two,
        ):
            await trio.sleep(100)
            nursery.start_soon(create_payments, one, [1])
            await trio.sleep(1)
            query = ListRecords("acme", NOON, after_noon(50 * SECOND), page_size=10)
            assert len((await two.list_records(query)).objects) == 1
            transaction = server.begin_transaction("one", 1, is_writer=False)
            assert server.load(transaction, Reads()).not_before == query.end
            server.roll_back(transaction)
            await two.release_held(NOON)
            assert server.horizon == NOON

    run(main)


def test_a_session_that_says_nothing_loses_its_locks() -> None:
    async def main() -> None:
        async with a_server() as server, open_shared_store(server, "one") as one:
            await create_payments(one, [1])
            stopped = server.begin_transaction("stopped", 99, is_writer=True)
            server.load(stopped, Reads())
            began = trio.current_time()
            query = ListRecords("acme", NOON, after_noon(50 * SECOND), page_size=10)
            assert len((await one.list_records(query)).objects) == 1
            assert 4 < trio.current_time() - began < 6
            assert server.draws.counts["idle_session_ended"] == 1

    run(main)


def test_a_full_disk_refuses_commits_only() -> None:
    async def main() -> None:
        async with a_server() as server, open_shared_store(server, "one") as one:
            server.fill_disk(60)
            with pytest.raises(StoreUnavailable, match="the disk is full"):
                await create_payments(one, [1])
            with pytest.raises(StoreUnavailable, match="the disk is full"):
                await one.admin.end_session(b"")
            assert await one.admin.users() == []

    run(main)


def test_a_claim_whose_answer_is_lost_is_in_doubt() -> None:
    async def main() -> None:
        async with a_server() as server, open_shared_store(server, "one") as one:
            server.faults = StoreFaults(lost_after=1.0)
            with pytest.raises(OutcomeUnknown):
                await one.ownership.claim()
            server.faults = StoreFaults(refused=1.0)
            with pytest.raises(StoreUnavailable):
                await one.ownership.claim()

    run(main)


def test_the_lease_of_a_dead_process_ends_by_the_clock_of_the_server() -> None:
    async def main() -> None:
        async with (
            a_server() as server,
            open_shared_store(server, "one") as one,
            open_shared_store(server, "two") as two,
        ):
            await create_payments(one, [1])
            one.kill()
            await trio.sleep(9)
            assert (await two.ownership.counts()).alive == 2
            await two.ownership.renew_lease()
            await trio.sleep(2)
            assert (await two.ownership.counts()).alive == 1
            assert await two.claim_abandoned(limit=1) == ()
            assert [each.brand for each in await two.ownership.claim(end_leases=True)] == []
            [work] = await two.claim_abandoned(limit=1)
            assert work.transaction.reference == reference(1)

    run(main)


def test_machines_compare_their_clocks_with_the_server() -> None:
    async def main() -> None:
        server = quiet_server()
        async with open_shared_store(server, "one") as one:
            for boot, wrong in (("right", 0), ("wrong", 5 * MINUTE)):
                now = Instant(server.wall() + wrong)
                await one.save_clock_record(
                    ClockRecord(boot, MonotonicInstant(0), now, now, Instant(0))
                )
            await trio.sleep(60)
            found = await one.read_clock("mine")
            assert found is not None
            assert (found.now, found.agreeing, found.differing) == (server.wall(), 1, 1)
            record = await one.clock_record("right")
            assert record is not None
            assert record.age == 60 * SECOND

    run(main)


async def some_course(store: SimulatedSharedStore) -> None:
    """Create payments as well as the faults allow."""
    for number in range(30):
        await outcome_of(partial(create_payments, store, [number]), [])


def traced(*, skipped: frozenset[int] = frozenset()) -> list[tuple[str, object]]:
    """Return the trace of one course of events."""
    events: list[tuple[str, object]] = []

    def trace(event: str, /, **details: object) -> None:
        events.append((event, details))

    async def main() -> None:
        faults = StoreFaults(
            latency_s=(0.01, 0.5), refused=0.02, lost_after=0.1, stall=0.05, late=0.05
        )
        async with a_server(faults) as server, trio.open_nursery() as nursery:
            server.draws.trace = trace
            server.draws.skipped = skipped
            async with (
                open_shared_store(server, "one") as one,
                open_shared_store(server, "two") as two,
            ):
                nursery.start_soon(some_course, two)
                await some_course(one)

    run(main)
    return events


def test_a_seed_decides_everything() -> None:
    first = traced()
    assert traced() == first
    assert sum(event == "store_fault" for event, _ in first) > 5


def test_a_fault_is_left_out_by_its_number() -> None:
    def numbers(events: list[tuple[str, object]]) -> list[object]:
        return [
            details["number"]
            for event, details in events
            if event == "store_fault" and isinstance(details, dict)
        ]

    assert numbers(traced())[:2] == [1, 2]
    assert numbers(traced(skipped=frozenset({1})))[0] == 2

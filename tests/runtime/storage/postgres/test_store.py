"""What PostgreSQL adds to the promises of a store: several nodes at once, and who holds what."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import pytest
import trio
from attrs import evolve, frozen

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    EndedPollConcluded,
    Input,
    ProviderFailed,
    ProviderHinted,
    ProviderSucceeded,
    StopPayment,
    UnmatchedNotified,
)
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.queries import ListRecords, LookUpByMerchantReference
from mmo_sansio.messages.replies import Accepted, Rejected, Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values import clock
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    BrandLimits,
    Limits,
    Operation,
    ReusePolicy,
    Source,
    Status,
    Type,
)
from mmo_sansio.values.money import Money
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.storage.interface.store import StoreUnavailable, StoreUnusable
from mmo_trio.storage.postgres import PostgresStore, migrations, open_postgres, ownership
from mmo_trio.system.clock import GatewayClock
from tests.conformance.driver import NOON, claim_all_abandoned, submit_batch
from tests.conformance.inputs import DELIVERED, creation, failed, reference, succeeded
from tests.support import postgres_process
from tests.support.effort import by_effort
from tests.support.postgres_programs import chosen
from tests.support.postgres_server import PostgresServer

# isort: split
import psycopg

from mmo_sansio.values.clock import Instant, Span, earlier, later
from tests.support.time_limits import HANGS_AFTER_S


@frozen
class Node:
    """A gateway's store with the engine before it."""

    store: PostgresStore
    engine: Engine


@asynccontextmanager
async def nodes(url: str, *offsets: clock.Span) -> AsyncIterator[Sequence[Node]]:
    """One node for each offset of its clock."""

    async with AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(open_postgres(url, serving=True)) for _ in offsets
        ]
        found = [
            Node(store, Engine(store, GatewayClock(offset=offset), Outbox()))
            for store, offset in zip(stores, offsets, strict=True)
        ]
        async with trio.open_nursery() as nursery:
            for node in found:
                await nursery.start(node.engine.run)
            yield found
            nursery.cancel_scope.cancel()


@pytest.mark.spec("C12")
async def test_of_fifty_creates_with_one_reference_on_two_nodes_one_is_accepted(
    database: str,
) -> None:
    async with nodes(database, Span(0), Span(0)) as both:
        for turn in range(by_effort(5, 100)):
            replies: list[Reply] = []

            async def create(number: int, turn: int = turn, replies: list[Reply] = replies) -> None:
                given = creation(turn * 50 + number, merchant_reference=f"order-{turn}")
                replies.append(await both[number % 2].engine.submit(given))

            with trio.fail_after(HANGS_AFTER_S):
                async with trio.open_nursery() as nursery:
                    for number in range(50):
                        nursery.start_soon(create, number)
            assert Counter(map(type, replies)) == {Accepted: 1, Rejected: 49}
            (accepted,) = [each for each in replies if isinstance(each, Accepted)]
            found = await both[0].store.admin.find_transactions(reference=f"order-{turn}")
            assert [each.reference for each in found] == [accepted.order.gateway_reference]


@pytest.mark.spec("S1", "S5", "K3")
async def test_what_two_nodes_are_told_at_once_happens_once(database: str) -> None:
    """Results that contradict each other, then callbacks that both have made: one of each
    counts."""
    payments, random = 40, Random(7)

    def failed(number: int) -> Input:
        return ProviderFailed(
            reference(number), "sandbox", Source.WEBHOOK, ErrorCode.USER_CANCELLED, None, "17"
        )

    async with nodes(database, Span(0), Span(0)) as both:

        async def tell(node: Node, inputs: list[Input]) -> None:
            random.shuffle(inputs)
            async with trio.open_nursery() as nursery:
                for each in inputs:
                    nursery.start_soon(node.engine.submit, each)

        with trio.fail_after(HANGS_AFTER_S):
            first = both[0]
            await tell(first, [creation(n) for n in range(payments)])
            await tell(first, [BeginSubmission(reference(n)) for n in range(payments)])
            async with trio.open_nursery() as nursery:
                for node in both:
                    told = [make(n) for n in range(payments) for make in (succeeded, failed)]
                    nursery.start_soon(tell, node, told)
            async with trio.open_nursery() as nursery:
                for node in both:
                    done: list[Input] = [
                        CallbackConcluded(reference(n), DELIVERED) for n in range(payments)
                    ]
                    nursery.start_soon(tell, node, done)
        for number in range(payments):
            ended = await first.store.transaction(reference(number))
            assert ended is not None
            assert ended.status is not Status.PENDING
            lines = await first.store.admin.timeline(reference(number))
            endings = [each for each in lines if each.stage_before == "awaiting_result"]
            moved = [each for each in lines if each.stage_before != each.stage_after]
            assert len(moved) == ended.progress.version, (endings, lines)
            assert len(await first.store.admin.callbacks(gateway_reference=reference(number))) == 1
        book = await first.store.admin.suspense()
        assert sum(each.times for each in book) == 3 * payments


@pytest.mark.spec("S5")
async def test_a_question_is_not_concluded_with_what_another_node_is_told_meanwhile(
    database: str,
) -> None:
    about, told = reference(1), partial(ProviderHinted, reference(1), "sandbox")

    async def tell_the_other() -> None:
        async with open_postgres(database, serving=True) as other:
            await submit_batch(other, (told("PAID"), NOON))

    async with open_postgres(database, serving=True) as store:
        for given in (creation(1), BeginSubmission(about), failed(1), told("PENDING")):
            await submit_batch(store, (given, NOON))
        concluded, attempts = EndedPollConcluded(about, hint="PENDING"), count(1)

        def decide_late(ledger: Ledger) -> Sequence[Decision]:
            if next(attempts) == 1:
                with ThreadPoolExecutor() as thread:
                    thread.submit(trio.run, tell_the_other).result()
            return [decide(ledger, concluded, now=NOON)]

        await store.transact(reads(concluded), decide_late)
        assert next(attempts) > 2, "it was decided again"
        [(_, open_question)] = (await store.open_polls([about])).items()
        assert open_question.hint == "PENDING\nPAID"


@pytest.mark.spec("C12", "S1", "S5")
@pytest.mark.parametrize("seed", range(by_effort(3, 25)))
async def test_batches_beside_each_other_race_as_nodes_do_and_keep_the_order_of_what_is_posted(
    database: str, seed: int
) -> None:
    """Small batches, two under way on each of two nodes, and few merchantReferences, which both
    nodes want. Then one node is told of every payment in turn that it is submitted, has succeeded,
    and, too late, that it has failed."""
    random, wanted = Random(seed), 6
    async with nodes(database, Span(0), Span(0)) as both:
        for node in both:
            node.engine.batch_max = 4
        with trio.fail_after(HANGS_AFTER_S):
            calls = []
            for number in range(80):
                given = creation(number, merchant_reference=f"order-{random.randrange(wanted)}")
                calls.append((given, random.choice(both).engine.enqueue(given)))
                if random.random() < 0.2:
                    await trio.sleep(0.001 * random.random())
            accepted: dict[str | None, str] = {}
            for given, call in calls:
                if isinstance(await call.reply(), Accepted):
                    assert given.draft.merchant_reference not in accepted
                    accepted[given.draft.merchant_reference] = given.gateway_reference
            assert len(accepted) == wanted
            first = random.choice(both)
            told: list[list[Input]] = [
                [
                    BeginSubmission(each),
                    ProviderSucceeded(each, "sandbox", Source.WEBHOOK, "P1"),
                    ProviderFailed(each, "sandbox", Source.WEBHOOK, ErrorCode.USER_CANCELLED),
                ]
                for each in accepted.values()
            ]
            posted = []
            while told := [each for each in told if each]:
                posted.append(first.engine.enqueue(random.choice(told).pop(0)))
                if random.random() < 0.5:
                    await trio.sleep(0.001 * random.random())
            for later in posted:
                await later.reply()
        for each in accepted.values():
            lines = await first.store.admin.timeline(each)
            assert [line.stage_after for line in lines][:3] == [
                "created",
                "submitting",
                "succeeded",
            ]
            stamps = [line.at for line in lines]
            assert stamps == sorted(set(stamps))
        assert sum(each.times for each in await first.store.admin.suspense()) == wanted
        assert not await first.store.integrity_errors()


SLOW = """
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_sleep(0.06 * random() * random());
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER slow AFTER INSERT ON transactions FOR EACH STATEMENT EXECUTE FUNCTION slow();
"""


@pytest.mark.spec("R7")
async def test_a_walk_over_the_past_is_complete_whatever_is_being_written(database: str) -> None:
    """Two nodes whose clocks differ, with slow commits, and a walk on each over a window that ends
    now."""
    async with nodes(database, Span(0), Span(-30 * clock.MILLISECOND)) as both:
        await _execute(database, SLOW)
        numbers = iter(range(10**9))
        stop = trio.Event()

        async def write(node: Node) -> None:
            while not stop.is_set():
                await node.engine.submit(creation(next(numbers)))

        async def walk(node: Node, begin: Instant, end: Instant) -> list[bytes]:
            query = ListRecords("acme", begin, end, page_size=7)
            found: list[bytes] = []
            page = await node.store.list_records(query)
            found += page.objects
            while page.has_next:
                page = await node.store.list_records(
                    ListRecords("acme", begin, end, page_size=7, after=page.last)
                )
                found += page.objects
            return found

        walks: list[tuple[Instant, Instant, list[bytes]]] = []
        with trio.fail_after(HANGS_AFTER_S):
            async with trio.open_nursery() as nursery:
                for node in both:
                    for _ in range(6):
                        nursery.start_soon(write, node)
                for turn in range(by_effort(6, 50)):
                    await trio.sleep(0.02)
                    end = GatewayClock().wall_time()
                    begin = earlier(end, Span(150 * clock.MILLISECOND))
                    walks.append((begin, end, await walk(both[turn % 2], begin, end)))
                stop.set()
        assert sum(len(found) for _, _, found in walks) > len(walks), "something was being written"
        for since, until, found in walks:
            whole = await both[0].store.list_records(
                ListRecords("acme", since, until, page_size=5_000)
            )
            assert [_reference(each) for each in found] == [_reference(o) for o in whole.objects]
    print(f"{len(walks)} walks over {sum(len(found) for _, _, found in walks)} payments")


def _reference(rendered: bytes) -> bytes:
    return rendered.partition(b'"gatewayReference":')[2][:29]


@pytest.mark.spec("R7")
async def test_a_payment_is_listed_by_the_first_call_after_its_answer(database: str) -> None:
    async with nodes(database, Span(0), Span(-clock.SECOND)) as both:
        for number in range(20):
            accepted = await both[number % 2].engine.submit(creation(number))
            assert isinstance(accepted, Accepted)
            listed = await both[1 - number % 2].store.list_records(
                ListRecords("acme", Instant(0), clock.LAST_INSTANT)
            )
            assert len(listed.objects) == number + 1


@pytest.mark.spec("K3", "S6")
async def test_what_a_dead_process_held_is_handed_to_one_other(database: str) -> None:
    async with (
        nodes(database, Span(0), Span(0)) as (one, two),
        open_postgres(database, serving=True) as third,
    ):
        await submit_batch(third, *((creation(n), later(NOON, Span(n))) for n in range(30)))
        assert not await one.store.claim_abandoned(limit=100), "its lease runs"
        await _execute(database, "UPDATE holders SET alive_until = now() WHERE id > 2")
        assert not await one.store.claim_abandoned(limit=100), "nobody has ended its lease"
        assert one.store.ownership
        await one.store.ownership.claim(end_leases=True)
        found: list[str] = []

        async def take(store: PostgresStore) -> None:
            for _ in range(10):
                works = await store.claim_abandoned(limit=3)
                found.extend(each.transaction.reference for each in works)

        with trio.fail_after(HANGS_AFTER_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(take, one.store)
                nursery.start_soon(take, two.store)
        assert sorted(found) == [reference(n) for n in range(30)]


@pytest.mark.spec("K3")
async def test_what_administration_schedules_is_taken_on_by_a_serving_process(
    database: str,
) -> None:
    async with open_postgres(database, serving=True) as store:
        await submit_batch(
            store, (creation(1), NOON), (BeginSubmission(reference(1)), later(NOON, Span(1)))
        )
        async with open_postgres(database, serving=False) as office:
            await submit_batch(office, (succeeded(1), later(NOON, Span(2))))
        (work,) = await claim_all_abandoned(store, limit=10)
        assert work.intent == DeliverCallback(reference(1), fence=1)


@pytest.mark.long
async def test_a_lease_is_renewed_while_the_process_lives(database: str) -> None:
    async with open_postgres(database, serving=True) as store:
        number = await store.ownership.renew_lease() if store.ownership else 0
        was = await _value(database, "SELECT alive_until FROM holders WHERE id > 0")
        with trio.fail_after(10 * ownership.LEASE_RENEWAL_INTERVAL_S):
            until = "SELECT alive_until FROM holders WHERE id > 0"
            while await _value(database, until) == was:  # noqa: ASYNC110  (the database tells no events)
                await trio.sleep(0.1)
        assert store.ownership
        assert await store.ownership.renew_lease() == number


@pytest.mark.spec("K3")
async def test_a_lease_that_has_ended_is_begun_anew(database: str) -> None:
    async with open_postgres(database, serving=True) as store:
        assert store.ownership
        number = await store.ownership.renew_lease()
        await _execute(database, "UPDATE holders SET alive_until = now() WHERE id > 0")
        assert await store.ownership.renew_lease() == number, "nobody else has ended it"
        await _execute(database, "UPDATE holders SET alive_until = now() WHERE id > 0")
        await store.ownership.claim(end_leases=True)
        assert await store.ownership.renew_lease() > number


@pytest.mark.spec("L2", "L3")
@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 300])
async def test_text_that_cannot_be_held_is_not_found(database: str, text: str) -> None:
    async with open_postgres(database, serving=True) as store:
        assert await store.look_up(LookUpByMerchantReference("acme", text)) is None
        assert await store.transaction(text) is None
        assert await store.transaction_by_page_token(text) is None
        assert not await store.admin.find_transactions(reference=text)
        assert not await store.admin.timeline(text)
        assert await store.brand_record(text) is None
        replies = await submit_batch(
            store, (BeginSubmission(text), NOON), (creation(1), later(NOON, Span(1)))
        )
        assert isinstance(replies[1], Accepted)
        query = ListRecords("acme", Instant(0), clock.LAST_INSTANT, method=text)
        assert not (await store.list_records(query)).objects


async def test_damage_is_found(database: str) -> None:
    async with open_postgres(database, serving=True) as store:
        await submit_batch(store, *((creation(n), later(NOON, Span(n))) for n in range(5)))
        assert not await store.integrity_errors()
        await _execute(database, "UPDATE transactions SET object = order_row WHERE version = 1")
        await _execute(database, "DELETE FROM journal WHERE id = 1")
        await _execute(
            database,
            "INSERT INTO channels (brand, holder, fence, breaker) VALUES ('acme', 99, 1, 'x')",
        )
        faults = await store.integrity_errors()
        assert sum(each.startswith("transaction ") for each in faults) == 5
        assert "transactions without a line in the journal: 1" in faults
        assert any(each.startswith("breaker of brand acme: ") for each in faults)


async def test_a_dump_under_load_restores_to_a_sound_database(
    database: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """As docs/postgresql.md says it."""
    dump, copy = str(tmp_path / "mmo.dump"), postgres.fresh()
    async with nodes(database, Span(0)) as (node,):
        answered: list[str] = []

        async def write(begin: int) -> None:
            for number in count(begin):
                await node.engine.submit(creation(number))
                answered.append(reference(number))

        with trio.fail_after(HANGS_AFTER_S):
            async with trio.open_nursery() as nursery:
                for begin in range(0, 4_000_000, 1_000_000):
                    nursery.start_soon(write, begin)
                await trio.sleep(0.2)
                before = tuple(answered)
                arguments = ["--format=custom", f"--file={dump}", database]
                await trio.run_process([chosen().path("pg_dump"), *arguments])
                nursery.cancel_scope.cancel()
            await trio.run_process([chosen().path("pg_restore"), f"--dbname={copy}", dump])
    async with open_postgres(copy, serving=True) as store:
        assert not await store.integrity_errors()
        assert before
        for each in before:
            assert await store.transaction(each) is not None
    postgres.drop(copy)


async def test_older_programs_go_on_serving_a_schema_that_only_grew(database: str) -> None:
    async with open_postgres(database, serving=True) as store:
        await _execute(database, "INSERT INTO mmo_schema (version, needs) VALUES (99, 0)")
        await submit_batch(store, (creation(1), NOON))
        async with open_postgres(database, serving=True) as restarted:
            await submit_batch(restarted, (creation(2), later(NOON, Span(1))))
        await _execute(database, "UPDATE mmo_schema SET needs = 99 WHERE version = 99")
        with pytest.raises(StoreUnusable, match="install a later mmo-gateway"):
            async with open_postgres(database, serving=True):
                pass


LATER = {
    98: """
        ALTER TABLE transactions ADD COLUMN colour text;
        ALTER TABLE intents ADD COLUMN weight integer NOT NULL DEFAULT 1;
        CREATE TABLE colours (name text PRIMARY KEY);
    """,
    99: """-- concurrently
        DROP INDEX CONCURRENTLY IF EXISTS transactions_by_colour;
        CREATE INDEX CONCURRENTLY transactions_by_colour ON transactions (colour);
    """,
}
"""What a later version might bring."""


@pytest.mark.long
async def test_a_later_version_migrates_under_load_while_the_earlier_one_goes_on_serving(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrations.scripts()
    async with nodes(database, Span(0), Span(0)) as both:
        replies: list[Reply] = []

        async def write(node: Node, begin: int) -> None:
            for number in count(begin):
                replies.append(await node.engine.submit(creation(number)))
                await node.engine.submit(BeginSubmission(reference(number)))
                await node.engine.submit(succeeded(number))

        async def more() -> None:
            wanted = len(replies) + 20
            while len(replies) < wanted:  # noqa: ASYNC110  (simpler than an event for each)
                await trio.sleep(0.01)

        with trio.fail_after(HANGS_AFTER_S):
            async with trio.open_nursery() as nursery:
                for begin in range(0, 8_000_000, 1_000_000):
                    nursery.start_soon(write, both[begin // 1_000_000 % 2], begin)
                await more()
                monkeypatch.setattr(migrations, "scripts", lambda: known | LATER)
                async with open_postgres(database, serving=True) as later:
                    await more()
                    assert await _value(database, "SELECT max(version) FROM mmo_schema") == 99
                    assert not await later.integrity_errors()
                monkeypatch.setattr(migrations, "scripts", lambda: known)
                async with open_postgres(database, serving=True):
                    await more()
                nursery.cancel_scope.cancel()
        assert set(map(type, replies)) == {Accepted}


@pytest.mark.long
async def test_a_migration_that_was_interrupted_leaves_nothing_and_can_be_run_again(
    database: str, tmp_path: Path
) -> None:
    """Ctrl-C while its second step waits for a table that somebody reads."""
    config = tmp_path / "mmo.toml"
    config.write_text(f'[database]\nurl = "{database}"\n', encoding="utf-8")
    later = migrations.scripts() | {
        2: "CREATE TABLE colours (name text);\nALTER TABLE holders ADD colour text;\n"
    }
    program = f"""
from mmo_trio.cli.group import main
from mmo_trio.storage.postgres import migrations

migrations.scripts = lambda: {later!r}
main()
"""
    command = [sys.executable, "-c", program, "db", "migrate", "--config", str(config)]
    async with open_postgres(database, serving=True):
        pass
    waits = "SELECT count(*) FROM pg_locks WHERE relation = 'holders'::regclass AND NOT granted"
    with trio.fail_after(HANGS_AFTER_S), psycopg.connect(database) as reader:
        reader.execute("LOCK TABLE holders IN ACCESS SHARE MODE")
        # Whoever runs the tests in the background may have them ignore Ctrl-C.
        heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        process = await trio.lowlevel.open_process(
            command, stderr=subprocess.DEVNULL, preexec_fn=heeding
        )
        while not await _value(database, waits):  # noqa: ASYNC110  (the database tells no events)
            await trio.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 1
        assert await _value(database, "SELECT to_regclass('colours')") is None
        reader.rollback()
        await trio.run_process(command, stderr=subprocess.DEVNULL)
    assert await _value(database, "SELECT max(version) FROM mmo_schema") == 2


@pytest.mark.long
async def test_any_number_of_processes_may_migrate_at_once(database: str) -> None:
    async def serve() -> None:
        async with open_postgres(database, serving=True) as store:
            await store.check()

    with trio.fail_after(HANGS_AFTER_S):
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(serve)


@pytest.mark.long
@pytest.mark.parametrize("first", ["psycopg", "psycopg, trio_asyncio"])
async def test_psycopg_that_came_first_is_noticed(first: str) -> None:
    """The import trap: the program is told what to do, instead of failing when it connects."""
    program = f"""
import {first}, trio
from mmo_trio.storage.postgres import open_postgres

async def main():
    async with open_postgres("postgresql://localhost/nothing", serving=True):
        pass

trio.run(main)
"""
    done = await trio.run_process([sys.executable, "-c", program], check=False, capture_stderr=True)
    assert b"imported psycopg before trio_asyncio" in done.stderr


async def test_no_message_repeats_the_password(caplog: pytest.LogCaptureFixture) -> None:
    for url in (
        "postgresql://mmo:s3cret@127.0.0.1:1/mmo",
        "postgresql://mmo:s3cret@127.0.0.1:1/mmo?nonsense=s3cret",
    ):
        with pytest.raises(Exception, match="PostgreSQL") as caught:
            async with open_postgres(url, serving=True, timeout_s=0.3):
                pass
        assert "s3cret" not in repr(caught.value)
        assert "s3cret" not in str(caught.value.__cause__)
    assert "s3cret" not in caplog.text


async def test_an_unreachable_server_is_unavailable() -> None:
    with pytest.raises(BaseException) as caught:
        async with open_postgres("postgresql://127.0.0.1:1/mmo", serving=True, timeout_s=0.3):
            pass
    assert isinstance(caught.value, StoreUnavailable)


async def _execute(url: str, statement: str) -> None:
    await _value(url, statement)


async def _value(url: str, statement: str) -> object:
    rows = await trio.to_thread.run_sync(postgres_process.execute, url, statement)
    return rows[0][0] if rows else None


@pytest.mark.spec("S5")
async def test_the_book_says_when_something_was_told_first_and_last_whoever_commits_first(
    database: str,
) -> None:
    async with open_postgres(database, serving=True) as store:
        for number in (2, 1, 3):
            at = later(NOON, Span(number))
            await submit_batch(store, (UnmatchedNotified("sandbox", "?"), at))
        (entry,) = await store.admin.suspense()
        assert (entry.first_at, entry.last_at, entry.times) == (NOON + 1, NOON + 3, 3)


@pytest.mark.spec("C12")
async def test_sixteen_minutes_later_another_node_refuses_the_same_pay_out(database: str) -> None:
    """The first pay-out is pending, then it fails; a pay-in that failed is tried again once, also
    when all nodes try at once."""

    def payment(number: int, operation: Operation) -> Input:
        given = creation(number, merchant_reference=operation.value, operation=operation)
        return evolve(given, brand=evolve(given.brand, reference_reuse=ReusePolicy()))

    payout, payin, late = Operation.DIRECT_PAYOUT, Operation.DIRECT_PAYIN, Span(16 * clock.MINUTE)
    async with nodes(database, Span(0), late, late) as (first, *others):
        for number, operation in ((1, payout), (2, payin)):
            await first.engine.submit(payment(number, operation))
            await first.engine.submit(BeginSubmission(reference(number)))
            repeated = await others[0].engine.submit(payment(10 + number, operation))
            assert isinstance(repeated, Rejected), operation
            await first.engine.submit(failed(number))
        replies: list[tuple[Operation, Reply]] = []

        async def repeat(node: Node, number: int, operation: Operation) -> None:
            reply = await node.engine.submit(payment(number, operation))
            replies.append((operation, reply))

        async with trio.open_nursery() as nursery:
            for number in range(20, 40):
                nursery.start_soon(
                    repeat, others[number % 2], number, (payout, payin)[number // 2 % 2]
                )
        taken = [operation for operation, reply in replies if isinstance(reply, Accepted)]
        assert taken == [payin]


async def test_limits_of_a_brand_hold_across_nodes(database: str) -> None:
    """Two nodes accept at the same time; together they accept what the limit allows, and an end
    makes room."""
    limits = {
        "KES": Limits(
            Money(1_000, "KES"), Money(15_000_000, "KES"), {Type.PAYOUT: Money(1_200_000, "KES")}
        )
    }

    def payment(number: int, pending_max: int | None) -> Input:
        given = creation(number, operation=Operation.DIRECT_PAYOUT)
        method = evolve(
            given.brand.methods[0],
            limits=limits if pending_max is None else given.brand.methods[0].limits,
        )
        brand = evolve(
            given.brand, methods=(method,), limits=BrandLimits(pending_payments=pending_max)
        )
        return evolve(given, brand=brand)

    async with nodes(database, Span(0), Span(0)) as both:
        replies: list[Reply] = []

        async def create(node: Node, given: Input) -> None:
            replies.append(await node.engine.submit(given))

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(create, both[number % 2], payment(number, 10))
        causes = Counter(
            each.problem.segment if isinstance(each, Rejected) else "" for each in replies
        )
        assert causes == {"": 10, "brand_pending_limit": 50}
        taken = [each.order.gateway_reference for each in replies if isinstance(each, Accepted)]
        await both[0].engine.submit(StopPayment(taken[0], "ada"))
        assert isinstance(await both[1].engine.submit(payment(60, 10)), Accepted)
        assert isinstance(await both[0].engine.submit(payment(61, 10)), Rejected)

        replies.clear()
        async with trio.open_nursery() as nursery:
            for number in range(100, 160):
                nursery.start_soon(create, both[number % 2], payment(number, None))
        causes = Counter(
            each.problem.segment if isinstance(each, Rejected) else "" for each in replies
        )
        assert causes == {"": 8, "brand_daily_limit": 52}, "eight of KES 1,500 make KES 12,000"

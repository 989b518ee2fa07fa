"""When PostgreSQL is lost, hangs, refuses or is full: every answer stays true (clause P5)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace

import psycopg
import pytest
import trio

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.queries import ListRecords, LookUpByMerchantReference
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_trio.storage.interface.store import (
    CHECK_TIMEOUT_S,
    OutcomeUnknown,
    StoreUnavailable,
    WorkItem,
)
from mmo_trio.storage.postgres import PostgresStore, commits, open_postgres
from tests.conformance.driver import NOON, claim_all_abandoned, submit_batch
from tests.conformance.inputs import creation, reference, succeeded
from tests.support import postgres_process
from tests.support.database_proxy import Cut, database_proxy
from tests.support.effort import by_effort
from tests.support.store_timeouts import set_timeout
from tests.support.time_limits import HANGS_AFTER_S

TRIES_MAX = 10


async def execute(url: str, *statements: str) -> None:
    """Statements beside the store, in one session."""
    await trio.to_thread.run_sync(postgres_process.execute, url, *statements)


@pytest.mark.spec("P5", "C6", "C12")
async def test_a_connection_cut_at_commit_loses_and_doubles_nothing(database: str) -> None:
    wanted, random = by_effort(20, 200), Random(4)
    answers: dict[int, str] = {}
    async with database_proxy(database) as proxy, open_postgres(proxy.url, serving=True) as store:
        proxy.choose = lambda: random.choice([*Cut, *(cut for cut in Cut if cut is not Cut.NOT)])
        with trio.fail_after(HANGS_AFTER_S):
            number = 0
            while sum(proxy.cuts.values()) < wanted:
                number += 1
                try:
                    (reply,) = await submit_batch(
                        store, (creation(number), later(NOON, Span(number)))
                    )
                    answers[number] = type(reply).__name__
                except (StoreUnavailable, OutcomeUnknown) as error:
                    answers[number] = type(error).__name__
        proxy.choose = lambda: Cut.NOT
        assert set(answers.values()) == {"Accepted"}, Counter(answers.values())
        assert set(proxy.cuts) == set(Cut) - {Cut.NOT}
        await trio.sleep(0.2)  # Whatever came late has come.
        listed = await store.list_records(
            ListRecords("acme", Instant(0), clock.LAST_INSTANT, page_size=5_000)
        )
        assert len(listed.objects) == len(answers)
        for number in answers:
            found = await store.admin.find_transactions(reference=f"order/{number} ü")
            assert [each.reference for each in found] == [reference(number)]
            assert len(await store.admin.timeline(reference(number))) == 1
        assert not await store.claim_abandoned(limit=1_000), "its own process holds and does them"
    print(f"{len(answers)} creates, {proxy.cuts}")


@pytest.mark.spec("P5")
async def test_when_it_cannot_be_learnt_it_is_said_so_and_what_was_wanted_is_not_lost(
    database: str,
) -> None:
    async with (
        database_proxy(database) as proxy,
        open_postgres(proxy.url, serving=True, timeout_s=2) as store,
    ):
        await submit_batch(
            store, (creation(1), NOON), (BeginSubmission(reference(1)), later(NOON, Span(1)))
        )

        def cut_for_good() -> Cut:
            proxy.accepts = False
            return Cut.AFTER

        proxy.choose = cut_for_good
        with trio.fail_after(HANGS_AFTER_S), pytest.raises(OutcomeUnknown):
            await submit_batch(store, (succeeded(1), later(NOON, Span(2))))
        proxy.choose = lambda: Cut.NOT
        await proxy.cut_all()
        with trio.fail_after(HANGS_AFTER_S):
            with pytest.raises(StoreUnavailable):
                await store.check()
            proxy.accepts = True
            (work,) = await regained(store)
            assert isinstance(work.intent, DeliverCallback)
            assert work.transaction.status == "success"
            assert not await claim_all_abandoned(store, limit=10, taken=[work])


@pytest.mark.spec("P5", "S6")
async def test_what_a_claim_in_doubt_has_claimed_is_found_later(database: str) -> None:
    async with open_postgres(database, serving=True) as one:
        await submit_batch(one, (creation(1), NOON))
    async with (
        database_proxy(database) as proxy,
        open_postgres(proxy.url, serving=True, timeout_s=2) as store,
    ):

        def cut_for_good() -> Cut:
            proxy.accepts = False
            return Cut.AFTER

        proxy.choose = cut_for_good
        with trio.fail_after(HANGS_AFTER_S), pytest.raises(OutcomeUnknown):
            await store.claim_abandoned(limit=10)
        proxy.choose = lambda: Cut.NOT
        await proxy.cut_all()
        proxy.accepts = True
        with trio.fail_after(HANGS_AFTER_S):
            (work,) = await regained(store)
        assert work.transaction.reference == reference(1)
        assert not await store.claim_abandoned(limit=10)


@pytest.mark.spec("P5", "S6")
async def test_work_of_a_settled_commit_is_not_lost_with_the_claim_after_it(database: str) -> None:
    async with (
        database_proxy(database) as proxy,
        open_postgres(proxy.url, serving=True, timeout_s=2) as store,
    ):

        def cut_for_good() -> Cut:
            proxy.accepts = False
            return Cut.AFTER

        proxy.choose = cut_for_good
        with trio.fail_after(HANGS_AFTER_S), pytest.raises(OutcomeUnknown):
            await submit_batch(store, (creation(1), NOON))
        proxy.choose = lambda: Cut.NOT
        await proxy.cut_all()
        proxy.accepts = True
        # The next commit is that of the claim: what settles the first one only reads.
        proxy.choose = cut_for_good
        with trio.fail_after(HANGS_AFTER_S):
            (work,) = await store.claim_abandoned(limit=10)
        assert work.transaction.reference == reference(1)


@pytest.mark.spec("P5", "S6")
async def test_work_of_a_commit_in_doubt_is_not_lost_with_the_record_of_it(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was away for longer than records of commits are kept, and another process is the
    first to purge."""
    async with (
        database_proxy(migrated_database) as proxy,
        open_postgres(proxy.url, serving=True, timeout_s=2) as store,
    ):

        def cut_for_good() -> Cut:
            proxy.accepts = False
            return Cut.AFTER

        proxy.choose = cut_for_good
        long_ago = time.time_ns() - 2 * 3600 * 10**9
        with monkeypatch.context() as patched:
            patched.setattr(commits, "time", SimpleNamespace(time_ns=lambda: long_ago))
            with trio.fail_after(HANGS_AFTER_S), pytest.raises(OutcomeUnknown):
                await submit_batch(store, (creation(1), NOON))
        proxy.choose = lambda: Cut.NOT
        await proxy.cut_all()
        await execute(
            migrated_database, "UPDATE batches SET touched_at = now() - interval '2 hours'"
        )
        async with open_postgres(migrated_database, serving=False) as other:
            await other.purge()
        proxy.accepts = True
        with trio.fail_after(HANGS_AFTER_S):
            (work,) = await regained(store)
        assert work.transaction.reference == reference(1)
        assert not await store.claim_abandoned(limit=10)


async def regained(store: PostgresStore) -> Sequence[WorkItem]:
    """What is left over, once the server is there again."""
    assert store.ownership is not None
    while True:
        try:
            await store.ownership.renew_lease()
            if found := await claim_all_abandoned(store, limit=10):
                return found
        except StoreUnavailable:
            await trio.sleep(0.05)


@pytest.mark.spec("P5")
async def test_a_server_that_hangs_is_unavailable_and_nothing_was_stored(database: str) -> None:
    async with open_postgres(database, serving=True) as store:
        await submit_batch(store, (creation(1), NOON))
        with psycopg.connect(database) as other:
            lock = b"LOCK TABLE transactions, journal, horizon IN ACCESS EXCLUSIVE MODE"
            await trio.to_thread.run_sync(
                other.execute, lock
            )  # It may wait for the store's own maintenance.
            set_timeout(store, 1)
            with trio.fail_after(HANGS_AFTER_S):
                for call in (
                    lambda: submit_batch(store, (creation(2), later(NOON, Span(1)))),
                    store.check,
                    lambda: store.transaction(reference(1)),
                ):
                    with pytest.raises(StoreUnavailable):
                        await call()
            other.rollback()
        set_timeout(store, HANGS_AFTER_S)
        with trio.fail_after(HANGS_AFTER_S):
            (reply,) = await submit_batch(store, (creation(2), later(NOON, Span(1))))
            assert isinstance(reply, Accepted)
            await store.check()


@pytest.mark.spec("P5")
async def test_sessions_that_are_ended_are_made_anew_unnoticed(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_postgres(database, serving=True) as store:
        with trio.fail_after(HANGS_AFTER_S):
            for number in range(10):
                await execute(
                    database,
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()",
                )
                (reply,) = await submit_batch(store, (creation(number), later(NOON, Span(number))))
                assert isinstance(reply, Accepted)
                query = LookUpByMerchantReference("acme", f"order/{number} ü")
                assert await store.look_up(query) is not None
    assert not [each for each in caplog.records if each.name == "psycopg"]


@pytest.mark.spec("P5")
async def test_a_primary_that_was_demoted_is_unavailable_until_it_is_one_again(
    database: str,
) -> None:
    """Sessions that can only read any more are not kept."""
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    async with open_postgres(database, serving=True) as store:
        await submit_batch(store, (creation(1), NOON))
        set_timeout(store, 1)
        reset = f"ALTER DATABASE {name} RESET ALL"
        await execute(database, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await execute(
            database,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        with trio.fail_after(HANGS_AFTER_S):
            with pytest.raises(StoreUnavailable):
                await submit_batch(store, (creation(2), later(NOON, Span(1))))
            with pytest.raises(StoreUnavailable):
                await store.check()
        await execute(database, "SET default_transaction_read_only = off", reset)
        with trio.fail_after(HANGS_AFTER_S):
            while True:
                try:
                    (reply,) = await submit_batch(store, (creation(2), later(NOON, Span(1))))
                    break
                except StoreUnavailable:
                    continue
        assert isinstance(reply, Accepted)


@pytest.mark.spec("P5")
@pytest.mark.parametrize("state", ["53100", "53200", "57014", "55P03", "40001", "40P01", "57P03"])
async def test_what_the_server_refuses_for_now_is_unavailable_and_nothing_is_half_done(
    database: str, state: str
) -> None:
    """Full disk, no memory, statement and lock deadlines, races without end, starting up."""
    async with open_postgres(database, serving=True) as store:
        set_timeout(store, 1)
        await execute(
            database,
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '{state}'; END $$;"
            " CREATE TRIGGER fail BEFORE INSERT ON journal EXECUTE FUNCTION fail()",
        )
        with trio.fail_after(HANGS_AFTER_S), pytest.raises(StoreUnavailable):
            await submit_batch(store, (creation(1), NOON))
        set_timeout(store, HANGS_AFTER_S)
        assert await store.transaction(reference(1)) is None
        await execute(database, "DROP TRIGGER fail ON journal")
        with trio.fail_after(HANGS_AFTER_S):
            (reply,) = await submit_batch(store, (creation(1), NOON))
        assert isinstance(reply, Accepted)


@pytest.mark.spec("P5")
async def test_a_race_that_was_lost_is_decided_again(database: str) -> None:
    """The first commits fail as races do; the caller doesn't notice."""
    async with open_postgres(database, serving=True) as store:
        await execute(
            database,
            "CREATE SEQUENCE tries; CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$"
            " BEGIN"
            " IF nextval('tries') <= 3 THEN RAISE EXCEPTION 'planted' USING ERRCODE = '40001'; END"
            " IF;"
            " RETURN NULL; END $$;"
            " CREATE TRIGGER fail BEFORE INSERT ON journal EXECUTE FUNCTION fail()",
        )
        with trio.fail_after(HANGS_AFTER_S):
            (reply,) = await submit_batch(store, (creation(1), NOON))
        assert isinstance(reply, Accepted)
        assert len(await store.admin.timeline(reference(1))) == 1


async def test_readiness_writes_nothing(database: str) -> None:
    def horizon() -> object:
        with psycopg.connect(database) as connection:
            return connection.execute("SELECT ctid, xmin FROM horizon").fetchone()

    async with open_postgres(database, serving=True) as store:
        before = await trio.to_thread.run_sync(horizon)
        for _ in range(50):
            await store.check()
        assert await trio.to_thread.run_sync(horizon) == before, (
            "an update makes another version of the row"
        )


async def test_readiness_tells_within_a_second_that_the_database_is_gone(database: str) -> None:
    async with database_proxy(database) as proxy, open_postgres(proxy.url, serving=True) as store:

        async def recover() -> None:
            proxy.accepts = True
            with trio.fail_after(HANGS_AFTER_S):
                while True:
                    try:
                        return await store.check()
                    except StoreUnavailable:
                        continue

        async def seconds_until_told() -> float:
            proxy.accepts = False
            await proxy.cut_all()
            began = trio.current_time()
            with pytest.raises(StoreUnavailable):
                await store.check()
            return trio.current_time() - began

        for _ in range(TRIES_MAX):  # A machine that is busy takes longer.
            await recover()
            took_s = await seconds_until_told()
            if took_s < 2 * CHECK_TIMEOUT_S:
                break
        assert took_s < 2 * CHECK_TIMEOUT_S, "not the ten seconds that a request may wait"
        await recover()

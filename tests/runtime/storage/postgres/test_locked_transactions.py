"""Two gateways on one PostgreSQL decide about the same payment at once: neither waits for the
other, and no batch is decided in vain (S1, S2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio
from attrs import evolve

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    Input,
    ProviderAccepted,
    TransactionWoke,
)
from mmo_sansio.messages.replies import Applied, Ignored, Reply
from mmo_sansio.resilience.circuit_breaker import INITIAL_SNAPSHOT
from mmo_sansio.values.clock import Span
from mmo_sansio.values.model import DepositTrust, Source, Stage
from mmo_trio.engine.engine import Engine, Outbox, submit_once
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.system.clock import GatewayClock
from tests.conformance.inputs import DELIVERED, claimed, creation, failed, reference, succeeded
from tests.support.lock_timeout import set_lock_timeout
from tests.support.time_limits import HANGS_AFTER_S

# isort: split
import psycopg

CONTENDED = 1
OTHERS = range(2, 6)
OF_ANOTHER_BRAND = 9
WAITS_S = 2 * HANGS_AFTER_S
"""How long gateways wait for a lock: who waits for the one that a test holds is not answered while
the test lasts."""


@pytest.fixture(autouse=True)
def _patient_gateways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no commit be given up because the machine is busy while it waits for the test's lock."""
    set_lock_timeout(monkeypatch, WAITS_S)


@asynccontextmanager
async def two_gateways(database: str) -> AsyncIterator[tuple[Engine, Engine]]:
    """Two engines on one database, and payments that are with their provider."""
    async with (
        open_postgres(database, serving=True, timeout_s=WAITS_S) as one,
        open_postgres(database, serving=True, timeout_s=WAITS_S) as other,
        trio.open_nursery() as nursery,
    ):
        engines = [Engine(store, GatewayClock(), Outbox()) for store in (one, other)]
        for engine in engines:
            await nursery.start(engine.run)
        with trio.fail_after(HANGS_AFTER_S):
            for number in (CONTENDED, *OTHERS):
                await engines[0].submit(creation(number))
                await engines[0].submit(BeginSubmission(reference(number)))
            await engines[0].submit(creation(OF_ANOTHER_BRAND, brand_id="globex"))
            await engines[0].submit(BeginSubmission(reference(OF_ANOTHER_BRAND)))
            await engines[0].submit(succeeded(OF_ANOTHER_BRAND))
            yield engines[0], engines[1]
        nursery.cancel_scope.cancel()


@contextmanager
def channel_locked(database: str) -> Iterator[psycopg.Connection]:
    """Lock a row for which a commit about the other brand's callback waits."""
    with psycopg.connect(database) as connection:
        connection.execute(
            "INSERT INTO channels (brand, holder, fence) VALUES ('globex', 0, 0) ON CONFLICT "
            "DO NOTHING"
        )
        connection.commit()
        connection.execute("SELECT FROM channels WHERE brand = 'globex' FOR UPDATE")
        yield connection


async def commits_wait(database: str, number: int = 1) -> None:
    while lock_waits(database) != number:  # noqa: ASYNC110  (the database tells no events)
        await trio.sleep(0.01)


def lock_waits(database: str) -> int:
    """Return how many commits wait for a lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
        "wait_event_type = 'Lock'"
    )
    with psycopg.connect(database, autocommit=True) as connection:
        row = connection.execute(waiting).fetchone()
    assert row is not None
    return int(row[0])


def begin_commit_that_waits(engine: Engine, about: Input) -> None:
    """Let the engine decide this in a commit that waits for the locked channel."""
    engine.enqueue(about)
    engine.enqueue(
        CallbackConcluded(reference(OF_ANOTHER_BRAND), DELIVERED, breaker=INITIAL_SNAPSHOT)
    )


ACCEPTED = ProviderAccepted(reference(CONTENDED), "sandbox", Source.POLL, "P1", poll_after=Span(1))


@pytest.mark.spec("S2")
@pytest.mark.parametrize("is_poll", [False, True], ids=["its acceptance", "its poll"])
async def test_a_result_that_reaches_another_gateway_holds_no_other_payment_up(
    database: str, is_poll: bool
) -> None:
    """One gateway records what the submission was answered, or a poll that is due; meanwhile the
    other one hears of the result of this payment, whose batch waits for that commit, and then of
    others."""
    async with two_gateways(database) as (one, other):
        if is_poll:
            await one.submit(ACCEPTED)
        with channel_locked(database) as locking:
            begin_commit_that_waits(
                one, TransactionWoke(reference(CONTENDED)) if is_poll else ACCEPTED
            )
            await commits_wait(database)
            contended = other.enqueue(succeeded(CONTENDED))
            await commits_wait(database, 2)
            replies = [other.enqueue(succeeded(number)) for number in OTHERS]
            for each in replies:
                assert isinstance(await each.reply(), Applied)
            assert lock_waits(database) == 2
            locking.commit()
        reply = await contended.reply()
        assert isinstance(reply, Applied)
        assert reply.transaction.progress.stage is Stage.SUCCEEDED
        timeline = await other.store.admin.timeline(reference(CONTENDED))
        expected = [
            "CreatePayment",
            "BeginSubmission",
            "ProviderAccepted",
            *["TransactionWoke"] * is_poll,
        ]
        assert [line.input_name for line in timeline] == [*expected, "ProviderSucceeded"]
        assert [each.statistics.failed_batches for each in (one, other)] == [0, 0]


@pytest.mark.spec("S4")
@pytest.mark.parametrize("is_deposit_first", [True, False])
async def test_a_receipt_that_two_gateways_settle_at_once_settles_one_thing(
    database: str, *, is_deposit_first: bool
) -> None:
    """A till's confirmation names no payment, and comes in the second of the prompt's result."""
    inputs: list[Input] = [
        claimed("RKL51ZDR4F", 20, trust=DepositTrust.CONFIRMED),
        evolve(succeeded(CONTENDED), provider_reference="RKL51ZDR4F", settles_receipt=True),
    ]
    first, second = inputs if is_deposit_first else reversed(inputs)
    async with two_gateways(database) as (one, other), trio.open_nursery() as nursery:
        with channel_locked(database) as locking:
            begin_commit_that_waits(one, first)
            await commits_wait(database)
            later_one, is_over = other.enqueue(second), trio.Event()

            async def wait_for_reply() -> None:
                await later_one.reply()
                is_over.set()

            nursery.start_soon(wait_for_reply)
            while lock_waits(database) < 2 and not is_over.is_set():  # noqa: ASYNC110  (the database tells no events)
                await trio.sleep(0.01)
            locking.commit()
        await is_over.wait()
        (entry,) = await other.store.admin.suspense()
        assert entry.reason is SuspenseReason.CONFLICTING_DEPOSIT
        is_booked = await other.store.transaction(reference(20)) is not None
        assert is_booked is is_deposit_first


async def test_inputs_about_a_locked_payment_keep_their_order(database: str) -> None:
    async with two_gateways(database) as (one, other):
        with channel_locked(database) as locking:
            begin_commit_that_waits(one, ACCEPTED)
            await commits_wait(database)
            first, second = other.enqueue(failed(CONTENDED)), other.enqueue(succeeded(CONTENDED))
            await commits_wait(database, 2)
            third = other.enqueue(failed(CONTENDED))
            locking.commit()
        replies = [await each.reply() for each in (first, second, third)]
        assert isinstance(replies[0], Applied)
        assert replies[0].transaction.progress.stage is Stage.FAILED
        reasons = [each.reason for each in await other.store.admin.suspense()]
        assert reasons == [SuspenseReason.CONFLICTING_RESULT, SuspenseReason.REPEATED_RESULT]


@pytest.mark.spec("S3")
async def test_of_two_gateways_that_wake_a_payment_at_once_one_polls_it(database: str) -> None:
    """The other one's wakes of its round are decided again when the commit of the first has
    ended."""
    async with two_gateways(database) as (one, other):
        for number in (CONTENDED, *OTHERS):
            await one.submit(evolve(ACCEPTED, gateway_reference=reference(number)))
        with channel_locked(database) as locking:
            begin_commit_that_waits(one, TransactionWoke(reference(CONTENDED)))
            await commits_wait(database)
            due = await other.store.due(other.clock.wall_time(), limit=9)
            woken = [other.enqueue(TransactionWoke(each)) for each in {reference(CONTENDED), *due}]
            await commits_wait(database, 2)
            locking.commit()
        replies = [await each.reply() for each in woken]
        assert [type(each) for each in replies].count(Ignored) == 1


async def test_a_payment_that_stays_locked_is_answered_in_time(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_lock_timeout(monkeypatch, 1)
    async with two_gateways(database) as (_, other):
        with channel_locked(database) as locking:
            locking.execute(
                "SELECT FROM transactions WHERE gateway_reference = %s FOR UPDATE",
                (reference(CONTENDED),),
            )
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                await other.submit(succeeded(CONTENDED))
            locking.commit()
        assert isinstance(await other.submit(succeeded(CONTENDED)), Applied)


async def test_a_command_decides_about_a_locked_payment_once_it_is_free(database: str) -> None:
    async with (
        two_gateways(database) as (one, other),
        open_postgres(database, serving=False) as store,
        trio.open_nursery() as nursery,
    ):
        replies: list[Reply] = []

        async def decide() -> None:
            replies.append(await submit_once(store, succeeded(CONTENDED), GatewayClock()))

        with channel_locked(database) as locking:
            begin_commit_that_waits(one, ACCEPTED)
            await commits_wait(database)
            nursery.start_soon(decide)
            assert isinstance(await other.submit(succeeded(OTHERS[0])), Applied)
            assert not replies
            locking.commit()
        while not replies:  # noqa: ASYNC110
            await trio.sleep(0.01)
        assert isinstance(replies[0], Applied)


async def test_what_changes_nothing_leaves_no_lock(database: str) -> None:
    """A payment that is not due, or not there, is free for others at once."""
    async with two_gateways(database) as (one, other):
        ignored = await one.submit(TransactionWoke(reference(CONTENDED)))
        assert isinstance(ignored, Ignored)
        assert isinstance(await one.submit(TransactionWoke(reference(99))), Ignored)
        assert isinstance(await other.submit(succeeded(CONTENDED)), Applied)

"""Batches as one statement: what is joined, and that nothing is lost of what the single statements
do."""

from __future__ import annotations

from collections.abc import Sequence

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg
import pytest
import trio

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    CreatePayment,
    Input,
    ProviderAccepted,
)
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Accepted, Applied
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Source, Status
from mmo_trio.storage.postgres import commits, open_postgres
from mmo_trio.storage.postgres.assumptions import LOADS_BEFORE_ASSUMPTION
from mmo_trio.storage.postgres.pipeline import (
    BoundStatement,
    PreparedStatement,
    Row,
    execute_pipeline,
)
from mmo_trio.storage.postgres.statements import SHAPES_MAX, JoinableStatement, StatementJoiner
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from tests.conformance.driver import after_noon, submit_batch
from tests.conformance.inputs import DELIVERED, creation, reference, succeeded
from tests.support.time_limits import HANGS_AFTER_S

_INSERT = JoinableStatement.of("INSERT INTO a (x) VALUES (%s::text)")
_UPDATE = JoinableStatement.of(
    "UPDATE b SET x = %s::text WHERE y = %s::bigint RETURNING 1", "still_so({rows} = %s::bigint)"
)
_CHECK = JoinableStatement.of(check="check_creation(%s::bigint)")


def test_writes_are_parts_of_one_statement_and_checks_its_result() -> None:
    joined = StatementJoiner().join(
        [_UPDATE.bind("new", 1, 2), _CHECK.bind(3), _INSERT.bind("text")]
    )
    assert joined is not None
    assert joined.statement.text == (
        b"WITH w0 AS (UPDATE b SET x = $1::text WHERE y = $2::bigint RETURNING 1),"
        b" w2 AS (INSERT INTO a (x) VALUES ($3::text))"
        b" SELECT still_so((SELECT count(*) FROM w0) = $4::bigint), check_creation($5::bigint)"
    )
    numbers = [number.to_bytes(8) for number in (1, 2, 3)]
    assert joined.values == [b"new", numbers[0], b"text", numbers[1], numbers[2]]


def test_each_statement_runs_by_itself_as_well() -> None:
    assert _INSERT.text == b"INSERT INTO a (x) VALUES ($1::text)"
    assert _CHECK.text == b"SELECT check_creation($1::bigint)"
    assert _UPDATE.text == (
        b"WITH written AS (UPDATE b SET x = $1::text WHERE y = $2::bigint RETURNING 1)"
        b" SELECT still_so(count(*) = $3::bigint) FROM written"
    )


def test_a_batch_that_writes_a_table_twice_is_not_joined() -> None:
    other = JoinableStatement.of("DELETE FROM a WHERE x = %s::text")
    assert StatementJoiner().join([_INSERT.bind("text"), other.bind("text")]) is None


def test_a_statement_whose_place_matters_is_not_joined() -> None:
    assert (
        StatementJoiner().join([_INSERT.bind("text"), PreparedStatement("SELECT 1").bind()]) is None
    )


def test_equal_batches_have_one_statement_and_there_are_not_too_many() -> None:
    joiner = StatementJoiner()
    one, two = (joiner.join([_INSERT.bind(text), _CHECK.bind(1)]) for text in ("one", "two"))
    assert one is not None
    assert two is not None
    assert one.statement is two.statement
    for number in range(SHAPES_MAX):
        joiner.join(
            [JoinableStatement.of(f"INSERT INTO t{number} (x) VALUES (%s::text)").bind("text")]
        )
    assert joiner.join([_CHECK.bind(1), _INSERT.bind("text")]) is None
    assert joiner.join([_INSERT.bind("text"), _CHECK.bind(1)]) is not None


@pytest.mark.parametrize("count", [1, 3])
async def test_creates_with_new_references_are_one_statement(
    database: str, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Without BEGIN and COMMIT, as few as a service sends that stores one row; the commit leaves
    its record all the same."""
    sent: list[bytes] = []

    async def record(
        connection: PostgresConnection, statements: Sequence[BoundStatement]
    ) -> list[list[Row]]:
        sent.extend(each.statement.text for each in statements)
        return await execute_pipeline(connection, statements)

    def creations(first: int) -> list[tuple[CreatePayment, Instant]]:
        return [(creation(number), after_noon(number)) for number in range(first, first + count)]

    with trio.fail_after(HANGS_AFTER_S), psycopg.connect(database, autocommit=True) as connection:
        async with open_postgres(database, serving=True) as store:
            for turn in range(LOADS_BEFORE_ASSUMPTION):
                await submit_batch(store, *creations(10 * turn))
            ((before,),) = connection.execute("SELECT count(*) FROM batches").fetchall()
            monkeypatch.setattr(commits, "execute_pipeline", record)
            replies = await submit_batch(store, *creations(100))
            assert [type(each) for each in replies] == [Accepted] * count
            assert len(sent) == 1
            assert sent[0].startswith(b"WITH ")
            assert connection.execute("SELECT count(*) FROM batches").fetchall() == [(before + 1,)]
            for number in range(100, 100 + count):
                assert await store.transaction(reference(number)) is not None
            assert not await store.integrity_errors()


async def test_each_step_of_a_payment_is_written_as_one_statement(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the load that has locked the payment, in the transaction that began with it."""
    writes: list[list[bytes]] = []

    async def record(
        connection: PostgresConnection, statements: Sequence[BoundStatement]
    ) -> list[list[Row]]:
        writes.append([each.statement.text for each in statements])
        return await execute_pipeline(connection, statements)

    steps: list[Input] = [
        BeginSubmission(reference(1)),
        ProviderAccepted(reference(1), "sandbox", Source.WEBHOOK),
        succeeded(1),
    ]
    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(database, serving=True) as store:
            await submit_batch(store, (creation(1), after_noon(0)))
            monkeypatch.setattr(commits, "execute_pipeline", record)
            for nth, step in enumerate(steps, start=1):
                (reply,) = await submit_batch(store, (step, after_noon(nth)))
                assert isinstance(reply, Applied)
            assert store.ownership is not None
            await store.ownership.claim(end_leases=True)
            (work,) = await store.ownership.find_callbacks({"acme": 10})
            assert isinstance(work.intent, DeliverCallback)
            concluded = CallbackConcluded(reference(1), DELIVERED, work.intent.fence)
            await submit_batch(store, (concluded, after_noon(9)))
            found = await store.transaction(reference(1))
            assert found is not None
            assert found.status is Status.SUCCESS
            assert not await store.integrity_errors()
            assert not await store.ownership.find_callbacks({"acme": 10})
    assert [len(each) for each in writes] == [1, 1, 1, 1], (
        "by itself it is a transaction, so it needs no COMMIT"
    )
    assert all(each[0].startswith(b"WITH ") for each in writes)


@pytest.mark.spec("C6")
async def test_a_step_whose_payment_has_moved_meanwhile_is_not_written(database: str) -> None:
    """The check counts the rows of its own part."""
    with trio.fail_after(HANGS_AFTER_S), psycopg.connect(database, autocommit=True) as connection:
        async with open_postgres(database, serving=True) as store:
            await submit_batch(store, (creation(1), after_noon(0)))
            attempts = 0

            def decide_late(ledger: Ledger) -> Sequence[Decision]:
                nonlocal attempts
                attempts += 1
                decision = decide(ledger, _claimed_twice(), now=after_noon(5))
                ledger.apply(decision.changes, decision.intents)
                if attempts == 1:
                    connection.execute("DELETE FROM intents")
                return [decision]

            await submit_batch(store, (BeginSubmission(reference(1)), after_noon(1)))
            await submit_batch(store, (succeeded(1), after_noon(2)))
            await store.transact(reads(_claimed_twice()), decide_late)
            assert attempts == 2, "the intent was gone when the first attempt wanted to conclude it"
            assert connection.execute("SELECT count(*) FROM callbacks").fetchone() == (0,)


def _claimed_twice() -> CallbackConcluded:
    return CallbackConcluded(reference(1), DELIVERED, 0)

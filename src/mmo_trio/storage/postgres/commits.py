"""Commits whose outcome is known: each leaves a row that tells what became of it when its answer was lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeAlias, TypeVar
from uuid import UUID, uuid4

import psycopg
from attrs import define, field, frozen

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.postgres.bridge import PostgresConnection, loop_time_s
from mmo_trio.storage.postgres.connections import (
    Backoff,
    Pool,
    PostgresCall,
    call_on_connection,
    call_with_retry,
)
from mmo_trio.storage.postgres.errors import PostgresErrorKind, classify_error, translate_error
from mmo_trio.storage.postgres.pipeline import BoundStatement, PreparedStatement, execute_pipeline

T = TypeVar("T")

CONFLICTS_MAX = 20
"""How often a batch is decided again because another node was quicker."""

_RESOLUTION_SHARE = 0.3
"""The part of a caller's patience that is kept back for learning what became of a commit."""

_BEGIN = PreparedStatement("BEGIN")
_INSERT_COMMIT_RECORD = PreparedStatement(
    "INSERT INTO batches (id, stamp) VALUES (%s::uuid, %s::bigint)"
)
_COMMIT = PreparedStatement("COMMIT")

_RESOLVE_COMMIT = """
    INSERT INTO batches (id, stamp, is_void) VALUES (%s, 0, true)
    ON CONFLICT (id) DO UPDATE SET touched_at = clock_timestamp()
    RETURNING NOT is_void
"""
"""Whoever writes the row first settles it. When the commit in doubt is still under way, this waits for its end; when it
hasn't begun, it can't succeed any more. As this writes in either case, its own commit waits for the standby, too: what
is found won't be lost with the primary."""


@frozen
class CommitDeadlines:
    """When a caller is to be answered, by the bridge's clock."""

    attempts_until: float
    """Until then commits may be tried."""
    resolution_until: float
    """Until then it may be asked what became of one."""

    @classmethod
    def within(cls, timeout_s: float) -> CommitDeadlines:
        """Counted from now."""
        now = loop_time_s()
        return cls(now + timeout_s * (1 - _RESOLUTION_SHARE), now + timeout_s)


@define(eq=False)
class Commit(Generic[T]):
    """One attempt at making something durable."""

    id: UUID = field(factory=uuid4)
    results: list[T] = field(factory=list)
    """What it gives if it takes place; empty until the server may have seen COMMIT."""

    async def begin(self, connection: PostgresConnection, stamp: Instant) -> None:
        """BEGIN, and leave the row."""
        await execute_pipeline(connection, self._begin_statements(stamp))

    async def end(self, connection: PostgresConnection, result: T) -> None:
        """COMMIT, which gives this result."""
        self.results.append(result)
        await execute_pipeline(connection, [_COMMIT.bind()])

    async def run_whole_transaction(
        self,
        connection: PostgresConnection,
        stamp: Instant,
        statements: Iterable[BoundStatement],
        result: T,
    ) -> None:
        """From BEGIN to COMMIT in one round trip, which gives this result."""
        every = [*self._begin_statements(stamp), *statements, _COMMIT.bind()]
        self.results.append(result)
        await execute_pipeline(connection, every)

    def _begin_statements(self, stamp: Instant) -> Sequence[BoundStatement]:
        return [_BEGIN.bind(), _INSERT_COMMIT_RECORD.bind(self.id, stamp)]


class CommitInDoubt(OutcomeUnknown):
    """For now it can't be learnt whether this commit took place; later it can."""

    def __init__(self, commit_id: UUID) -> None:
        super().__init__("PostgreSQL was lost during a commit and didn't come back in time")
        self.commit_id = commit_id


CommitAttempt: TypeAlias = Callable[[PostgresConnection, "Commit[T]"], Awaitable[T]]
"""Goes from `begin` to `end`, or `whole`, or does without when there is nothing to write; may be called again."""


async def commit_until_known(
    pool: Pool, attempt: CommitAttempt[T], deadlines: CommitDeadlines
) -> T:
    """What the attempt gave, once it is durable.

    A lost race, or a server that is away, means another attempt. Raises StoreUnavailable when nothing was stored,
    CommitInDoubt when that can't be learnt, and what the attempt itself raises.
    """
    backoff, races = Backoff(deadlines.attempts_until), 0
    while True:
        commit = Commit[T]()
        try:
            return await call_on_connection(
                pool, _bind_commit(attempt, commit), deadlines.attempts_until
            )
        except psycopg.Error as error:
            meaning = classify_error(error)
            if (
                meaning is PostgresErrorKind.DISCONNECTED
                and commit.results
                and await is_committed(pool, commit.id, deadlines.resolution_until)
            ):
                return commit.results[0]
            races += meaning is PostgresErrorKind.CONFLICT
            if (
                meaning not in (PostgresErrorKind.DISCONNECTED, PostgresErrorKind.CONFLICT)
                or races > CONFLICTS_MAX
            ):
                raise translate_error(error) from error
            await backoff.wait(error)


def _bind_commit(attempt: CommitAttempt[T], commit: Commit[T]) -> PostgresCall[T]:
    return lambda connection: attempt(connection, commit)


async def is_committed(pool: Pool, id: UUID, deadline: float) -> bool:
    """Whether this commit is stored; if not, it never will be. Raises CommitInDoubt."""

    async def ask(connection: PostgresConnection) -> bool:
        cursor = await connection.execute(_RESOLVE_COMMIT, (id,))
        row = await cursor.fetchone()
        assert row is not None
        return bool(row[0])

    try:
        return await call_with_retry(pool, ask, deadline)
    except (StoreUnavailable, psycopg.Error) as error:
        raise CommitInDoubt(id) from error

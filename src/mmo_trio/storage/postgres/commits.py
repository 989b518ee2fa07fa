"""Commits whose outcome is known: each leaves a row that tells what became of it when its answer was lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeAlias, TypeVar
from uuid import UUID, uuid4

import psycopg
from attrs import define, field, frozen

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.postgres.bridge import Connection, monotonic_s
from mmo_trio.storage.postgres.connections import (
    Ask,
    Backoff,
    Pool,
    ask_until_answered,
    on_a_connection,
)
from mmo_trio.storage.postgres.errors import Meaning, meaning_of, translated
from mmo_trio.storage.postgres.pipeline import Bound, Statement, exchange

T = TypeVar("T")

RACES_MAX = 20
"""How often a batch is decided again because another node was quicker."""

_RESOLVING_SHARE = 0.3
"""The part of a caller's patience that is kept back for learning what became of a commit."""

_BEGIN = Statement("BEGIN")
_CLAIM = Statement("INSERT INTO batches (id, stamp) VALUES (%s::uuid, %s::bigint)")
_COMMIT = Statement("COMMIT")

_RESOLVE = """
    INSERT INTO batches (id, stamp, is_void) VALUES (%s, 0, true)
    ON CONFLICT (id) DO UPDATE SET touched_at = clock_timestamp()
    RETURNING NOT is_void
"""
"""Whoever writes the row first settles it. When the commit in doubt is still under way, this waits for its end; when it
hasn't begun, it can't succeed any more. As this writes in either case, its own commit waits for the standby, too: what
is found won't be lost with the primary."""


@frozen
class Deadlines:
    """When a caller is to be answered, by the bridge's clock."""

    trying: float
    """Until then commits may be tried."""
    knowing: float
    """Until then it may be asked what became of one."""

    @classmethod
    def within(cls, patience_s: float) -> Deadlines:
        """Counted from now."""
        now = monotonic_s()
        return cls(now + patience_s * (1 - _RESOLVING_SHARE), now + patience_s)


@define(eq=False)
class Commit(Generic[T]):
    """One attempt at making something durable."""

    id: UUID = field(factory=uuid4)
    results: list[T] = field(factory=list)
    """What it gives if it takes place; empty until the server may have seen COMMIT."""

    async def begin(self, connection: Connection, stamp: Instant) -> None:
        """BEGIN, and leave the row."""
        await exchange(connection, self._beginning(stamp))

    async def end(self, connection: Connection, result: T) -> None:
        """COMMIT, which gives this result."""
        self.results.append(result)
        await exchange(connection, [_COMMIT.of()])

    async def whole(
        self, connection: Connection, stamp: Instant, statements: Iterable[Bound], result: T
    ) -> None:
        """From BEGIN to COMMIT in one round trip, which gives this result."""
        every = [*self._beginning(stamp), *statements, _COMMIT.of()]
        self.results.append(result)
        await exchange(connection, every)

    def _beginning(self, stamp: Instant) -> Sequence[Bound]:
        return [_BEGIN.of(), _CLAIM.of(self.id, stamp)]


class CommitInDoubt(OutcomeUnknown):
    """For now it can't be learnt whether this commit took place; later it can."""

    def __init__(self, commit: UUID) -> None:
        super().__init__("PostgreSQL was lost during a commit and didn't come back in time")
        self.commit = commit


Attempt: TypeAlias = Callable[[Connection, "Commit[T]"], Awaitable[T]]
"""Goes from `begin` to `end`, or `whole`, or does without when there is nothing to write; may be called again."""


async def commit_until_known(pool: Pool, attempt: Attempt[T], deadlines: Deadlines) -> T:
    """What the attempt gave, once it is durable.

    A lost race, or a server that is away, means another attempt. Raises StoreUnavailable when nothing was stored,
    CommitInDoubt when that can't be learnt, and what the attempt itself raises.
    """
    backoff, races = Backoff(deadlines.trying), 0
    while True:
        commit = Commit[T]()
        try:
            return await on_a_connection(pool, _bound(attempt, commit), deadlines.trying)
        except psycopg.Error as error:
            meaning = meaning_of(error)
            if (
                meaning is Meaning.AWAY
                and commit.results
                and await has_taken_place(pool, commit.id, deadlines.knowing)
            ):
                return commit.results[0]
            races += meaning is Meaning.LOST_RACE
            if meaning not in (Meaning.AWAY, Meaning.LOST_RACE) or races > RACES_MAX:
                raise translated(error) from error
            await backoff.wait(error)


def _bound(attempt: Attempt[T], commit: Commit[T]) -> Ask[T]:
    return lambda connection: attempt(connection, commit)


async def has_taken_place(pool: Pool, id: UUID, deadline: float) -> bool:
    """Whether this commit is stored; if not, it never will be. Raises CommitInDoubt."""

    async def ask(connection: Connection) -> bool:
        cursor = await connection.execute(_RESOLVE, (id,))
        row = await cursor.fetchone()
        assert row is not None
        return bool(row[0])

    try:
        return await ask_until_answered(pool, ask, deadline)
    except (StoreUnavailable, psycopg.Error) as error:
        raise CommitInDoubt(id) from error

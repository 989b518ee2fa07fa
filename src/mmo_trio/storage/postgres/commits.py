"""Commits whose outcome is known: each leaves a row that says whether it took place when its reply
was lost."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeAlias, TypeVar
from uuid import UUID

import psycopg
import trio
from attrs import define, field, frozen

from mmo_sansio.resilience.store_mark import StoreState
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.store import (
    EPOCH_INTERVAL_S,
    OutcomeUnknown,
    StoreUnavailable,
    StoreUnusable,
)
from mmo_trio.storage.postgres.connection_pool import ConnectionPool, PostgresCall
from mmo_trio.storage.postgres.connections import Backoff, call_with_retry
from mmo_trio.storage.postgres.errors import (
    PostgresErrorKind,
    classify_error,
    require_confirmation,
    translate_error,
)
from mmo_trio.storage.postgres.pipeline import BoundStatement, PreparedStatement, execute_pipeline
from mmo_trio.storage.postgres.primary import PrimaryFinder, state_of_rows
from mmo_trio.storage.postgres.statements import JoinableStatement, StatementJoiner
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql.configuration import STORE_STATE_COLUMNS
from mmo_trio.storage.sql.statements import Row

T = TypeVar("T")

# How often a batch is decided again because another process was quicker.
CONFLICTS_MAX = 20

# The share of a caller's timeout that is reserved to find out whether a commit took place.
_RESOLUTION_SHARE = 0.3

_BEGIN = PreparedStatement("BEGIN")
_INSERT_COMMIT_RECORD = JoinableStatement.of(
    "INSERT INTO batches (id, stamp) VALUES (%s::uuid, %s::bigint)"
)
_INSERT_BRAND_COMMIT_RECORD = PreparedStatement(
    "INSERT INTO brand_batches (brand, id, stamp) VALUES (%s::text, %s::uuid, %s::bigint)"
)
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

# The server's time, which doesn't run backwards: where its clock was set back, each epoch counts as
# a second.
_RAISED_AT = f"CASE WHEN raised_at < {_NOW} THEN {_NOW} ELSE raised_at + 1000000 END"

# While another process raises it, this commit doesn't, and doesn't wait.
_RAISE_EPOCH = PreparedStatement(f"""
    UPDATE store_state SET epoch = epoch + 1, raised_at = {_RAISED_AT}
    WHERE id = (SELECT id FROM store_state FOR UPDATE SKIP LOCKED) RETURNING {STORE_STATE_COLUMNS}
""")

_RAISE_COMMAND_EPOCH = PreparedStatement(f"""
    UPDATE store_state SET command_epoch = command_epoch + 1, raised_at = {_RAISED_AT}
    RETURNING {STORE_STATE_COLUMNS}
""")

_COMMIT = PreparedStatement("COMMIT")
_joiner = StatementJoiner()

_RESOLVE_COMMIT = """
    INSERT INTO batches (id, stamp, is_void) VALUES (%s, 0, true)
    ON CONFLICT (id) DO UPDATE SET touched_at = excluded.touched_at
    RETURNING NOT is_void
"""

# The first write of the row settles the question. While the commit in doubt is still running, this
# statement waits for its end; a commit that hasn't begun can't succeed any more. As the statement
# writes in either case, its own commit waits for the standby, too: its result won't be lost with
# the primary.
_RESOLVE_BRAND_COMMIT = """
    INSERT INTO brand_batches (brand, id, stamp, is_void) VALUES (%s, %s, 0, true)
    ON CONFLICT (brand, id) DO UPDATE SET touched_at = excluded.touched_at
    RETURNING NOT is_void
"""


@frozen
class CommitDeadlines:
    """Holds the deadlines of a caller, by Trio's clock."""

    attempts_until: float
    """The end of attempts to commit."""
    resolution_until: float
    """The end of attempts to find out whether one took place."""

    @classmethod
    def within(cls, timeout_s: float) -> CommitDeadlines:
        """Return deadlines that count from now."""
        now = trio.current_time()
        return cls(now + timeout_s * (1 - _RESOLUTION_SHARE), now + timeout_s)


def make_commit_id() -> UUID:
    """Return an id that begins with the time, so that rows of late are together in the index, and
    those of long ago are a range of it (RFC 9562, section 5.7)."""
    # 48 bits of time, version 7, 12 random bits, variant 2, 62 random bits.
    milliseconds = time.time_ns() // 1_000_000
    random = secrets.randbits(74)
    return UUID(
        int=milliseconds << 80 | 7 << 76 | random >> 62 << 64 | 2 << 62 | random & (1 << 62) - 1
    )


def first_commit_id(at: Instant) -> UUID:
    """Return an id above those of commits before this instant, and below all others."""
    return UUID(int=at // 1_000 << 80)


@define(eq=False)
class EpochRaiser:
    """Raises an epoch of the store in commits of this process: one that serves at most once a
    second, a command in each."""

    primary: PrimaryFinder
    statement: PreparedStatement = _RAISE_EPOCH
    interval_s: float = EPOCH_INTERVAL_S
    raised: StoreState | None = None
    """How far the store had come when a commit of this process raised an epoch last."""
    _next_at: float = -math.inf
    _ended: int = 0
    """How many commits have ended that raised nothing."""
    _covered: int = 0
    """How many of them had ended when that commit began which raised an epoch last."""

    @classmethod
    def of_command(cls, primary: PrimaryFinder) -> EpochRaiser:
        """Return what raises the command epoch in each commit."""
        return cls(primary, _RAISE_COMMAND_EPOCH, interval_s=0.0)

    @property
    def has_unmarked_commits(self) -> bool:
        """Return whether something may have been committed since that one."""
        return self._ended > self._covered

    def come_due(self) -> None:
        """Let the next commit raise it."""
        self._next_at = -math.inf

    def take_turn(self) -> int | None:
        """Return how many commits have ended, if the next one raises the epoch after them; None if
        it does not."""
        now = trio.current_time()
        if now < self._next_at:
            return None

        # Also where the commit fails: the next second has another turn.
        self._next_at = now + self.interval_s
        return self._ended

    def confirm(self, connection: PostgresConnection, rows: Sequence[Row], covered: int) -> None:
        """Take what a confirmed commit has raised, after so many others."""
        self.raised = state_of_rows(connection, rows)
        self.primary.mark = self.raised.mark
        self._covered = covered

    def note_end(self) -> None:
        """Note the end of a commit that raised nothing, or is in doubt."""
        self._ended += 1


@frozen
class CommitKey:
    """Names the row of a commit."""

    id: UUID
    brand: str | None = None
    """The brand in whose shard it is, where tables are distributed; see `distribution`."""


@define(eq=False)
class Commit(Generic[T]):
    """One attempt to make something durable."""

    id: UUID = field(factory=make_commit_id)
    brand: str | None = None
    """The brand in whose shard it leaves its row; None for the table that all commits share."""
    may_join: bool = True
    """Whether what can be joined to one statement is one."""
    results: list[T] = field(factory=list)
    """Its result if it takes place; empty until the server may have seen COMMIT."""
    has_begun: bool = False
    """Whether it has begun with `begin_early`."""
    raiser: EpochRaiser | None = None
    """Of the process; None for a commit that leaves the epochs of the store."""

    async def begin_early(self, connection: PostgresConnection, lock: BoundStatement) -> None:
        """Run BEGIN and take a lock before the load; `run_whole_transaction` goes on from there.
        The pool ends a transaction that is not committed."""
        self.has_begun = True
        await execute_pipeline(connection, [_BEGIN.bind(), lock])

    async def begin(self, connection: PostgresConnection, stamp: Instant) -> None:
        """Run BEGIN and write the commit's row."""
        await execute_pipeline(connection, [_BEGIN.bind(), self._record(stamp)])

    async def end(self, connection: PostgresConnection, result: T) -> None:
        """Run COMMIT, for this result."""
        covered = self._take_turn()

        # Before COMMIT is sent: from here on the commit may take place without our knowledge.
        self.results.append(result)
        await self._commit(connection, [], covered)

    async def run_whole_transaction(
        self,
        connection: PostgresConnection,
        stamp: Instant,
        statements: Iterable[BoundStatement],
        result: T,
    ) -> None:
        """Run everything from BEGIN, or what follows it, to COMMIT in one round trip, for this
        result.

        What is joined to one statement is a transaction by itself, unless it follows BEGIN. The one
        commit of a second that raises the epoch isn't joined: so there aren't twice as many shapes.
        """
        covered = self._take_turn()
        every = [self._record(stamp), *statements]
        joined = None
        if self.may_join and covered is None:
            joined = _joiner.join(every)

        if joined is not None:
            every = [joined]
        elif not self.has_begun:
            every = [_BEGIN.bind(), *every]

        # Before COMMIT is sent, as in `end`.
        is_whole = joined is not None and not self.has_begun
        self.results.append(result)
        await self._commit(connection, every, covered, is_whole=is_whole)

    def _take_turn(self) -> int | None:
        if self.raiser is None:
            return None
        return self.raiser.take_turn()

    async def _commit(
        self,
        connection: PostgresConnection,
        statements: Sequence[BoundStatement],
        covered: int | None,
        *,
        is_whole: bool = False,
    ) -> None:
        """Run the last statements, then COMMIT, unless they are a whole transaction; what raises
        the epoch is the last of them, so nobody waits for long."""
        # The row of the epoch is one for all processes: locked last, it is locked for the time of
        # the COMMIT alone.
        every = [*statements]
        if self.raiser is not None and covered is not None:
            every.append(self.raiser.statement.bind())

        if not is_whole:
            every.append(_COMMIT.bind())

        raised: Sequence[Row] = ()
        try:
            with require_confirmation(connection):
                found = await execute_pipeline(connection, every)

            # The rows before those of COMMIT; none where another process raises it at the moment.
            if covered is not None:
                raised = found[-2]
        finally:
            # An error may hide a commit that took place, so it counts as one that raised nothing.
            if self.raiser is None:
                pass
            elif covered is not None and raised:
                self.raiser.confirm(connection, raised, covered)
            else:
                self.raiser.note_end()

    @property
    def key(self) -> CommitKey:
        """Return what its row is found by."""
        return CommitKey(self.id, self.brand)

    def _record(self, stamp: Instant) -> BoundStatement:
        if self.brand is not None:
            return _INSERT_BRAND_COMMIT_RECORD.bind(self.brand, self.id, stamp)
        return _INSERT_COMMIT_RECORD.bind(self.id, stamp)


class CommitInDoubt(OutcomeUnknown):
    """Nobody can learn now whether this commit took place; later `is_committed` can."""

    def __init__(self, key: CommitKey) -> None:
        super().__init__(
            "PostgreSQL, or its standby, was lost during a commit and didn't come back in time"
        )
        self.key = key


_MAY_REPEAT = (
    PostgresErrorKind.DISCONNECTED,
    PostgresErrorKind.UNCONFIRMED,
    PostgresErrorKind.CONFLICT,
)

# Goes from `begin` to `end`, or runs a whole transaction, or neither when there is nothing to
# write; may be repeated.
CommitAttempt: TypeAlias = Callable[[PostgresConnection, "Commit[T]"], Awaitable[T]]


async def commit_until_known(
    pool: ConnectionPool,
    attempt: CommitAttempt[T],
    deadlines: CommitDeadlines,
    raiser: EpochRaiser | None = None,
) -> T:
    """Return the result of the attempt, once it is durable.

    A lost race, or an unreachable server, means another attempt; `is_committed` settles a commit
    whose reply was lost or that the server warned of. A cancellation from outside waits for the end
    of all that, as it does in each call of the pool. Raises StoreUnavailable when nothing was
    stored, CommitInDoubt when nobody can learn that, and what the attempt itself raises."""
    backoff = Backoff(deadlines.attempts_until)
    races = 0
    while True:
        # Each attempt has an id of its own: the row of an earlier one says nothing of this.
        commit: Commit[T] = Commit(raiser=raiser)
        try:
            return await pool.call(_bind_commit(attempt, commit), deadlines.attempts_until)
        except psycopg.Error as error:
            meaning = classify_error(error)

            # 1. The reply was lost after COMMIT may have been seen: ask before it is repeated, or a
            #    payment could be made twice.
            if (
                meaning in (PostgresErrorKind.DISCONNECTED, PostgresErrorKind.UNCONFIRMED)
                and commit.results
                and await is_committed(pool, commit.key, deadlines.resolution_until)
            ):
                return commit.results[0]

            # 2. It certainly did not take place, and never will: once more, as long as that helps.
            races += meaning is PostgresErrorKind.CONFLICT
            if meaning not in _MAY_REPEAT or races > CONFLICTS_MAX:
                raise translate_error(error) from error

            with trio.CancelScope(shield=True):
                await backoff.wait(error)


def _bind_commit(attempt: CommitAttempt[T], commit: Commit[T]) -> PostgresCall[T]:
    return lambda connection: attempt(connection, commit)


async def is_committed(pool: ConnectionPool, key: CommitKey, deadline: float) -> bool:
    """Return whether this commit is stored; if not, it never will be. Raises CommitInDoubt."""

    async def resolve(connection: PostgresConnection) -> bool:
        with require_confirmation(connection):
            if key.brand is None:
                cursor = await connection.execute(_RESOLVE_COMMIT, (key.id,))
            else:
                cursor = await connection.execute(_RESOLVE_BRAND_COMMIT, (key.brand, key.id))

        row = await cursor.fetchone()
        assert row is not None
        return bool(row[0])

    try:
        return await call_with_retry(pool, resolve, deadline, waits_while_lost=True)
    except (StoreUnavailable, StoreUnusable, OutcomeUnknown, psycopg.Error) as error:
        raise CommitInDoubt(key) from error

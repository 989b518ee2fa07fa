"""Models what processes that share a store have in it: rows in an SQLite database in memory, which
the shared SQL statements write and read, and who holds what of them, by the leases and channels of
`OwnershipModel`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from typing import Final, TypeVar

from attrs import Factory, define, evolve, field

from mmo_sansio.messages.intents import DeliverCallback, IntentKey, IntentKind
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.resilience.circuit_breaker import INITIAL_SNAPSHOT, BreakerSnapshot
from mmo_sansio.resilience.clock_guard import DIFFERENCE_MAX
from mmo_sansio.resilience.ownership import OVERDUE_AFTER, Channel
from mmo_sansio.resilience.store_mark import StoreState
from mmo_sansio.values.clock import SECOND, Instant, MonotonicInstant, Span, earlier
from mmo_trio.storage.interface.admin_types import ServingProcess
from mmo_trio.storage.interface.store import CLOCK_RECORDS_RECENT_FOR, WorkItem
from mmo_trio.storage.sql.configuration import STORE_STATE_COLUMNS, parse_store_state
from mmo_trio.storage.sql.net_effect import NetEffect
from mmo_trio.storage.sql.serialization import parse_breaker, serialize_breaker
from mmo_trio.storage.sql.statements import SqlQuery, SqlStatement, run_query
from mmo_trio.storage.sqlite import statements
from mmo_trio.storage.sqlite.connection import run_statement
from mmo_trio.storage.sqlite.startup import migrate
from mmo_trio.storage.sqlite.statements import (
    RecentTransactions,
    advance_latest_stamp,
    load_batch,
    write_batch,
)
from mmo_trio.storage.sqlite.store import sqlite_schema
from mmo_trio.system.clock import GatewayClock
from tests.support.ownership_model import OwnershipModel, is_in_wake_share

T = TypeVar("T")

ROWS_MAX: Final = 1_000_000
"""More rows than a test has."""
NO_HOLDER: Final = 0
"""The holder of who has no lease."""
STORE_ID: Final = "simulated"
"""The store's name, which is random elsewhere."""
_RAISE_EPOCH = f"""
    UPDATE store_state SET epoch = epoch + 1, raised_at = ? WHERE epoch = 0 OR raised_at <= ?
    RETURNING {STORE_STATE_COLUMNS}
"""
_RECORD_TIME_OF_SAVING = """
    ALTER TABLE clock_records ADD COLUMN saved_at INTEGER;
    CREATE TRIGGER clock_record_saved AFTER INSERT ON clock_records BEGIN
        UPDATE clock_records SET saved_at = store_time() WHERE boot_id = new.boot_id;
    END;
"""
_READ_CLOCK = f"""
    SELECT store_time(),
        count(*) FILTER (WHERE abs(ahead) <= {DIFFERENCE_MAX}),
        count(*) FILTER (WHERE abs(ahead) > {DIFFERENCE_MAX})
    FROM (
        SELECT utc - saved_at AS ahead FROM clock_records
        WHERE boot_id <> ? AND saved_at > store_time() - {CLOCK_RECORDS_RECENT_FOR}
    )
"""
SHARED_SCHEMA: Final = evolve(
    sqlite_schema(GatewayClock()),
    clock_record_age="store_time() - saved_at",
    now=lambda: SqlStatement("store_time()"),
    clock_query=_READ_CLOCK,
    touch_clock_record=", saved_at = store_time()",
)
"""That of SQLite, with a clock of the store's own."""
_SAVE_BREAKER = "INSERT OR REPLACE INTO breakers (brand, breaker) VALUES (?, ?)"


def database_in_memory() -> sqlite3.Connection:
    """Open an empty database with our tables, in autocommit mode."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.deserialize(_migrated())
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


@cache
def _migrated() -> bytes:
    """Return a database with our tables, which is copied faster than it is made."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    connection.execute("UPDATE store_state SET id = ?", (STORE_ID,))
    return connection.serialize()


@define(eq=False)
class SharedRows:
    """Holds what is stored. Each method is a transaction of its own, which is done at once."""

    clock: Callable[[], MonotonicInstant]
    """The store's own clock, by which leases last."""
    wall: Callable[[], Instant]
    """The wall time of the same clock."""
    connection: sqlite3.Connection = field(init=False, factory=database_in_memory)
    ownership: OwnershipModel = Factory(OwnershipModel)
    locked_intents: frozenset[IntentKey] = frozenset()
    """Durable intents of commits in progress: claims leave them out."""
    raised_state: StoreState | None = None
    """How far the store has come; None before the first commit."""
    has_unmarked_commits: bool = False
    """Whether something was committed since the epoch was raised last."""
    _configurations_in_use: dict[int, ServingProcess] = Factory(dict)
    """What each process has said, by the number of its lease."""
    _holders: dict[IntentKey, int] = Factory(dict)
    """Who holds each durable intent, by the number of the lease."""

    def __attrs_post_init__(self) -> None:
        self.connection.create_function("store_time", 0, self.wall)
        self.connection.executescript(_RECORD_TIME_OF_SAVING)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self.connection
        connection.execute("BEGIN")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise

    # Batches and conversations

    def load(self, reads: Reads) -> Ledger:
        """Return the working set for these reads."""
        return load_batch(self.connection, reads, RecentTransactions())

    def write(self, effect: NetEffect, holder: int) -> None:
        """Store a batch, whose durable intents the holder of this lease has claimed. A breaker is
        kept unless the channel has been claimed since."""
        overtaken: dict[str, BreakerSnapshot] = {}
        for brand, saved in effect.breakers.items():
            self.ownership.save_breaker(brand, saved.fence, saved.breaker)
            if self.ownership.breakers()[brand] != saved.breaker:
                overtaken[brand] = self._breaker(brand)
        with self._transaction() as connection:
            write_batch(connection, effect, is_claimed=False)
            connection.executemany(
                _SAVE_BREAKER, [(brand, serialize_breaker(b)) for brand, b in overtaken.items()]
            )
            self._raise_epoch(connection)
        for key in effect.concluded:
            self._holders.pop(key, None)
        self._holders.update(dict.fromkeys(effect.scheduled, holder))

    def query(self, make_query: Callable[[], SqlQuery[T]]) -> T:
        """Run a conversation that reads."""
        return run_query(make_query(), partial(run_statement, self.connection))

    def change(self, make_query: Callable[[], SqlQuery[T]], stamp: Instant = Instant(0)) -> T:
        """Run a conversation that writes."""
        with self._transaction() as connection:
            result = run_query(make_query(), partial(run_statement, connection))
            advance_latest_stamp(connection, stamp)
            self._raise_epoch(connection)
        return result

    def raise_epoch(self) -> None:
        """Raise the epoch of the store at once."""
        with self._transaction() as connection:
            self._raise_epoch(connection, interval=Span(0))

    def _raise_epoch(self, connection: sqlite3.Connection, interval: Span = Span(SECOND)) -> None:
        """Raise the epoch of the store, some time after it was raised last."""
        now = self.wall()
        rows = connection.execute(_RAISE_EPOCH, (now, earlier(now, interval))).fetchall()
        self.has_unmarked_commits = not rows
        if rows:
            self.raised_state = parse_store_state(rows)

    # Work, and who does it

    def next_wake(self, after: Instant, holder: int) -> Instant | None:
        """Return the earliest `wake_at` that is later than `after`, of a payment in this holder's
        share."""
        rows = self.connection.execute(
            "SELECT wake_at, gateway_reference FROM transactions WHERE wake_at > ? ORDER "
            "BY wake_at",
            (after,),
        )
        is_in_share = self._share_of(holder)
        return next((Instant(at) for at, each in rows.fetchall() if is_in_share(each)), None)

    def due(self, now: Instant, holder: int, limit: int) -> Sequence[str]:
        """Return gatewayReferences of payments that are due, the earliest first: those in this
        holder's share, and those that are long overdue."""
        overdue = statements.due(self.connection, earlier(now, OVERDUE_AFTER), ROWS_MAX)
        later = statements.due(self.connection, now, ROWS_MAX)[len(overdue) :]
        return [*overdue, *filter(self._share_of(holder), later)][:limit]

    def claim_abandoned(self, holder: int, limit: int) -> Sequence[WorkItem]:
        """Claim durable intents that belong to no living process, oldest first; callbacks belong to
        channels."""
        unclaimed = (
            key for key, _ in self._open_intents() if not _is_callback(key) and self._is_free(key)
        )
        claimed = list(islice(unclaimed, limit))
        self._holders.update(dict.fromkeys(claimed, holder))
        return statements.open_intents(self.connection, claimed)

    def open_intents(self, keys: Sequence[IntentKey]) -> Sequence[WorkItem]:
        """Return those of these durable intents that are open, but no callbacks."""
        return statements.open_intents(
            self.connection, [key for key in keys if not _is_callback(key)]
        )

    def claim_channels(
        self,
        holder: int,
        *,
        excluding: Collection[str],
        known: Mapping[str, int] | None,
        end_leases: bool,
    ) -> Sequence[Channel]:
        """Claim the channels that have callbacks waiting and no owner; see
        `ChannelOwnership.claim`."""
        if end_leases:
            self.ownership.end_expired_leases(now=self.clock())
        waiting = dict.fromkeys(brand for key, brand in self._open_intents() if _is_callback(key))
        wanted = [brand for brand in waiting if brand not in excluding]
        return [
            evolve(each, breaker=self._breaker(each.brand))
            for each in self.ownership.claim(holder, wanted, known=known)
        ]

    def find_callbacks(
        self,
        holder: int,
        room: Mapping[str, int],
        *,
        known: Mapping[str, int] | None,
        taken: Mapping[str, Collection[str]] | None,
    ) -> Sequence[WorkItem]:
        """Return callbacks that wait in this holder's channels, oldest first; see
        `ChannelOwnership.find_callbacks`."""
        left, found = dict(room), dict[IntentKey, int]()
        for key, brand in self._open_intents():
            fence = self.ownership.fence(holder, brand) if _is_callback(key) else None
            is_known = fence is not None and (known is None or known.get(brand) == fence)
            if (
                fence is None
                or not is_known
                or left.get(brand, 0) < 1
                or (taken and key[0] in taken.get(brand, ()))
            ):
                continue
            left[brand] -= 1
            found[key] = fence
        works = statements.open_intents(self.connection, list(found))
        return [
            WorkItem(DeliverCallback(key[0], found[key]), w.transaction)
            for key, w in zip(found, works, strict=True)
        ]

    def release_channels(
        self, holder: int, fences: Mapping[str, int], breakers: Mapping[str, BreakerSnapshot]
    ) -> None:
        """Free these channels and store the breakers, as far as this holder owns them under these
        fences."""
        owned = [
            brand for brand, fence in fences.items() if self.ownership.fence(holder, brand) == fence
        ]
        self.ownership.release(holder, fences, breakers)
        stored = [
            (brand, serialize_breaker(breakers[brand])) for brand in owned if brand in breakers
        ]
        self.connection.executemany(_SAVE_BREAKER, stored)

    def use_configuration(self, holder: int, generation: int, process: str) -> None:
        """Record that this holder's process uses this generation."""
        self._configurations_in_use[holder] = ServingProcess(process, generation)

    def serving_processes(self) -> Sequence[ServingProcess]:
        """Return the processes whose leases have not run out."""
        unknown = ServingProcess("a process that has not said its name", None)
        return [
            self._configurations_in_use.get(each, unknown)
            for each in self.ownership.alive(now=self.clock())
        ]

    def _breaker(self, brand: str) -> BreakerSnapshot:
        rows = self.connection.execute("SELECT breaker FROM breakers WHERE brand = ?", (brand,))
        return next((parse_breaker(row) for (row,) in rows.fetchall()), INITIAL_SNAPSHOT)

    def _open_intents(self) -> Sequence[tuple[IntentKey, str]]:
        """Return the durable intents that no commit in progress is about, each with its brand, in
        the order of their creation."""
        rows = self.connection.execute(
            "SELECT gateway_reference, kind, brand FROM intents JOIN transactions USING "
            "(gateway_reference)"
            " ORDER BY intents.id"
        )
        found = (
            ((reference, IntentKind(kind)), brand) for reference, kind, brand in rows.fetchall()
        )
        return [each for each in found if each[0] not in self.locked_intents]

    def _share_of(self, holder: int) -> Callable[[str], bool]:
        """Return what tells whether this holder wakes a payment; without a lease all are in its
        share."""
        if holder == NO_HOLDER:
            return lambda _: True
        return partial(
            is_in_wake_share, holder=holder, alive=self.ownership.alive(now=self.clock())
        )

    def _is_free(self, key: IntentKey) -> bool:
        return key not in self._holders or self.ownership.is_over(self._holders[key])


def _is_callback(key: IntentKey) -> bool:
    return key[1] is IntentKind.CALLBACK

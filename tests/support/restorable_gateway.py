"""A gateway whose store is backed up, served, put back and prepared in any order, with the commands
of the product, and an operator who keeps a book of what was submitted.

Each step opens the store as `mmo serve` or a command does, in this process. What must hold in any
order is judged on the way: no copy is served that lacks what was served before and was not
prepared; what has succeeded is prepared for certain; and nothing is submitted twice."""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest.mock import patch
from uuid import uuid4

import trio
from attrs import Factory, define, evolve, frozen
from click.testing import CliRunner, Result

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.messages.queries import LookUpByMerchantReference
from mmo_sansio.messages.replies import Applied
from mmo_sansio.resilience.store_mark import StoreMark
from mmo_sansio.testing import a_brand, a_create_payment, numbered_reference, succeeded
from mmo_sansio.values.clock import HOUR, Instant, Span
from mmo_sansio.values.model import Operation, Stage, Status, Transaction
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.cli.group import main
from mmo_trio.engine.engine import begin_clock, submit_once
from mmo_trio.service.store_recognition import read_mark, recognise_store
from mmo_trio.settings.load import load_settings
from mmo_trio.settings.service import ServiceConfig
from mmo_trio.storage.interface.admin_types import PaymentFilter
from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.open_store import migrate_store, open_store
from mmo_trio.storage.sql.statements import execute
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.damaged_file import DamagedFile
from tests.support.restored_database import RestorableDatabase

# isort: split
import psycopg

BRANDS: Final = ("acme", "globex")
PAID: Final = "acme"
"""The brand that pays salaries."""
LEDGER: Final = ("--map", "reference=order", "--map", "amount=total", "--currency", "KES")
REFUSED: Final = "a copy was refused that has everything"
_SAVED: Final = ("copy", "latest", "backed_up", "clock_ahead", "payments", "salaries", "given_up")
_BESIDE: Final = ("-wal", "-shm", ".lock")
_COUNT_WRITTEN: Final = """
    SELECT (SELECT count(*) FROM reference_uses), (SELECT count(*) FROM journal),
        (SELECT count(*) FROM audit), (SELECT count(*) FROM restored_brands)
"""
_SELECT_TABLES: Final = (
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
)


class Step(Enum):
    """What people do with a gateway and its store."""

    BACK_UP = "back up"
    SERVE = "serve"
    """Start the gateway, submit what waits, and stop it."""
    PAY = "pay"
    """Start the gateway while its operator is out of reach; a merchant asks for what it has no
    answer for, and for one more; stop it."""
    RESTORE = "restore"
    RESTORED = "db restored"
    STATEMENT = "db restored --statement"
    FINISH_BRAND = "db restored --finish acme"
    FINISH = "db restored --finish"
    CLOCK_BACK = "set the clock back"
    CLOCK_AHEAD = "set the clock ahead"


Steps: TypeAlias = Sequence[Step]
SERVED: Final[Steps] = (Step.SERVE,)
"""How a gateway begins that has served its store."""
ON_HOLD: Final[Steps] = (Step.SERVE, Step.RESTORED, Step.FINISH_BRAND, Step.SERVE)
"""How one begins that was restored, and has released one of its brands."""


@define(eq=False)
class SqliteFile(RestorableDatabase):
    """A SQLite file whose backup is kept in memory."""

    path: Path
    backup: bytes | None = None

    @property
    def url(self) -> str:  # type: ignore[override]
        return f"sqlite:///{self.path}"

    def back_up(self) -> None:
        self.backup = self.read()

    def restore(self) -> None:
        assert self.backup is not None, "there is a backup"
        self.write(self.backup)

    def read(self) -> bytes:
        """The file, which nobody has open."""
        return self.path.read_bytes()

    def write(self, content: bytes) -> None:
        """Put it in the place of the file."""
        for suffix in _BESIDE:
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self.path.write_bytes(content)


@define(eq=False)
class CopiedTables(RestorableDatabase):
    """A database of PostgreSQL whose rows are kept in memory: to copy a database takes seconds."""

    url: str
    backup: Mapping[str, bytes] = Factory(dict)
    """The rows of each table that has some, in PostgreSQL's own format."""

    def back_up(self) -> None:
        with self._connect() as connection:
            self.backup = {
                table: b"".join(_copy(connection, f"COPY {table} TO STDOUT"))
                for table in _filled_tables(connection)
            }

    def restore(self) -> None:
        with self._connect() as connection:
            for table in _filled_tables(connection):
                connection.execute(f"DELETE FROM ONLY {table}".encode())
            for table, rows in self.backup.items():
                with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    copy.write(rows)

    def _connect(self) -> psycopg.Connection[Any]:
        """Return a connection that checks no foreign keys, as a dump is restored."""
        return psycopg.connect(self.url, options="-c session_replication_role=replica")


def _copy(connection: psycopg.Connection[Any], statement: str) -> Iterator[bytes]:
    with connection.cursor().copy(statement.encode()) as copy:
        for part in copy:
            yield bytes(part)


def _filled_tables(connection: psycopg.Connection[Any]) -> Sequence[str]:
    """Return the tables and partitions that have rows."""
    tables = [name for (name,) in connection.execute(_SELECT_TABLES).fetchall()]
    tests = ", ".join(f"EXISTS (SELECT FROM ONLY {each})" for each in tables)
    [filled] = connection.execute(f"SELECT {tests}".encode()).fetchall()
    return [table for table, has_rows in zip(tables, filled, strict=True) if has_rows]


@frozen
class Copy:
    """What is known of a copy of the store, apart from what it says itself."""

    version: int = 0
    """How many changes it has."""
    recorded: frozenset[str] = frozenset()
    """The merchantReferences that a ledger has let count as used."""


@frozen
class SavedGateway:
    """Everything about a gateway on SQLite at some moment."""

    content: bytes
    """Its store, compressed."""
    backup: bytes | None
    mark: bytes | None
    people: Mapping[str, Any]
    book: Counter[str]


@define(eq=False)
class RestorableGateway:
    """A gateway, the people around it, and what they have seen."""

    folder: Path
    database: RestorableDatabase
    copy: Copy = Copy()
    latest: int = 0
    """The version of the store that has everything."""
    backed_up: Copy | None = None
    clock_ahead: Span = Span(0)
    """How far the machine's wall clock is wrong."""
    payments: int = 0
    """How many were asked for: each has a gatewayReference of its own."""
    salaries: tuple[str, ...] = ()
    """The merchantReferences that the merchant has used."""
    given_up: frozenset[str] = frozenset()
    """Those that staff have let be used again: they released the brand with its gap."""
    book: Counter[str] = Factory(Counter)
    """How often the operator was told to pay a salary."""
    violations: list[str] = Factory(list)

    @property
    def config(self) -> Path:
        return self.folder / "mmo.toml"

    @property
    def mark_file(self) -> Path:
        return self.folder / "gateway.mark"

    @property
    def mark(self) -> StoreMark | None:
        return read_mark(self.mark_file)

    def set_up(self) -> None:
        """Configure it, and make its store and its brands."""
        self.config.write_text(
            f'[database]\nurl = "{self.database.url}"\nmark_file = "{self.mark_file}"\n'
            f'[keys]\nmaster_key_file = "{self.folder}/master.key"\n'
            '[gateway]\nbase_url = "https://pay.example"\nhpp_url = "https://page.example"\n'
        )
        create_master_key(self.folder / "master.key")
        trio.run(migrate_store, self.database.url, lambda *_: None)
        brands = [a_brand(id=each) for each in BRANDS]
        self.read(lambda store: store.admin.save_brands(brands))

    def mmo(self, *arguments: object) -> Result:
        """Run a command in this process."""
        words = [*map(str, arguments), "--config", str(self.config)]
        with self._wrong_clock():
            done = CliRunner().invoke(main, words)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    def read(self, call: Callable[[Store], Awaitable[Any]]) -> Any:
        """Return what a call finds in the store."""

        async def run() -> Any:
            async with open_store(self.database.url, serving=False) as store:
                return await call(store)

        return trio.run(run)

    @property
    def store_id(self) -> str:
        return self._content()[0]

    def _content(self) -> tuple[str, object]:
        """The name of the store, and how much commands have written into it."""

        async def count(store: Store) -> tuple[str, object]:
            state = await store.state()
            return state.mark.store_id, await store.admin.read(lambda: execute(_COUNT_WRITTEN))

        found: tuple[str, object] = self.read(count)
        return found

    @property
    def knowledge(self) -> Hashable:
        """What people know of it, but for how they count."""
        versions = [self.copy.version, self.latest]
        recorded = [self.copy.recorded]
        if self.backed_up is not None:
            versions.append(self.backed_up.version)
            recorded.append(self.backed_up.recorded)
        order = sorted(set(versions))
        return (
            tuple(map(order.index, versions)),
            tuple(recorded),
            self.clock_ahead,
            self.salaries,
            self.given_up,
            frozenset(self.book.items()),
        )

    def save(self) -> SavedGateway:
        """Return everything about a gateway on SQLite."""
        assert isinstance(self.database, SqliteFile)
        content, backup = self.database.read(), self.database.backup
        mark = self.mark_file.read_bytes() if self.mark_file.exists() else None
        people = {each: getattr(self, each) for each in _SAVED}
        return SavedGateway(zlib.compress(content, 1), backup, mark, people, Counter(self.book))

    def load(self, saved: SavedGateway) -> None:
        """Let it be as it was; of violations none is known."""
        assert isinstance(self.database, SqliteFile)
        self.database.write(zlib.decompress(saved.content))
        self.database.backup = saved.backup
        self.mark_file.unlink(missing_ok=True)
        if saved.mark is not None:
            self.mark_file.write_bytes(saved.mark)
        for name, known in saved.people.items():
            setattr(self, name, known)
        self.book = Counter(saved.book)
        self.violations = []

    # Steps

    def play(self, steps: Steps) -> None:
        """Do these steps in order."""
        for step in steps:
            self.do(step)

    def do(self, step: Step) -> None:
        """Do a step, and judge it."""
        match step:
            case Step.BACK_UP:
                self.database.back_up()
                self.backed_up = self.copy
            case Step.RESTORE:
                if self.backed_up is not None:
                    self.database.restore()
                    self.copy = self.backed_up
            case Step.SERVE:
                self.serve(self.submit_all)
            case Step.PAY:
                self.serve(self._ask)
            case Step.RESTORED:
                self._prepare("db", "restored")
            case Step.STATEMENT:
                self._close_gap()
            case Step.FINISH_BRAND:
                self._finish(PAID)
            case Step.FINISH:
                self._finish()
            case Step.CLOCK_BACK:
                self.clock_ahead = Span(-HOUR)
            case Step.CLOCK_AHEAD:
                self.clock_ahead = Span(HOUR)

    def serve(self, act: Callable[[Store, GatewayClock], Awaitable[None]]) -> bool:
        """Start the gateway, let it act, and stop it; return whether it was not refused."""

        async def run() -> bool:
            config = ServiceConfig(load_settings(file=self.config))
            async with open_store(self.database.url, serving=True) as store:
                try:
                    keeper = await recognise_store(store, config)
                except (StoreUnusable, DamagedFile):
                    return False
                clock = GatewayClock()
                await begin_clock(clock, store)
                await act(store, clock)
                await keeper.write_last()
                return True

        with self._wrong_clock():
            is_served = trio.run(run)
        is_complete = self.copy.version == self.latest
        if is_served and not is_complete:
            self.violations.append("a copy was served that lacks something and was not prepared")
        if is_complete and not is_served:
            self.violations.append(REFUSED)
        if is_served:
            self._change()
        return is_served

    async def submit_all(self, store: Store, clock: GatewayClock) -> None:
        """Submit each payment that may be, as a worker does; the operator pays it at once. It is
        asked about the others."""
        pending = await store.admin.list_payments(PaymentFilter(status=Status.PENDING))
        for payment in pending.transactions:
            reference = payment.order.merchant_reference
            assert reference is not None, "each salary has one"
            begun = BeginSubmission(payment.reference, attempt=uuid4().hex)
            if _may_be_sent(await submit_once(store, begun, clock)):
                self.book[reference] += 1
            if self.book[reference]:
                await submit_once(store, succeeded(payment.reference), clock)
        self.violations += [
            f"{reference} was submitted {count} times"
            for reference, count in self.book.items()
            if count > 1 and reference not in self.given_up
        ]

    async def _ask(self, store: Store, clock: GatewayClock) -> None:
        """Let the merchant look up each salary and ask once more for what nobody knows, then for a
        further one; 503 while its brand waits."""
        if PAID in (await store.configuration()).restored_brands:
            return
        self.salaries += (f"salary-{len(self.salaries) + 1}",)
        for reference in self.salaries:
            known = await store.look_up(LookUpByMerchantReference(PAID, reference))
            if known is None:
                self.payments += 1
                asked = a_create_payment(
                    numbered_reference(self.payments),
                    brand=a_brand(id=PAID),
                    page_token=f"token-{self.payments}",
                    operation=Operation.DIRECT_PAYOUT,
                    merchant_reference=reference,
                )
                await submit_once(store, asked, clock)

    def _prepare(self, *command: object) -> bool:
        """Run a command that may prepare the store; return whether it has done what it should."""
        before, content, is_complete = *self._content(), self.copy.version == self.latest
        done = self.mmo(*command)
        after, changed = self._content()
        is_begun = after != before
        if is_begun:
            self.judge_prepared()
            if self.mark is None or self.mark.store_id != after:
                self.violations.append("the mark is not that of the store")
        elif done.exit_code == 0 and not is_complete:
            self.violations.append(f"{command} was content with a copy that lacks something")
        elif changed != content:
            self._change()
        return done.exit_code == 0

    def judge_prepared(self) -> None:
        """Judge a store that has just got a new name."""

        async def find(store: Store) -> tuple[Sequence[Transaction], bool]:
            page = await store.admin.list_payments(PaymentFilter(status=Status.PENDING))
            held = (await store.configuration()).restored_brands
            return page.transactions, held == frozenset(BRANDS)

        pending, is_held = self.read(find)
        if not all(each.progress.is_restored for each in pending):
            self.violations.append("a payment was not marked")
        if not is_held:
            self.violations.append("a brand is not on hold")
        self._change()

    def _close_gap(self) -> None:
        ledger = self.folder / "ledger.csv"
        lines = "".join(f"{reference},150.00\n" for reference in self.salaries)
        ledger.write_text(f"order,total\n{lines}")
        if self._prepare("db", "restored", "--statement", ledger, *LEDGER, "--brand", PAID):
            recorded = self.copy.recorded | set(self.salaries)
            self.copy = evolve(self.copy, recorded=recorded)

    def _finish(self, *brand: str) -> None:
        was_held = PAID in self._held()
        self._prepare("db", "restored", "--finish", *brand)
        if was_held and PAID not in self._held():
            self.given_up |= {each for each in self.salaries if self._is_lost(each)}

    def _held(self) -> frozenset[str]:
        configuration = self.read(lambda store: store.configuration())
        held: frozenset[str] = configuration.restored_brands
        return held

    def _is_lost(self, salary: str) -> bool:
        """Whether the store knows nothing of a salary, not even that it is used."""
        query = LookUpByMerchantReference(PAID, salary)
        is_known = self.read(lambda store: store.look_up(query)) is not None
        return not is_known and salary not in self.copy.recorded

    def _change(self) -> None:
        self.latest += 1
        self.copy = evolve(self.copy, version=self.latest)

    @contextmanager
    def _wrong_clock(self) -> Iterator[None]:
        ahead = self.clock_ahead

        def raw_wall_time(clock: GatewayClock) -> Instant:
            return Instant(time.time_ns() // 1_000 + clock.offset + ahead)

        with patch.object(GatewayClock, "raw_wall_time", raw_wall_time):
            yield


def _may_be_sent(reply: object) -> bool:
    """Whether a worker sends a payment that has this reply to the begin of its submission."""
    if not isinstance(reply, Applied):
        return False
    progress = reply.transaction.progress
    return progress.stage is Stage.SUBMITTING and not progress.is_restored

"""How PostgreSQL executes our statements: on tables of a million rows, with its default
settings."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import partial

import pytest
import trio
from bench.rivals.statement import CREATE
from bench.servers import RIVALS

from mmo_sansio.messages.replies import Accepted
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.storage.interface.store import StoreCorrupt
from mmo_trio.storage.postgres import open_postgres, startup
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from tests.conformance import CHECKS, SHARED_CHECKS, StoreCheck, reversals
from tests.conformance.inputs import creation
from tests.support.effort import by_effort
from tests.support.large_store import LargeStore
from tests.support.postgres_process import PostgresProcess, postgres_process
from tests.support.postgres_programs import chosen_with_modules
from tests.support.postgres_server import PostgresServer
from tests.support.statement_log import (
    EXPLAINING,
    LoggedStatement,
    logged_statements,
    tables_read_whole,
)

# isort: split
import psycopg

from tests.support.time_limits import HANGS_AFTER_S

pytestmark = pytest.mark.long

ROWS = by_effort(200_000, 1_000_000)
ROWS_READ_MAX = 1_000
"""No statement reads more rows of a large table than this, except those of BOUNDED."""
BLOCKS_MAX = 500
ROWS_HANDLED_MAX = 2_000
"""What a statement may touch of blocks, and how many rows its plan may handle in all nodes
together: some two milliseconds of work on a quiet machine, counted, as the time itself says as much
about the tests that run beside it."""
BLOCKS_MAX_OF_ROW = 30
ROWS_HANDLED_MAX_OF_ROW = 20
"""As much more for each row that it returns or writes: a page may have a thousand."""

BOUNDED = {
    # PAYMENTS_SCANNED_MAX of a console's search
    "SELECT t.created_at, t.gateway_reference FROM transactions": 5_000,
    "SELECT t.order_row, t.progress FROM (SELECT t.gateway_reference": 5_000,
}
"""Statements that read more rows of a large table, by how they begin, with the bound that is
written in the code."""

SCANNING = (
    "SELECT count(*) FROM",  # `mmo db check` reads everything,
    "SELECT brand, gateway_reference, gateway_reference, brand, type,",  # page by page.
    "SELECT count(*), min(at), max(at) FROM",  # The dry run of retention counts.
    "SELECT gateway_reference, brand, at, outcome, url, status, duration_ms, detail FROM "
    "callbacks WHERE brand",
)
"""Statements that may read a large table from first to last, by how they begin. Of the callbacks of
a brand only the sandbox makes a list."""

EVERY_CHECK = (*CHECKS, *SHARED_CHECKS)
FEW_ROWS = tuple(
    each
    for each in EVERY_CHECK
    if "retention" not in each.__module__ and each is not reversals.check_integrity_of_reversals
)
"""Without the checks of retention and of integrity, which walk over all old payments."""

SERVER = {
    "autovacuum": "off",  # It would gather statistics while the test looks on.
    "max_wal_size": "8GB",
    "fsync": "off",
    **EXPLAINING,
}
OWN_APPLICATION = "mmo-gateway"

_UNKNOWN = """
    SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT EXISTS (SELECT 1 FROM pg_stats
    WHERE tablename = relname)
"""


@pytest.fixture(autouse=True)
def _no_maintenance_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what a store does once a minute, which reads whole tables on purpose: whether a
    check takes so long depends on what else runs."""
    monkeypatch.setattr(startup, "_ROLL_UP_INTERVAL_S", math.inf)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresProcess]:
    """A server that logs every plan."""
    with postgres_process(chosen_with_modules(), SERVER) as server:
        yield server


@pytest.fixture(scope="module")
def databases(server: PostgresProcess) -> PostgresServer:
    """Its databases."""
    return PostgresServer(server.socket_url)


@pytest.fixture(scope="module")
def large(server: PostgresProcess, databases: PostgresServer) -> LargeStore:
    """A store with `ROWS` old payments, of which the server knows no more than how large its files
    are."""
    store = LargeStore(databases.migrated())
    with psycopg.connect(store.url) as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements")
    store.fill(ROWS)
    return store


def run_checks(
    checks: Iterable[StoreCheck], choose: Callable[[], str], clean: Callable[[str], None]
) -> None:
    """Run the public suite for stores, each check on the database that is chosen for it. What
    checks say of all payments fails where there are old ones besides their own: here only their
    statements count."""
    for check in checks:
        url = choose()
        trio.run(_run_tolerantly, check, partial(open_postgres, url, serving=True))
        clean(url)


async def _run_tolerantly(
    check: StoreCheck, opened: Callable[[], AbstractAsyncContextManager[Store]]
) -> None:
    with trio.fail_after(HANGS_AFTER_S):
        try:
            await check(opened)
        except (AssertionError, ValueError, StoreCorrupt):
            return


def _is_ours(statement: LoggedStatement) -> bool:
    return statement.application == OWN_APPLICATION and not statement.text.startswith(SCANNING)


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def test_what_the_server_does_not_know_of_tables_is_gathered(large: LargeStore) -> None:
    """As after an upgrade of PostgreSQL, and after a dump was restored."""

    async def maintain() -> None:
        with trio.fail_after(HANGS_AFTER_S):
            async with open_postgres(large.url, serving=True) as store:
                await store.purge()

    def unknown() -> set[str]:
        with psycopg.connect(large.url) as connection:
            return {name for (name,) in connection.execute(_UNKNOWN)}

    assert large.large <= unknown()
    trio.run(maintain)
    assert not large.large & unknown()


def test_every_statement_finds_its_rows_by_an_index_and_at_once(
    large: LargeStore, server: PostgresProcess, databases: PostgresServer
) -> None:
    """All that the suite for stores sends, with the plans that it had."""
    server.forget_log()
    run_checks(FEW_ROWS, lambda: large.url, lambda _: large.reset())
    executed = list(filter(_is_ours, logged_statements(server)))
    assert len(executed) > 1_000, "the server logs plans"
    assert not {each.text for each in executed if each.is_compiled}
    faults = {
        (_one_line(each.text), fault) for each in executed for fault in _faults(each, large.large)
    }
    server.forget_log()
    run_checks(by_effort((), EVERY_CHECK), databases.migrated, databases.drop)
    everything = list(filter(_is_ours, logged_statements(server)))
    assert not {each.text for each in everything if each.is_compiled}
    unseen = sorted({each.text for each in everything} - {each.text for each in executed})
    faults |= {
        (_one_line(text), fault) for text in unseen for fault in _planned_faults(large, text)
    }
    assert not faults, "\n".join(f"{fault}: {text}" for text, fault in sorted(faults))
    print(
        f"{len({each.text for each in executed})} statements at {ROWS} payments, and "
        f"{len(unseen)} only planned"
    )


def _faults(statement: LoggedStatement, large: Set[str]) -> Iterator[str]:
    text = _one_line(statement.text)
    bound = max((bound for begin, bound in BOUNDED.items() if text.startswith(begin)), default=0)
    rows_max = max(ROWS_READ_MAX, bound)
    for read in statement.reads():
        if read.table in large and read.node == "Seq Scan":
            yield f"reads all of {read.table}"
        elif read.table in large and read.rows > rows_max:
            yield f"reads {read.rows:.0f} rows of {read.table} by {read.node}"
    units = bound + statement.rows
    if statement.blocks > BLOCKS_MAX + BLOCKS_MAX_OF_ROW * units:
        yield f"touches {statement.blocks} blocks for {statement.rows:.0f} rows"
    if statement.rows_handled > ROWS_HANDLED_MAX + ROWS_HANDLED_MAX_OF_ROW * units:
        yield f"handles {statement.rows_handled:.0f} rows for {statement.rows:.0f}"


def _planned_faults(large: LargeStore, text: str) -> Iterator[str]:
    """Plan a statement without its values."""
    with psycopg.connect(large.url) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute("SET jit = off")
        connection.execute(f"PREPARE planned AS {text}".encode(), prepare=False)
        count = len(set(re.findall(r"\$\d+", text)))
        values = f"({', '.join(['NULL'] * count)})" if count else ""
        explained = connection.execute(
            f"EXPLAIN (FORMAT JSON) EXECUTE planned{values}".encode(), prepare=False
        )
        [([plan],)] = explained.fetchall()
    for table in tables_read_whole(plan["Plan"]):
        if table in large.large:
            yield f"would read all of {table}"


CREATES = 2_000
AT_ONCE = 32
RATIO_MAX = 1.5
TURNS_MAX = 5
"""Both are measured one after the other, and again where another program may have disturbed one of
them."""
_RIVALS_FILL = f"""
    INSERT INTO transactions
    SELECT gen_random_uuid(), 'order-' || n, 'order-' || n, 'success', 'payin', 'direct',
        'mpesa_ke', 'KE', 150, 'KES',
        '{{"id": "customer-7", "msisdn": "254700000007"}}', '{{"shop": "Nairobi 3"}}', 'https://acme.example/result',
        to_timestamp(n), to_timestamp(n + 1)
    FROM generate_series(1, {ROWS}) AS n
"""
_SPENT = """
    SELECT coalesce(sum(total_exec_time), 0) * 1000 FROM pg_stat_statements
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def test_a_create_costs_the_server_hardly_more_than_a_statement_that_stores_one_row(
    large: LargeStore, server: PostgresProcess, databases: PostgresServer
) -> None:
    """Beside the statement of a service on FastAPI and asyncpg, each on a million rows: time within
    statements, of creates that come many at once."""
    rivals = databases.fresh()
    with psycopg.connect(rivals, autocommit=True) as connection:
        connection.execute((RIVALS / "schema.sql").read_text().encode())
        connection.execute(_RIVALS_FILL.encode())
        connection.execute("VACUUM ANALYZE")
        connection.execute("CREATE EXTENSION pg_stat_statements")
        connection.execute("ALTER SYSTEM SET auto_explain.log_min_duration = -1")
        connection.execute("SELECT pg_reload_conf()")
    large.analyze()
    ratios = list[float]()
    while min(ratios, default=math.inf) > RATIO_MAX and len(ratios) < TURNS_MAX:
        ours = _spent_per_create(large.url, partial(trio.run, _create, large.url, len(ratios)))
        theirs = _spent_per_create(rivals, partial(_create_at_rival, rivals))
        ratios.append(ours / theirs)
        print(
            f"a create: {ours:.0f} µs in our statements, {theirs:.0f} µs in the rival's: "
            f"{ratios[-1]:.2f} x"
        )
    assert min(ratios) <= RATIO_MAX, ratios


def _spent_per_create(url: str, create_all: Callable[[], None]) -> float:
    """Return the microseconds within statements for one of CREATES."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_statements_reset()")
        create_all()
        ((spent_us,),) = connection.execute(_SPENT).fetchall()
    return float(spent_us) / CREATES


async def _create(url: str, turn: int) -> None:
    numbers = iter(range(turn * CREATES, (turn + 1) * CREATES))

    async def create_some(engine: Engine) -> None:
        for number in numbers:
            assert isinstance(await engine.submit(creation(number)), Accepted)

    with trio.fail_after(HANGS_AFTER_S):
        async with open_postgres(url, serving=True) as store, trio.open_nursery() as serving:
            engine = Engine(store, GatewayClock(), Outbox())
            await serving.start(engine.run)
            async with trio.open_nursery() as nursery:
                for _ in range(AT_ONCE):
                    nursery.start_soon(create_some, engine)
            serving.cancel_scope.cancel()


def _create_at_rival(url: str) -> None:
    statement = re.sub(r"\$(\d+)", r"%(p\1)s", CREATE).encode()
    party, labels = '{"id": "customer-7", "msisdn": "254700000007"}', '{"shop": "Nairobi 3"}'
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(CREATES):
            about = uuid.uuid4()
            now = datetime.now(UTC)
            values = (
                about,
                f"{about}",
                f"{about}",
                "mobile_ke",
                "KE",
                150,
                "KES",
                party,
                labels,
                now,
                "https://acme.example",
            )
            numbered = {f"p{number}": value for number, value in enumerate(values, start=1)}
            connection.execute(statement, numbered, prepare=True)

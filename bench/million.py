"""Creates large tables of transactions once: the gateway's with its own serialization, the rivals'
in PostgreSQL."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio
from attrs import evolve, frozen

import mmo_trio
from bench import servers
from bench.servers import Database
from mmo_sansio.testing import START, a_transaction, numbered_reference
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.model import Party, Stage, Transaction
from mmo_trio.sandbox.demo_brand import DEMO_BRAND_ID
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sql.net_effect import NetEffect
from mmo_trio.storage.sqlite.connection import connect
from mmo_trio.storage.sqlite.statements import write_batch

READ_BYTES = 1 << 20
BATCH = 10_000
SAMPLE = 20_000
"""The number of references to look up."""
EVERY = clock.SECOND
"""The interval between two transactions."""


@frozen
class Ours:
    """Holds a sandbox's data folder with many transactions of the demo brand."""

    folder: Path
    references: Path


@frozen
class Theirs:
    """Holds the rivals' database with as many transactions."""

    database: Database
    dsn: str
    references: Path


def our_million(saved: Path, rows: int) -> Ours:
    """Return the gateway's table, created again when the code that writes rows has changed. The
    file is read once so that it is in the page cache."""
    folder = saved / f"ours-{rows}-{_fingerprint()}"
    references = folder / "references"
    if not references.exists():
        for outdated in saved.glob(f"ours-{rows}-*"):
            shutil.rmtree(outdated)
        folder.mkdir(parents=True)
        fill(folder, a_success(), rows)
        step = max(1, rows // SAMPLE)
        sample = (numbered_reference(number) for number in range(0, rows, step))
        references.write_text("".join(f"{each}\n" for each in sample))
    with (folder / "gateway.db").open("rb") as file:
        while file.read(READ_BYTES):
            pass
    return Ours(folder, references)


def a_success() -> Transaction:
    """Return a successful payment of the demo brand."""
    party = Party("customer-7", "254700000007")
    return a_transaction(
        Stage.SUCCEEDED,
        brand=DEMO_BRAND_ID,
        method="mpesa_ke",
        provider="sandbox",
        provider_title="Sandbox",
        party=party,
        labels='{"shop":"Nairobi 3"}',
        provider_reference="SBX-0123456789",
    )


def fill(folder: Path, like: Transaction, rows: int, *, begin: Instant = START) -> None:
    """Fill a store in this folder with copies of this transaction, at intervals of EVERY."""
    path = folder / "gateway.db"
    trio.run(_make_store, path)
    connection = connect(path)
    connection.execute("PRAGMA synchronous = OFF")  # Made anew if it breaks on the way.
    for first in range(0, rows, BATCH):
        batch = NetEffect()
        for number in range(first, min(first + BATCH, rows)):
            batch.created[numbered_reference(number)] = _numbered(
                like, number, later(begin, Span(number * EVERY))
            )
        connection.execute("BEGIN")
        write_batch(connection, batch, is_claimed=False)
        connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


async def _make_store(path: Path) -> None:
    async with open_store(f"sqlite:///{path}", serving=False):
        pass


def _numbered(like: Transaction, number: int, at: Instant) -> Transaction:
    order = evolve(
        like.order,
        gateway_reference=numbered_reference(number),
        merchant_reference=f"order-{number}",
        reconciliation_reference=f"order-{number}",
        created_at=at,
        expires_at=later(at, Span(3 * clock.DAY)),
    )
    completed_at = None if like.progress.completed_at is None else later(at, clock.SECOND)
    return Transaction(order, evolve(like.progress, completed_at=completed_at))


def _fingerprint() -> str:
    """Return a hash of the code that determines rows."""
    source = Path(mmo_trio.__file__).parent
    files = [*source.glob("storage/sql/*.py"), source / "storage/sqlite/statements.py"]
    files += [*source.glob("storage/schema/sqlite/*.sql"), Path(__file__)]
    files.append(source.parent / "mmo_sansio/api/outgoing.py")
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files)))
    return digest.hexdigest()[:12]


_FILL = """
insert into transactions
select gen_random_uuid(), 'order-' || n, 'order-' || n, 'success', 'payin', 'direct',
    'mpesa_ke', 'KE', 150.00, 'KES',
    '{{"id": "customer-7", "msisdn": "254700000007", "firstName": null, "lastName": null,'
    ' "email": null}}',
    '{{"shop": "Nairobi 3"}}', 'https://acme.example/result',
    to_timestamp({begin} + n), to_timestamp({begin} + n + 1)
from generate_series(0, {rows} - 1) as n;
analyze transactions
"""


@contextmanager
def their_million(saved: Path, rows: int) -> Iterator[Theirs]:
    """Run PostgreSQL with the rivals' table during the block; the rows stay."""
    saved.chmod(0o755)
    with servers.postgres(saved) as database:
        name, references = f"rows_{rows}", saved / f"theirs-{rows}"
        found = database.ask(database.uri, f"select 1 from pg_database where datname = '{name}'")
        if not found or not references.exists():
            references.unlink(missing_ok=True)
            dsn = database.fresh(name, servers.RIVALS / "schema.sql")
            database.ask(dsn, _FILL.format(begin=START // clock.SECOND, rows=rows))
            sample = database.ask(
                dsn,
                "select gateway_reference from transactions"
                f" where extract(epoch from created_at)::bigint % {max(1, rows // SAMPLE)} = 0",
            )
            references.write_text(sample)
        yield Theirs(database, database.beside(name), references)

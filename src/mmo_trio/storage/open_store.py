"""Opens the store that `database.url` names by its scheme."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

from mmo_trio.storage.interface.store import StoreUnavailable, StoreUnusable
from mmo_trio.storage.sql.schema import ReportMigration, report_nothing
from mmo_trio.storage.sql.store import Store

POSTGRES_SCHEMES: Final = ("postgresql", "postgres")

# The schemes that `database.url` may have.
STORE_SCHEMES: Final = ("sqlite", *POSTGRES_SCHEMES)


def url_scheme(url: str) -> str:
    """Return the scheme of a URL, in which `://` follows it."""
    return url.partition("://")[0]


def is_shared_store(url: str) -> bool:
    """Return whether several processes may serve from the store at the same time."""
    return url_scheme(url) in POSTGRES_SCHEMES


def sqlite_file(url: str) -> Path:
    """Return the file that the URL of a SQLite store names."""
    # Three slashes: what follows is the path, relative unless it begins with a fourth.
    return Path(url.removeprefix("sqlite:///"))


def open_store(
    url: str,
    *,
    serving: bool,
    create: bool = True,
    report_migration: ReportMigration = report_nothing,
) -> AbstractAsyncContextManager[Store]:
    """Return the store, for serving or for administration at the same time; without `create` it
    must exist.

    A store to serve from is made or migrated when it is entered; `report_migration` learns each
    step, maybe in another thread. Raises StoreUnusable for a scheme that no store has. Entering
    raises StoreUnusable when the store can't be used as it is, StoreUnavailable when it can't be
    reached; for a missing file, StoreUnavailable is raised at once."""
    scheme = url_scheme(url)
    if scheme not in STORE_SCHEMES:
        raise StoreUnusable(f"no kind of store has the scheme {scheme}")

    if scheme in POSTGRES_SCHEMES:
        # Imported here, as loading psycopg takes long.
        from mmo_trio.storage.postgres import open_postgres

        return open_postgres(url, serving=serving, create=create, report_migration=report_migration)

    from mmo_trio.storage.sqlite import open_sqlite

    file = sqlite_file(url)
    if not create and not file.exists():
        raise StoreUnavailable(
            f"there is no file {file}; `mmo sandbox` or `mmo db migrate` makes one"
        )

    if not file.parent.is_dir():
        raise StoreUnavailable(
            f"there is no folder {file.parent}; make it, or name the folder of a store"
        )

    return open_sqlite(file, serving=serving, report_migration=report_migration)


async def migrate_store(url: str, report: ReportMigration) -> None:
    """Make the store, or bring its schema to this version; `report` learns each step, maybe in
    another thread.

    Raises what opening the store to serve raises."""
    async with open_store(url, serving=True, report_migration=report):
        pass


async def distribute_store(url: str) -> None:
    """Migrate the store and distribute its tables over servers; do nothing where that is done.

    Raises StoreUnusable for a store whose tables can't be distributed, and what opening it to serve
    raises."""
    if url_scheme(url) not in POSTGRES_SCHEMES:
        raise StoreUnusable(
            "only tables in PostgreSQL with Citus can be distributed: look at database.url"
        )

    from mmo_trio.storage.postgres.startup import distribute_postgres

    await distribute_postgres(url)

"""Defines the kinds of store, and opens the store that `database.url` names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from attrs import frozen

from mmo_trio.storage.interface.store import Store, StoreUnavailable, StoreUnusable
from mmo_trio.storage.sql.schema import ReportMigration


class StoreOpener(Protocol):
    """Opens the store that a URL names."""

    def __call__(self, url: str, *, serving: bool, create: bool) -> AbstractAsyncContextManager[Store]:
        """Return the store for the one service (`serving`), or for administration at the same time.

        Without `create` the store must exist: entering raises StoreUnavailable otherwise. Entering raises StoreUnusable
        for a store that can't be opened as it is.
        """
        ...


@frozen
class StoreKind:
    """A kind of store is selected by the scheme of `database.url`."""

    open_url: StoreOpener
    is_shared: bool = False
    """Whether several processes may serve from one store at the same time."""
    distribute: Callable[[str], Awaitable[None]] | None = None
    """Migrates the store that a URL names and distributes its tables over servers; None where they can't be."""
    migrate: Callable[[str, ReportMigration], Awaitable[None]] | None = None
    """Makes the store that a URL names, or migrates it, and tells each step; None where opening it to serve is all."""
    origin: str = ""
    """The distribution that brings this kind; empty for a built-in one."""


def _open_sqlite(url: str, *, serving: bool, create: bool) -> AbstractAsyncContextManager[Store]:
    from mmo_trio.storage.sqlite import open_sqlite

    file = Path(url.removeprefix("sqlite:///"))
    if not create and not file.exists():
        raise StoreUnavailable(f"there is no file {file}; `mmo sandbox` or `mmo db migrate` makes one")
    return open_sqlite(file, serving=serving)


def _open_postgres(url: str, *, serving: bool, create: bool) -> AbstractAsyncContextManager[Store]:
    from mmo_trio.storage.postgres import open_postgres  # Loading psycopg takes long.

    return open_postgres(url, serving=serving, create=create)


async def _migrate_sqlite(url: str, report: ReportMigration) -> None:
    from mmo_trio.storage.sqlite import open_sqlite

    async with open_sqlite(Path(url.removeprefix("sqlite:///")), serving=True, report_migration=report):
        pass


async def _migrate_postgres(url: str, report: ReportMigration) -> None:
    from mmo_trio.storage.postgres import open_postgres

    async with open_postgres(url, serving=True, report_migration=report):
        pass


async def _distribute_postgres(url: str) -> None:
    from mmo_trio.storage.postgres.startup import distribute_postgres

    await distribute_postgres(url)


_POSTGRES: Final = StoreKind(_open_postgres, is_shared=True, distribute=_distribute_postgres, migrate=_migrate_postgres)
STORE_KINDS: Final[Mapping[str, StoreKind]] = MappingProxyType(
    {"sqlite": StoreKind(_open_sqlite, migrate=_migrate_sqlite), "postgresql": _POSTGRES, "postgres": _POSTGRES}
)
"""The built-in kinds, by URL scheme."""


def url_scheme(url: str) -> str:
    """Return the scheme of a URL, in which `://` follows it."""
    return url.partition("://")[0]


def open_store(
    url: str, *, serving: bool, create: bool = True, kinds: Mapping[str, StoreKind] = STORE_KINDS
) -> AbstractAsyncContextManager[Store]:
    """Return the store, for serving or for administration; without `create` it must exist.

    Raises what the kind's own opening does, and StoreUnusable for a scheme that no kind has.
    """
    scheme = url_scheme(url)
    if scheme not in kinds:
        raise StoreUnusable(f"no kind of store has the scheme {scheme}")
    return kinds[scheme].open_url(url, serving=serving, create=create)


async def migrate_store(url: str, report: ReportMigration, *, kinds: Mapping[str, StoreKind] = STORE_KINDS) -> None:
    """Make the store, or bring its schema to this version; `report` learns each step, maybe in another thread.

    Raises what opening the store to serve raises."""
    kind = kinds.get(url_scheme(url))
    if kind is None or kind.migrate is None:
        async with open_store(url, serving=True, kinds=kinds):
            return
    await kind.migrate(url, report)


async def distribute_store(url: str, *, kinds: Mapping[str, StoreKind] = STORE_KINDS) -> None:
    """Migrate the store and distribute its tables over servers; do nothing where that is done.

    Raises StoreUnusable for a kind whose tables can't be distributed, and what the kind itself raises.
    """
    kind = kinds.get(url_scheme(url))
    if kind is None or kind.distribute is None:
        raise StoreUnusable("only tables in PostgreSQL with Citus can be distributed: look at database.url")
    await kind.distribute(url)

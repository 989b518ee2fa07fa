"""Opening the store that `database.url` names."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mmo_trio.storage.interface.store import Store, StoreUnavailable
from mmo_trio.storage.sqlite import open_sqlite

SQLITE_URL_PREFIX = "sqlite:///"


def open_store(
    url: str, *, serving: bool, create: bool = True
) -> AbstractAsyncContextManager[Store]:
    """The store, for serving or for administration beside it; without `create` it must be there already.

    Raises what the store's own opening does, and StoreUnavailable for a SQLite file that isn't there.
    """
    if not url.startswith(SQLITE_URL_PREFIX):
        from mmo_trio.storage.postgres import open_postgres  # Only those who use it pay for it.

        return open_postgres(url, serving=serving, create=create)
    file = Path(url.removeprefix(SQLITE_URL_PREFIX))
    if not create and not file.exists():
        raise StoreUnavailable(
            f"there is no file {file}; `mmo sandbox` or `mmo db migrate` makes one"
        )
    return open_sqlite(file, serving=serving)

"""Opening the store that `database.url` names."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mmo_trio.storage.base import Store, StoreRefused, StoreUnavailable
from mmo_trio.storage.sqlite import open_sqlite

SQLITE = "sqlite:///"


def open_store(url: str, *, serving: bool, make: bool = True) -> AbstractAsyncContextManager[Store]:
    """The store, for serving or for administration beside it; without `make` it must be there already.

    Raises what the store's own opening does, and StoreUnavailable for a SQLite file that isn't there.
    """
    if not url.startswith(SQLITE):
        raise StoreRefused("PostgreSQL is not built yet: set database.url to a sqlite:/// file")
    file = Path(url.removeprefix(SQLITE))
    if not make and not file.exists():
        raise StoreUnavailable(
            f"there is no file {file}; `mmo sandbox` or `mmo db migrate` makes one"
        )
    return open_sqlite(file, serving=serving)

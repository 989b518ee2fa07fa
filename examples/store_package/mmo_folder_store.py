"""A store in a folder, which is made when it is first served: `url = "folder:///var/lib/mmo"`.

It wraps the embedded store. One of its own would implement `mmo_trio.storage.interface.store.Store`
and pass `mmo_trio.storage.conformance.check_store`.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mmo_trio.storage.interface.store import Store, StoreUnavailable
from mmo_trio.storage.open_store import StoreKind
from mmo_trio.storage.sqlite import open_sqlite


def open_folder(url: str, *, serving: bool, create: bool) -> AbstractAsyncContextManager[Store]:
    """Return the store in the folder that the URL names."""
    folder = Path(url.removeprefix("folder://"))
    if create:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    elif not folder.is_dir():
        raise StoreUnavailable(f"there is no folder {folder}; `mmo db migrate` makes one")
    return open_sqlite(folder / "payments.db", serving=serving)


FOLDER = StoreKind(open_folder, is_shared=False)

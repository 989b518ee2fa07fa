"""A store in a folder, which is made when it is first served: `url = "folder:///var/lib/mmo"`.

It wraps the embedded store. A store with its own database implements `mmo_trio.Store` and passes
`check_store` of `mmo_trio.storage.conformance`.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mmo_trio import Store, StoreKind, open_store


def open_folder(url: str, *, serving: bool, create: bool) -> AbstractAsyncContextManager[Store]:
    """Return the store in the folder that the URL names."""
    folder = Path(url.removeprefix("folder://"))
    if create:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return open_store(f"sqlite:///{folder}/payments.db", serving=serving, create=create)


FOLDER = StoreKind(open_folder, is_shared=False)

"""Provides the stores of the tests' gateways: `--store=sqlite` or `postgres`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import Factory, define

from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sql.store import Store

if TYPE_CHECKING:  # Its libraries change asyncio's event loop, which the browser's tests use.
    from tests.support.postgres_server import DatabaseServer


@define(eq=False)
class Storage:
    """Holds the store of the gateways in one directory; it outlives each of them."""

    url: str
    """The database URL."""

    @property
    def presets(self) -> dict[str, str]:
        """Settings for gateways in the directory."""
        return {"database.url": self.url}

    @property
    def environment(self) -> dict[str, str]:
        """What tells a command in a process of its own where the store is."""
        return {"MMO_DATABASE_URL": self.url}

    def open_for_admin(self) -> AbstractAsyncContextManager[Store]:
        """Open the store for administration, even while a gateway serves it."""
        return open_store(self.url, serving=False, create=False)


@define(eq=False)
class Storages:
    """The storages of this run, one for each directory."""

    postgres: DatabaseServer | None = None
    _known: dict[Path, Storage] = Factory(dict)

    def of(self, directory: Path) -> Storage:
        """The storage for gateways in this directory."""
        if directory not in self._known:
            self._known[directory] = Storage(self._url(directory))
        return self._known[directory]

    def remove(self, folder: Path = Path("/")) -> None:
        """Remove the stores of directories in this folder."""
        for directory in [each for each in self._known if each.is_relative_to(folder)]:
            url = self._known.pop(directory).url
            if self.postgres is not None:
                self.postgres.drop(url)

    def _url(self, directory: Path) -> str:
        if self.postgres is not None:
            return self.postgres.migrated()
        return f"sqlite:///{directory / 'gateway.db'}"


storages = Storages()
"""The stores of the test session; `conftest.py` chooses their kind."""

"""Provides the stores of the tests' gateways: `--store=sqlite`, `postgres` or `memory`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from attrs import Factory, define

from mmo_trio.storage.interface.store import Store
from mmo_trio.storage.memory.store import MemoryState, open_memory
from mmo_trio.storage.open_store import open_store

if TYPE_CHECKING:  # Its libraries change asyncio's event loop, which the browser's tests use.
    from tests.support.postgres_server import DatabaseServer


@define(eq=False)
class Storage:
    """Holds the store of the gateways in one directory; it outlives each of them."""

    url: str | None
    """The database URL; None for memory."""
    memory: MemoryState = Factory(MemoryState)
    served: list[Store] = Factory(list)
    """The store in memory that a gateway has open."""

    @property
    def presets(self) -> dict[str, str]:
        """Settings for gateways in the directory."""
        return {} if self.url is None else {"database.url": self.url}

    @property
    def environment(self) -> dict[str, str]:
        """What tells a command in a process of its own where the store is."""
        return {} if self.url is None else {"MMO_DATABASE_URL": self.url}

    @asynccontextmanager
    async def open_for_admin(self) -> AsyncIterator[Store]:
        """Open the store for administration, even while a gateway serves it."""
        if self.url is not None:
            async with open_store(self.url, serving=False, create=False) as store:
                yield store
        elif self.served:
            yield self.served[-1]
        else:
            async with open_memory(self.memory) as store:
                yield store

    @contextmanager
    def opened_by_service(self) -> Iterator[None]:
        """Within the block, a service that opens its store opens this one."""
        if self.url is not None:
            yield
            return
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mmo_trio.service.process.open_store", self._open)
            yield

    async def serve(self, service: Callable[[], Awaitable[None]]) -> None:
        """Run this service on it."""
        with self.opened_by_service():
            await service()

    def _open(self, url: str, **_: object) -> AbstractAsyncContextManager[Store]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Store]:
            async with open_memory(self.memory) as store:
                self.served.append(store)
                yield store
                self.served.remove(store)

        return opened()


@define(eq=False)
class Storages:
    """The storages of this run, one for each directory."""

    postgres: DatabaseServer | None = None
    is_memory: bool = False
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
            if self.postgres is not None and url is not None:
                self.postgres.drop(url)

    def _url(self, directory: Path) -> str | None:
        if self.postgres is not None:
            return self.postgres.migrated()
        return None if self.is_memory else f"sqlite:///{directory / 'gateway.db'}"


storages = Storages()
"""The stores of the test session; `conftest.py` chooses their kind."""

"""Limits how many pages of records are read at once, so that no merchant's pages take the memory or the readers of the
store from the others.

What the pages take after that, while a client reads them, is limited by the listener (`limits.write_buffer`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

import trio
from attrs import Factory, define

from mmo_sansio.messages.queries import RECORDS_BYTES_MAX
from mmo_sansio.values import problems
from mmo_sansio.values.problems import ProblemError

PAGE_MEMORY_BYTES: Final = 2 * RECORDS_BYTES_MAX
"""Bytes that a page takes while it is read: its objects, and the body into which they are joined."""
PAGES_MEMORY_BYTES: Final = 48 * 1024 * 1024
"""Bytes that all pages may take while they are read."""
PAGES_MAX: Final = PAGES_MEMORY_BYTES // PAGE_MEMORY_BYTES
"""Pages that are read at once; a store has more readers than that, for everything else."""
PAGES_PER_BRAND_MAX: Final = 2
WAIT_MAX_S: Final = 2.0
"""Seconds that a request waits for its turn before it is answered 503."""

_TOO_MANY_PAGES: Final = problems.UNAVAILABLE.problem(
    "Too many pages of records are being read. Send the same request again; ask for one page after the other."
)


@define(eq=False)
class RecordsLimit:
    """Gives each request for a page its turn, in the order of their arrival."""

    _pages: trio.Semaphore = Factory(lambda: trio.Semaphore(PAGES_MAX))
    _brands: WeakValueDictionary[str, trio.Semaphore] = Factory(WeakValueDictionary)
    """The turns of each brand that reads or waits."""

    @asynccontextmanager
    async def turn(self, brand: str) -> AsyncIterator[None]:
        """Wait for the turn of this brand and hold it within the block. Raises ProblemError (503) when that takes too
        long."""
        of_brand = self._brands.get(brand)
        if of_brand is None:
            of_brand = self._brands[brand] = trio.Semaphore(PAGES_PER_BRAND_MAX)
        deadline = trio.current_time() + WAIT_MAX_S
        await _acquire(of_brand, deadline)
        try:
            await _acquire(self._pages, deadline)
            try:
                yield
            finally:
                self._pages.release()
        finally:
            of_brand.release()


async def _acquire(semaphore: trio.Semaphore, deadline: float) -> None:
    try:
        semaphore.acquire_nowait()
    except trio.WouldBlock:
        with trio.move_on_at(deadline):
            await semaphore.acquire()
            return
        raise ProblemError(_TOO_MANY_PAGES) from None

"""Limits what the requests of one brand take from the others: requests a second, and pages of
records that are read at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages.queries import RECORDS_BYTES_MAX
from mmo_sansio.resilience.token_bucket import TokenBucket
from mmo_sansio.values import problems
from mmo_sansio.values.clock import SECOND, MonotonicInstant, Span, later
from mmo_sansio.values.model import Brand
from mmo_sansio.values.problems import TOO_MANY_REQUESTS, ProblemError
from mmo_trio.storage.interface.store import log_store_failure
from mmo_trio.storage.sql.store import Store

logger = structlog.get_logger(__name__)

# How long a process goes on with the number of processes that it read last.
# Processes come and go rarely, and a few seconds above the rate harm nobody.
COUNT_TTL = Span(5 * SECOND)

# Bytes that a page takes while it is read: its objects, and the body into which they are joined.
PAGE_MEMORY_BYTES: Final = 2 * RECORDS_BYTES_MAX

# Bytes that all pages may take while they are read.
PAGES_MEMORY_BYTES: Final = 48 * 1024 * 1024

# Pages that are read at once; a store has more readers than that, for everything else.
PAGES_MAX: Final = PAGES_MEMORY_BYTES // PAGE_MEMORY_BYTES

# So that one brand leaves places to the others.
PAGES_PER_BRAND_MAX: Final = 2

# Seconds that a request waits for its turn before it is answered 503.
WAIT_MAX_S: Final = 2.0

_TOO_MANY_PAGES: Final = problems.UNAVAILABLE.problem(
    "Too many pages of records are being read. Send the same request again; ask for one page "
    "after the other."
)


@define(eq=False)
class RequestRates:
    """Limits how many requests a second each brand may send to all processes of a gateway together.

    Each process grants an equal share of a brand's rate, because requests are spread over the
    processes and a round trip to the store for each would cost more than most requests do. How many
    processes are alive is read from the store at most every COUNT_TTL while limited brands send
    requests; a store that one process has to itself is not asked."""

    store: Store
    monotonic: Callable[[], MonotonicInstant]
    _buckets: dict[str, TokenBucket] = Factory(dict)
    _payee_buckets: dict[str, TokenBucket] = Factory(dict)
    _processes: int = 1
    _counted_until: MonotonicInstant = MonotonicInstant(0)

    async def check(self, brand: Brand) -> None:
        """Return when the brand may send this request; raise ProblemError when its rate is
        exceeded."""
        rate = brand.limits.requests_per_second
        if rate is None:
            return
        burst = brand.limits.requests_burst or rate
        limit = f"The limit is {rate} requests a second."
        await self._take(self._buckets, brand.id, rate, burst, limit)

    async def check_payees(self, brand: Brand, per_minute: int) -> None:
        """Return when the brand may ask about a payee; raise ProblemError when it has asked too
        often. A tenth of a minute's questions may be asked at once."""
        limit = f"The limit is {per_minute} questions about payees a minute."
        await self._take(self._payee_buckets, brand.id, per_minute / 60, per_minute / 10, limit)

    async def _take(
        self, buckets: dict[str, TokenBucket], brand: str, rate: float, burst: float, limit: str
    ) -> None:
        now = self.monotonic()
        if now >= self._counted_until:
            self._counted_until = later(now, COUNT_TTL)
            await self._count_processes()

        # Brands are few, and known to the store: nothing has to be forgotten.
        bucket = buckets.setdefault(brand, TokenBucket(rate, burst))

        # They may have changed since the last request.
        bucket.per_second = rate / self._processes
        bucket.burst = max(1, round(burst / self._processes))
        if wait := bucket.take(now):
            detail = f"{limit} Send the request again after a moment."
            problem = TOO_MANY_REQUESTS.problem(detail, retry_after_s=-(-wait // SECOND))
            raise ProblemError(problem)

    async def _count_processes(self) -> None:
        if self.store.ownership is None:
            return
        try:
            self._processes = max(1, (await self.store.ownership.counts()).alive)
        except Exception as error:  # The number that was read last goes on to count.
            log_store_failure(logger, "process_count_failed", error)


@define(eq=False)
class RecordsLimit:
    """Gives each request for a page of records its turn, in the order of their arrival, so that no
    merchant's pages take the memory or the readers of the store from the others.

    What the pages take after that, while a client reads them, is limited by the listener
    (`limits.write_buffer`)."""

    _pages: trio.Semaphore = Factory(lambda: trio.Semaphore(PAGES_MAX))
    _brands: WeakValueDictionary[str, trio.Semaphore] = Factory(WeakValueDictionary)
    """The turns of each brand that reads or waits."""

    @asynccontextmanager
    async def turn(self, brand: str) -> AsyncIterator[None]:
        """Wait for the turn of this brand and hold it within the block. Raises ProblemError (503)
        when that takes too long."""
        # The brand's turn first, or its waiting requests would hold the places of others.
        of_brand = self._brands.get(brand)
        if of_brand is None:
            of_brand = self._brands[brand] = trio.Semaphore(PAGES_PER_BRAND_MAX)
        deadline = trio.current_time() + WAIT_MAX_S
        async with _held(of_brand, deadline), _held(self._pages, deadline):
            yield


@asynccontextmanager
async def _held(semaphore: trio.Semaphore, deadline: float) -> AsyncIterator[None]:
    try:
        # Without a scope, as nearly always there is room.
        semaphore.acquire_nowait()
    except trio.WouldBlock:
        with trio.move_on_at(deadline) as limit:
            await semaphore.acquire()
        if limit.cancelled_caught:
            raise ProblemError(_TOO_MANY_PAGES) from None

    try:
        yield
    finally:
        semaphore.release()

"""Limits how many requests a second each brand may send to all processes of a gateway together.

Each process grants an equal share of a brand's rate, because requests are spread over the processes and a round trip to
the store for each would cost more than most requests do. How many processes are alive is read from the store at most
every COUNT_TTL while limited brands send requests; a store that one process has to itself is not asked.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
from attrs import Factory, define

from mmo_sansio.resilience.rate_limit import TokenBucket
from mmo_sansio.values.clock import SECOND, MonotonicInstant, Span, later
from mmo_sansio.values.model import Brand
from mmo_sansio.values.problems import TOO_MANY_REQUESTS, ProblemError
from mmo_trio.storage.interface.failures import log_store_failure
from mmo_trio.storage.interface.store import Store

logger = structlog.get_logger(__name__)

COUNT_TTL = Span(5 * SECOND)
"""How long a process goes on with the number of processes that it read last."""


@define(eq=False)
class RequestRates:
    """Holds a bucket of tokens for each brand with a rate that has sent requests to this process."""

    store: Store
    monotonic: Callable[[], MonotonicInstant]
    _buckets: dict[str, TokenBucket] = Factory(dict)
    _processes: int = 1
    _counted_until: MonotonicInstant = MonotonicInstant(0)

    async def check(self, brand: Brand) -> None:
        """Return when the brand may send this request; raise ProblemError when its rate is exceeded."""
        rate = brand.limits.requests_per_second
        if rate is None:
            return
        now = self.monotonic()
        if now >= self._counted_until:
            self._counted_until = later(now, COUNT_TTL)
            await self._count_processes()
        bucket = self._buckets.setdefault(brand.id, TokenBucket())
        burst = max(1, round((brand.limits.requests_burst or rate) / self._processes))
        if wait := bucket.take(now, per_second=rate / self._processes, burst=burst):
            raise ProblemError(
                TOO_MANY_REQUESTS.problem(
                    f"The limit is {rate} requests a second. Send the request again after a moment.",
                    retry_after_s=-(-wait // SECOND),
                )
            )

    async def _count_processes(self) -> None:
        if self.store.ownership is None:
            return
        try:
            self._processes = max(1, (await self.store.ownership.counts()).alive)
        except Exception as error:  # The number that was read last goes on to count.
            log_store_failure(logger, "process_count_failed", error)

"""Records requests that limits or flows refused, so that a changed configuration can be tested on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.payments.brand_changes import RefusedRequest, refused_request
from mmo_sansio.values.clock import DAY, Instant
from mmo_sansio.values.problems import Problem
from mmo_trio.storage.interface.admin_types import BrandDay
from mmo_trio.storage.interface.store import log_store_failure
from mmo_trio.storage.sql.admin_store import AdminStore

logger = structlog.get_logger(__name__)

INTERVAL_S = 5.0
"""Seconds between two writes: who sends refused requests does not make the store write for each."""
WAITING_MAX = 1_000
"""Refused requests that wait for the next write; further ones are only counted."""
LAST_WRITE_TIMEOUT_S = 2.0
"""Seconds that the last write may take when the process ends."""


@define(eq=False)
class RefusalRecorder:
    """Collects refused requests in memory, and writes them together; what a failing store does not take is dropped."""

    store: AdminStore
    now: Callable[[], Instant]
    """Returns wall time."""
    _waiting: list[RefusedRequest] = Factory(list)
    _times: Counter[BrandDay] = Factory(Counter)
    _arrived: trio.Event = Factory(trio.Event)

    def note(self, input_: CreatePayment, problem: Problem) -> None:
        """Keep a refused request for the next write, if other limits or flows would have accepted it."""
        refused = refused_request(input_, problem, now=self.now())
        if refused is None:
            return
        self._times[BrandDay(refused.brand, refused.request.created_at // DAY)] += 1
        if len(self._waiting) < WAITING_MAX:
            self._waiting.append(refused)
        self._arrived.set()

    async def run(self) -> None:
        """Write what has come, some seconds after the first of it, until cancelled."""
        while True:
            await self._arrived.wait()
            await trio.sleep(INTERVAL_S)
            await self.write()

    async def write_last(self) -> None:
        """Write what is left, as the process ends."""
        with trio.move_on_after(LAST_WRITE_TIMEOUT_S):
            await self.write()

    async def write(self) -> None:
        """Write what has come since the last time."""
        if not self._times:
            return
        times, refused = self._times, self._waiting
        self._times, self._waiting, self._arrived = Counter(), [], trio.Event()
        try:
            await self.store.record_refusals(times, refused, now=self.now())
        except Exception as error:
            log_store_failure(logger, "refusals_not_recorded", error, refused=times.total())

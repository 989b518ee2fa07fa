"""Answers whether this process can take payments, for a load balancer that asks often and without a key."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Final

import trio
from attrs import Factory, define

from mmo_trio.engine.engine import EngineStatistics
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreCorrupt, StoreUnavailable, StoreUnusable
from mmo_trio.storage.sql.store import Store

ANSWER_TTL_S: Final = 1.0
"""Seconds for which an answer holds: the store is asked at most so often, however many ask here."""
FAILURE_TTL_S: Final = 5.0
"""Seconds for which a failed commit counts while no other succeeds. A full disk or a quota is not always seen before
the next write."""


@define(eq=False)
class Readiness:
    """Knows whether the store can be reached and written to, and whether this process has its master keys; finding that
    out writes nothing."""

    store: Store
    engine: EngineStatistics
    find_key_fault: Callable[[], Awaitable[str | None]]
    """Returns why this process lacks a master key of the store; None when it has all of them. May raise
    StoreUnavailable."""
    find_clock_fault: Callable[[], str | None] = lambda: None
    """Returns why this machine's clock forbids to take payments; None when it does not."""
    _error: str | None = None
    _expires_at: float = -math.inf
    _lock: trio.Lock = Factory(trio.Lock)
    """Held while the store is asked, so that all who ask meanwhile share the answer."""

    async def require_ready(self) -> None:
        """Return when this process is ready. Raises StoreUnavailable."""
        error = self._recent_failure() or self.find_clock_fault()
        if error is None:
            async with self._lock:
                if trio.current_time() >= self._expires_at:
                    self._expires_at = trio.current_time() + ANSWER_TTL_S
                    self._error = await self._find_error()
                error = self._error
        if error is not None:
            raise StoreUnavailable(error)

    def _recent_failure(self) -> str | None:
        failed_at = self.engine.last_failure_at
        if failed_at > self.engine.last_commit_at and trio.current_time() < failed_at + FAILURE_TTL_S:
            return "the last commit failed"
        return None

    async def _find_error(self) -> str | None:
        """Return why the store cannot be used now. While commits succeed, a store that is too busy to answer can be
        used."""
        try:
            await self.store.check()  # First, as it answers soon when the store is gone.
            return await self.find_key_fault()
        except (StoreUnavailable, OutcomeUnknown, StoreCorrupt, StoreUnusable) as error:
            is_committing = trio.current_time() < self.engine.last_commit_at + ANSWER_TTL_S
            return None if is_committing else str(error)

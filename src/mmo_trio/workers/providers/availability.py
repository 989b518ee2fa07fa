"""Tells which providers a user has closed for new payments; every process reads it from the store."""

from __future__ import annotations

import structlog
import trio
from attrs import define

from mmo_trio.storage.interface.failures import log_store_failure
from mmo_trio.storage.interface.store import Store

logger = structlog.get_logger(__name__)

REFRESH_INTERVAL_S = 2.0
"""Seconds for which a process may go on submitting after `mmo providers disable`."""


@define(eq=False)
class ProviderAvailability:
    """Holds the closed providers as last read from the store."""

    store: Store
    _closed_providers: frozenset[str] = frozenset()

    def is_closed(self, provider: str) -> bool:
        """Tell whether this provider accepts no new payments."""
        return provider in self._closed_providers

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read repeatedly until cancelled; the first read precedes `started`. When a read fails, the last result
        stays in force."""
        await self._refresh()
        task_status.started()
        while True:
            await trio.sleep(REFRESH_INTERVAL_S)
            await self._refresh()

    async def _refresh(self) -> None:
        try:
            closed = frozenset(each.name for each in await self.store.admin.closed_providers())
        except Exception as error:
            log_store_failure(logger, "provider_availability_stale", error)
            return
        for name in closed ^ self._closed_providers:
            logger.info("provider_closed" if name in closed else "provider_opened", provider=name)
        self._closed_providers = closed

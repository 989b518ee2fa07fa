"""Reads once a second whether brands, keys or closed providers have changed, and records that this
process knows it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import structlog
import trio
from attrs import define, field

from mmo_sansio.values.clock import SECOND, MonotonicInstant, Span, later
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.storage.interface.store import log_store_failure
from mmo_trio.storage.sql.store import Store

logger = structlog.get_logger(__name__)

# Seconds for which a process may go on with what staff have changed.
REFRESH_INTERVAL_S = 1.0

# How long what is kept in memory is used without another read: less than the lease lasts of a
# process that is stopped, so that it has nothing of before in use when commands no longer wait for
# it.
TRUSTED_FOR = Span(5 * SECOND)


@define(eq=False)
class ConfigurationWatch:
    """Keeps what this process knows of the configuration in step with the store."""

    store: Store
    known: KnownConfiguration
    monotonic: Callable[[], MonotonicInstant]
    _process: str = field(
        factory=lambda: f"process {os.getpid()} on {socket.gethostname()}", init=False
    )
    """The name under which staff see this process."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read repeatedly until cancelled; the first read precedes `started`. When reads fail, the
        closed providers of the last one stay closed."""
        await self._refresh()
        task_status.started()
        while True:
            await trio.sleep(REFRESH_INTERVAL_S)
            await self._refresh()

    async def _refresh(self) -> None:
        # Trusted from before the read: what was changed while it lasted may not be in it.
        began_at = self.monotonic()
        try:
            found = await self.store.configuration()
            if self.known.brand_by_host is None or found.generation != self.known.generation:
                # For all requests at once: each of them would else read it.
                self.known.brand_by_host = await self.store.brand_by_host()

            for name in found.closed_providers - self.known.closed_providers:
                logger.info("provider_closed", provider=name)

            for name in self.known.closed_providers - found.closed_providers:
                logger.info("provider_opened", provider=name)

            # No checkpoint in between: a request sees the old or the new, not some of both.
            self.known.closed_providers = found.closed_providers
            self.known.restored_brands = found.restored_brands
            self.known.generation = found.generation
            self.known.trusted_until = later(began_at, TRUSTED_FOR)

            # Whoever has changed it waits until each process has said so.
            await self.store.use_configuration(found.generation, process=self._process)
        except Exception as error:
            log_store_failure(logger, "configuration_stale", error)

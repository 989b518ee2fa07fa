"""Logs the end of the audit log every hour, so that a log whose end was cut off or rewritten is noticed."""

from __future__ import annotations

import structlog
import trio
from attrs import define

from mmo_trio.admin.auditing import AuditLog
from mmo_trio.storage.interface.admin_types import AuditHead
from mmo_trio.storage.interface.audit_chain import EMPTY_HEAD
from mmo_trio.storage.interface.store import log_store_failure

logger = structlog.get_logger(__name__)

INTERVAL_S = 3600.0
TIMEOUT_S = 5.0
"""Seconds that the store may take when the process ends."""


@define(eq=False)
class AuditHeadLogger:
    """Writes `audit_head` to the log: the line that `mmo audit verify --seen` takes."""

    audit_log: AuditLog
    _logged: AuditHead = EMPTY_HEAD
    """The end that was logged last."""

    async def run(self) -> None:
        """Log the end now and every hour until cancelled."""
        while True:
            await self.log_head()
            await trio.sleep(INTERVAL_S)

    async def log_last_head(self) -> None:
        """Log the end once more, as the process ends."""
        with trio.move_on_after(TIMEOUT_S):
            await self.log_head()

    async def log_head(self) -> None:
        """Log the end, and an error if the log no longer holds the end that was logged before."""
        store, logged = self.audit_log.store, self._logged
        try:
            if logged != EMPTY_HEAD:
                rows = await store.audit_after(logged.number - 1, limit=1)
                if [AuditHead(each.number, each.hash) for each in rows] != [logged]:
                    logger.error("audit_log_changed", seen=f"{logged.number}:{logged.hash}")
            self._logged = head = await store.audit_head()
        except Exception as error:
            log_store_failure(logger, "audit_head_unavailable", error)
        else:
            logger.info("audit_head", end=f"{head.number}:{head.hash}")

"""Logs the failures of tasks that use the store again and again.

One rule holds for all of them: whatever the store raises, a round fails, is logged and is repeated later, and the
process goes on with its other work. Only a process that has not begun to serve ends on an error of the store.
"""

from __future__ import annotations

from typing import Any

from mmo_trio.storage.interface.store import OutcomeUnknown, StoreCorrupt, StoreLost, StoreUnavailable, StoreUnusable
from mmo_trio.system.fault_report import describe_fault


def log_store_failure(logger: Any, event: str, error: Exception, **details: object) -> None:
    """Log why a round of a periodic task failed: once a second while the store can't serve, once a minute where
    somebody has to repair something, as of a right that the database user lacks, and where the fault is ours. A store
    that is lost has said so itself."""
    match error:
        case StoreLost():
            pass
        case StoreUnavailable() | OutcomeUnknown():
            logger.warning(event, error=str(error), once_a_second=True, **details)
        case StoreUnusable() | StoreCorrupt():
            logger.error(event, error=str(error), once_a_minute=True, **details)
        case _:
            logger.error(event, fault=describe_fault(error), once_a_minute=True, **details)

"""Asking a store until it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog
import trio

from mmo_trio.storage.base import OutcomeUnknown, StoreUnavailable

logger = structlog.get_logger(__name__)

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
"""Between two questions to a store that isn't available; the pause doubles from the first on."""

Answer = TypeVar("Answer")


async def insist(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer of a store that may be unavailable for a while."""
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await ask()
        except (StoreUnavailable, OutcomeUnknown) as error:
            logger.warning("store unavailable to deliveries", error=str(error), pause_s=pause_s)
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

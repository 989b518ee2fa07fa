"""Bounds the bytes of responses that wait for clients who do not read, and of large bodies that arrive slowly.

Each listener has a budget of its own, so that slow readers of the pages take nothing from the merchants. Nobody waits
for room: beyond the budget the address that holds most of it loses the response or request that it has held longest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog
import trio
from attrs import define, field

from mmo_trio.system.log_limit import LogRateLimit

logger = structlog.get_logger(__name__)

SMALL_RESPONSE_BYTES: Final = 16 * 1024
"""Responses up to this size are neither counted nor broken off; the number of connections bounds them."""

LINES_PER_SECOND: Final = 1.0
"""Log lines about responses that were broken off."""


@define(eq=False)
class _WaitingResponse:
    """A response of which the client has not read everything."""

    size_bytes: int
    holder: str
    break_off: Callable[[], None]


@define(eq=False)
class WriteBudget:
    """Counts the bytes that wait to be written on one listener, and breaks off responses beyond its limit."""

    limit_bytes: int
    waiting_bytes: int = field(default=0, init=False)
    _log: LogRateLimit = field(factory=lambda: LogRateLimit(LINES_PER_SECOND, 1), init=False)
    _waiting: dict[str, dict[_WaitingResponse, None]] = field(factory=dict, init=False)
    """The responses of each holder, the oldest first."""

    @contextmanager
    def hold(self, size_bytes: int, holder: str, break_off: Callable[[], None]) -> Iterator[None]:
        """Count so many bytes while the block writes them.

        `holder` is the network of the client (`subscriber_network`). `break_off` is called at most once, when this
        response has to make room for others; it must end the block soon. A response that is larger than the whole
        budget is broken off at once only if others wait as well."""
        waiting = _WaitingResponse(size_bytes, holder, break_off)
        self._waiting.setdefault(holder, {})[waiting] = None
        self.waiting_bytes += size_bytes
        try:
            while self.waiting_bytes > self.limit_bytes and self.waiting_bytes > size_bytes:
                self._break_one_off()
            yield
        finally:
            self._release(waiting)

    def _break_one_off(self) -> None:
        largest = max(self._waiting.values(), key=lambda responses: sum(each.size_bytes for each in responses))
        oldest = next(iter(largest))
        self._release(oldest)
        if (suppressed := self._log.acquire(trio.current_time())) is not None:
            logger.warning("response_broken_off", waiting_bytes=self.waiting_bytes, suppressed=suppressed)
        oldest.break_off()

    def _release(self, waiting: _WaitingResponse) -> None:
        """Stop counting a response; a second call does nothing."""
        responses = self._waiting.get(waiting.holder, {})
        if waiting in responses:
            del responses[waiting]
            self.waiting_bytes -= waiting.size_bytes
            if not responses:
                del self._waiting[waiting.holder]

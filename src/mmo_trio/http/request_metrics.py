"""What went through a door: counts and times for the figures, and a line in the log for what was refused.

A line names the request, the route, the brand and the cause. It never holds a path, a value or a word of the client's:
references and names are the merchant's own."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import Final

import trio
from attrs import Factory, define

from mmo_sansio.values.problems import INTERNAL, UNAVAILABLE, Problem
from mmo_trio.http.handler import RequestContext
from mmo_trio.system.latency import LatencyHistogram

logger = logging.getLogger(__name__)

LINES_PER_SECOND: Final = 20.0
LINES_BURST: Final = 100
"""So many refusals are told one by one; of a flood only how many there were."""
FIELDS_MAX: Final = 10
"""Fields at fault that a line names."""


@define(eq=False)
class LogRateLimit:
    """Lets so many lines through in a second, and counts those that it doesn't."""

    per_second: float = LINES_PER_SECOND
    burst: int = LINES_BURST
    tokens: float = LINES_BURST
    _updated_at: float = 0.0
    _suppressed: int = 0

    def acquire(self, now: float) -> int | None:
        """Leave to write one line at this moment, in seconds: how many were left out before it. None: no leave."""
        self.tokens = min(self.burst, self.tokens + (now - self._updated_at) * self.per_second)
        self._updated_at = now
        if self.tokens < 1:
            self._suppressed += 1
            return None
        self.tokens -= 1
        untold, self._suppressed = self._suppressed, 0
        return untold


@define(eq=False)
class HttpMetrics:
    """The requests of one process, whichever door they came through."""

    log_refusals: bool = True
    """Whether refusals are logged; faults of ours always are."""
    requests: defaultdict[tuple[str, int], int] = Factory(lambda: defaultdict(int))
    """By route and the first digit of the status; both are bounded."""
    problems: defaultdict[str, int] = Factory(lambda: defaultdict(int))
    """Refusals by the code of their cause, which is one of the catalogue's."""
    durations: defaultdict[str, LatencyHistogram] = Factory(lambda: defaultdict(LatencyHistogram))
    """From the first byte of a request to its answer, by route."""
    _log_limit: LogRateLimit = Factory(LogRateLimit)
    _fault_log_limit: LogRateLimit = Factory(LogRateLimit)

    def count_response(self, context: RequestContext, status: int, duration_s: float) -> None:
        """Count a request that was answered after so many seconds."""
        self.requests[context.route, status // 100] += 1
        self.durations[context.route].observe(duration_s)

    def count_problem(
        self, context: RequestContext, problem: Problem, fault: str | None = None
    ) -> None:
        """Count and tell a request that was refused; `fault` says what failed on our side, without values (P3)."""
        self.problems[problem.segment] += 1
        is_ours = problem.status == INTERNAL.status
        if not (self.log_refusals or is_ours):
            return
        budget = self._fault_log_limit if is_ours else self._log_limit
        untold = budget.acquire(trio.current_time())
        if untold is None:
            return
        told: dict[str, object] = {
            "request_id": context.request_id,
            "route": context.route,
            "status": problem.status,
            "problem": problem.segment,
        }
        if context.brand is not None:
            told["brand"] = context.brand
        if problem.errors:
            told["fields"] = _field_names(problem)
        if untold:
            told["untold"] = untold
        if is_ours:
            told["fault"] = fault or problem.segment
            # The message says it all for those who keep no further fields.
            logger.error("request_failed %s: %s", context.request_id, told["fault"], extra=told)
        else:
            level = logging.WARNING if problem.status == UNAVAILABLE.status else logging.INFO
            logger.log(level, "request_rejected", extra=told)


def _field_names(problem: Problem) -> list[str]:
    """Of the fields at fault, the names that are ours: what follows `labels.` is the merchant's."""
    names = (
        "labels" if each.field.startswith("labels.") else each.field for each in problem.errors
    )
    return list(dict.fromkeys(names))[:FIELDS_MAX]

"""Counts and times requests for the metrics, and writes a log line for each rejected one.

A line names the request, the route, the brand and the cause. It never holds a path, a value or a
text of the client: references and names are the merchant's own."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.values.problems import INTERNAL, UNAVAILABLE, Problem
from mmo_trio.http.handler import RequestContext
from mmo_trio.system.latency import LatencyHistogram
from mmo_trio.system.logs import LogRateLimit

logger = structlog.get_logger(__name__)

LINES_PER_SECOND: Final = 20.0

# Lines for single rejections; of a flood only the number is logged. While the store fails every
# request may be rejected, which is worth one line a second.
LINES_BURST: Final = 100

# Invalid fields that a line names.
FIELDS_MAX: Final = 10


@define(eq=False)
class HttpMetrics:
    """Counts the requests of one process over all its listeners."""

    log_rejections: bool = True
    """Whether rejections are logged; internal errors always are."""
    requests: defaultdict[tuple[str, int], int] = Factory(lambda: defaultdict(int))
    """Requests by route and first digit of the status; both are bounded."""
    problems: defaultdict[str, int] = Factory(lambda: defaultdict(int))
    """Rejections by the code of their problem type."""
    durations: defaultdict[str, LatencyHistogram] = Factory(lambda: defaultdict(LatencyHistogram))
    """Time from the first byte of a request to its response, by route."""
    _log_limit: LogRateLimit = Factory(lambda: LogRateLimit(LINES_PER_SECOND, LINES_BURST))
    _fault_log_limit: LogRateLimit = Factory(lambda: LogRateLimit(LINES_PER_SECOND, LINES_BURST))
    _unavailable_log_limit: LogRateLimit = Factory(lambda: LogRateLimit(per_second=1, burst=1))

    def count_response(self, context: RequestContext, status: int, duration_s: float) -> None:
        """Count a request that was answered after `duration_s` seconds."""
        self.requests[context.route, status // 100] += 1
        self.durations[context.route].observe(duration_s)

    def count_problem(
        self, context: RequestContext, problem: Problem, fault: str | None = None
    ) -> None:
        """Count and log a rejected request; `fault` describes an internal error, without values
        (P3)."""
        self.problems[problem.segment] += 1

        # 1. Count it always.
        is_ours = problem.status == INTERNAL.status
        if not (self.log_rejections or is_ours):
            return

        # 2. Limits apart: a flood of rejections must not hide an error of this program.
        limit = self._fault_log_limit if is_ours else self._log_limit
        if problem.status == UNAVAILABLE.status:
            limit = self._unavailable_log_limit

        suppressed = limit.acquire(trio.current_time())
        if suppressed is None:
            return

        # 3. The line: names and codes, nothing that the client wrote.
        fields: dict[str, object] = {
            "request_id": context.request_id,
            "route": context.route,
            "status": problem.status,
            "problem": problem.segment,
        }
        if context.brand is not None:
            fields["brand"] = context.brand

        if problem.errors:
            fields["fields"] = _field_names(problem)

        if suppressed:
            fields["suppressed"] = suppressed

        if is_ours:
            logger.error("request_failed", **fields, fault=fault or problem.segment)
        elif problem.status == UNAVAILABLE.status:
            logger.warning("request_rejected", **fields)
        else:
            logger.info("request_rejected", **fields)


def _field_names(problem: Problem) -> list[str]:
    """Return the names of the invalid fields, without the merchant's own text after `labels.`."""
    names = (
        "labels" if error.field.startswith("labels.") else error.field for error in problem.errors
    )
    return list(dict.fromkeys(names))[:FIELDS_MAX]

"""What a door says by itself, whichever door it is: requests that come late or too large, and
faults of ours."""

from __future__ import annotations

from typing import Final

from mmo_sansio.values.problems import (
    BODY_TOO_LARGE,
    INTERNAL,
    REQUEST_TIMEOUT,
    Problem,
    ProblemError,
)
from mmo_trio.http.handler import RequestContext
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.system.fault_report import describe_fault

HEAD_TIMEOUT: Final = REQUEST_TIMEOUT.problem("The head of the request did not arrive in time.")
BODY_TIMEOUT: Final = REQUEST_TIMEOUT.problem("The body of the request did not arrive in time.")
INTERNAL_ERROR: Final = INTERNAL.problem(
    "Something went wrong here; the request id says where to look."
)


def body_too_large(limit: int) -> ProblemError:
    """The refusal of a body of more than `limit` bytes (G7)."""
    return ProblemError(BODY_TOO_LARGE.problem(f"The body is larger than {limit} bytes."))


def to_problem(error: Exception, context: RequestContext, metrics: HttpMetrics) -> Problem:
    """The problem of a refusal; anything else goes into the log without its values, and the client
    learns no more than where to ask (P3)."""
    if isinstance(error, ProblemError):
        metrics.count_problem(context, error.problem)
        return error.problem
    metrics.count_problem(context, INTERNAL_ERROR, describe_fault(error))
    return INTERNAL_ERROR

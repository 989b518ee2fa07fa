"""Defines the rejections that listeners make themselves: late or large requests and faults."""

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
    """Return the error for a body of more than `limit` bytes (G7)."""
    return ProblemError(BODY_TOO_LARGE.problem(f"The body is larger than {limit} bytes."))


def to_problem(error: Exception, context: RequestContext, metrics: HttpMetrics) -> Problem:
    """Return the problem of a rejection, or of an internal error, and count and log it.

    An internal error is logged without its values, and the client learns only the request id (P3).
    """
    if isinstance(error, ProblemError):
        metrics.count_problem(context, error.problem)
        return error.problem
    metrics.count_problem(context, INTERNAL_ERROR, describe_fault(error))
    return INTERNAL_ERROR

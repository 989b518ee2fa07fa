"""Answers the rejections that every listener makes itself: late or large requests and faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from mmo_sansio.api.outgoing.problem_json import problem_response
from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.values.problems import BODY_TOO_LARGE, INTERNAL, REQUEST_TIMEOUT, Problem, ProblemError
from mmo_trio.http.handler import Handler, RequestContext
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.system.fault_report import describe_fault

HEAD_TIMEOUT: Final = REQUEST_TIMEOUT.problem("The head of the request did not arrive in time.")
BODY_TIMEOUT: Final = REQUEST_TIMEOUT.problem("The body of the request did not arrive in time.")
INTERNAL_ERROR: Final = INTERNAL.problem("Something went wrong here; the request id says where to look.")


def body_too_large(limit: int) -> ProblemError:
    """Return the error for a body of more than `limit` bytes (G7)."""
    return ProblemError(BODY_TOO_LARGE.problem(f"The body is larger than {limit} bytes."))


@frozen
class HandlerContext:
    """Holds what all requests of one listener share."""

    handler: Handler
    limits: ListenerLimits
    error_docs_url: str
    """Base of the `type` URIs of problems, without a slash at its end (P1)."""
    mint_request_id: Callable[[], str]
    """Gives every request its own id: ASCII letters, digits and hyphens."""
    metrics: HttpMetrics
    """Counts requests and logs rejections."""

    def reject(self, problem: Problem, context: RequestContext, fault: str | None = None) -> HttpResponse:
        """Count and log the problem, and return the response that it becomes for this request."""
        self.metrics.count_problem(context, problem, fault)
        return problem_response(problem, self.error_docs_url, context.request_id)

    def error_response(self, error: Exception, context: RequestContext) -> HttpResponse:
        """Return the response for a rejection, or for an internal error, and count and log it.

        An internal error is logged without its values, and the client learns only the request id (P3)."""
        if isinstance(error, ProblemError):
            return self.reject(error.problem, context)
        return self.reject(INTERNAL_ERROR, context, describe_fault(error))

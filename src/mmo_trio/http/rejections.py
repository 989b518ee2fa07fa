"""What a door says by itself, whichever door it is: requests that come late or too large, and
faults of ours."""

from __future__ import annotations

from typing import Final

from mmo_sansio.values.problems import (
    BODY_TOO_LARGE,
    INTERNAL,
    REQUEST_TIMEOUT,
    Problem,
    RefusedError,
)
from mmo_trio.http.handler import RequestContext
from mmo_trio.http.request_metrics import Traffic
from mmo_trio.system.fault_report import describe_fault

LATE_HEAD: Final = REQUEST_TIMEOUT.problem("The head of the request did not arrive in time.")
LATE_BODY: Final = REQUEST_TIMEOUT.problem("The body of the request did not arrive in time.")
FAULT: Final = INTERNAL.problem("Something went wrong here; the request id says where to look.")


def body_too_large(limit: int) -> RefusedError:
    """The refusal of a body of more than `limit` bytes (G7)."""
    return RefusedError(BODY_TOO_LARGE.problem(f"The body is larger than {limit} bytes."))


def refuse(error: Exception, context: RequestContext, traffic: Traffic) -> Problem:
    """The problem of a refusal; anything else goes into the log without its values, and the client
    learns no more than where to ask (P3)."""
    if isinstance(error, RefusedError):
        traffic.refused(context, error.problem)
        return error.problem
    traffic.refused(context, FAULT, describe_fault(error))
    return FAULT

"""Problems as documents: one shape for every error that leaves the merchant API (RFC 7807; clauses
G3, P1, P4)."""

from __future__ import annotations

import json
from typing import Any, Final

from mmo_sansio.http import HttpResponse
from mmo_sansio.problems import Problem

PROBLEM_JSON: Final = b"application/problem+json"


def problem_response(problem: Problem, error_docs_url: str) -> HttpResponse:
    """The problem as an answer; `error_docs_url` is the base of its `type` URI, without a slash at
    its end.

    A 405 names its methods in `Allow`, a 503 its seconds in `Retry-After` (P4)."""
    headers = [(b"content-type", PROBLEM_JSON)]
    if problem.allow is not None:
        headers.append((b"allow", problem.allow.encode("ascii")))
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % problem.retry_after_s))
    body = json.dumps(problem_document(problem, error_docs_url))
    return HttpResponse(problem.status, tuple(headers), body.encode("ascii"))


def problem_document(problem: Problem, error_docs_url: str) -> dict[str, Any]:
    """The members of P1, in its order; `errors` only where fields are at fault."""
    document: dict[str, Any] = {
        "type": f"{error_docs_url}/{problem.segment}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "errorCode": problem.error_code,
    }
    if problem.errors:
        document["errors"] = [
            {"field": fault.field, "detail": fault.detail} for fault in problem.errors
        ]
    return document

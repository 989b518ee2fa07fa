"""Writes problems as documents: one shape for every error of the merchant API (RFC 7807; clauses G3, P1, P4)."""

from __future__ import annotations

import json
from typing import Any, Final

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.values.problems import Problem

PROBLEM_JSON: Final = b"application/problem+json"
INSTANCE_PREFIX: Final = "urn:x-request-id:"
"""The prefix of the request id in `instance`: a URI that names the occurrence and leads nowhere."""


def problem_response(problem: Problem, error_docs_url: str, request_id: str | None = None) -> HttpResponse:
    """Return the response for a problem.

    `error_docs_url` is the base of its `type` URI, without a slash at its end; the request id names this occurrence. A
    405 names its methods in `Allow`, a 503 its seconds in `Retry-After` (P4)."""
    headers = [(b"content-type", PROBLEM_JSON)]
    if problem.allow is not None:
        headers.append((b"allow", problem.allow.encode("ascii")))
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % problem.retry_after_s))
    body = json.dumps(problem_document(problem, error_docs_url, request_id))
    return HttpResponse(problem.status, tuple(headers), body.encode("ascii"))


def problem_document(problem: Problem, error_docs_url: str, request_id: str | None = None) -> dict[str, Any]:
    """Return the members of P1, in its order, with `instance` (RFC 7807 section 3.1) where the request has an id, and
    `errors` only where fields are invalid."""
    document: dict[str, Any] = {
        "type": f"{error_docs_url}/{problem.segment}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "errorCode": problem.error_code,
    }
    if request_id is not None:
        document["instance"] = f"{INSTANCE_PREFIX}{request_id}"
    if problem.errors:
        document["errors"] = [{"field": fault.field, "detail": fault.detail} for fault in problem.errors]
    return document

"""Builds the OpenAPI document of the merchant API from its operations, shapes and problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mmo_sansio import __version__
from mmo_sansio.api.docs.error_pages import GUIDANCE, example_problem
from mmo_sansio.api.docs.openapi.api_operations import (
    PROBLEMS,
    api_paths,
    common_header_refs,
    deposit_operation,
    problem_response_name,
)
from mmo_sansio.api.docs.openapi.request_schemas import request_schemas
from mmo_sansio.api.docs.openapi.response_schemas import response_schemas
from mmo_sansio.api.docs.openapi.schemas import Schema, ref
from mmo_sansio.values import problems
from mmo_sansio.values.problems import PROBLEM_TYPES, ProblemType

INTRODUCTION: Final = """\
Take payments by mobile money, pay people and tax authorities, and learn how each payment ended.

A creation is checked and answered at once, with status `pending`. The result comes as a callback
to your `resultUrl`, in one attempt without a retry; it can always be looked up as well. Please
leave two minutes between two look-ups of one payment. The gateway's records are the truth when
yours and its disagree. Later versions may add members and codes: ignore members that you do not
know, and treat an unknown `errorCode` of a payment as a failure like any other.

Every refusal is a problem document (RFC 7807), whose `type` leads to a page that says what to do.
A 503 promises that nothing was stored.

When no answer came, send the same request again within 15 minutes, with the same
`merchantReference`: it is not paid twice, because a reference is refused for 15 minutes after its
use, with 422 `merchant_transactionid_duplicate`. Later than that look the reference up first, and
send the request again only when the look-up answers 404. After the 15 minutes a pay-in is accepted
under a used reference where every earlier payment under it has failed, and a pay-out or tax
payment is not; but a brand may have chosen that its references come again for other payments, and
then the same request is another payment."""

API_KEY_SCHEME: Final = {
    "type": "apiKey",
    "in": "header",
    "name": "X-Api-Key",
    "description": "The API key of your brand, in exactly one header. A retired key is refused within a minute.",
}


def openapi_document(
    *, base_url: str, error_docs_url: str, sandbox_scenarios: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the merchant API as an OpenAPI 3.1 document.

    `base_url` and `error_docs_url` have no slash at their end. `sandbox_scenarios` are the values of the sandbox's
    header with their meanings; None where there is no such header.
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Mobile Money Gateway Merchant API V2",
            "version": __version__,
            "summary": "One small interface to mobile money.",
            "description": INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "jsonSchemaDialect": "https://spec.openapis.org/oas/3.1/dialect/base",
        "servers": [{"url": base_url}],
        "security": [{"apiKey": []}],
        "tags": [
            {"name": "Payments", "description": "Creation; the answer is always `pending`."},
            {"name": "Look-ups", "description": "The state of payments."},
            {"name": "Health", "description": "For load balancers; no key is needed."},
        ],
        "paths": api_paths(sandbox_scenarios),
        "webhooks": {"deposit": {"post": deposit_operation()}},
        "components": {
            "schemas": request_schemas() | response_schemas(error_docs_url),
            "responses": _problem_responses(error_docs_url),
            "headers": _headers(),
            "securitySchemes": {"apiKey": API_KEY_SCHEME},
        },
    }


def _problem_responses(error_docs_url: str) -> dict[str, Any]:
    """Describe one response for each problem, and one for those of a status that has several."""
    groups = {each.segment: [each] for each in PROBLEM_TYPES}
    for name, types in PROBLEMS.items():
        for each in types:
            group = groups.setdefault(problem_response_name(each, name), [])
            if each not in group:
                group.append(each)
    return {name: _problem_response(types, error_docs_url) for name, types in groups.items()}


def _problem_response(problem_types: Sequence[ProblemType], error_docs_url: str) -> dict[str, Any]:
    """Describe the response for these problems, which all have one status."""
    status = problem_types[0].status
    meaning = " ".join(f"`{each.segment}`: {GUIDANCE[each].meaning}\n" for each in problem_types)
    examples = {each.segment: {"value": dict(example_problem(each, error_docs_url))} for each in problem_types}
    headers = common_header_refs()
    if status == problems.METHOD_NOT_ALLOWED.status:
        headers["Allow"] = {"$ref": "#/components/headers/Allow"}
    if status in (problems.UNAVAILABLE.status, problems.TOO_MANY_REQUESTS.status):
        headers["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    return {
        "description": meaning.strip(),
        "headers": headers,
        "content": {"application/problem+json": {"schema": ref("Problem"), "examples": examples}},
    }


def _headers() -> dict[str, Any]:
    def header(meaning: str, schema: Schema) -> dict[str, Any]:
        return {"description": meaning, "required": True, "schema": schema}

    return {
        "X-Request-Id": header(
            "Names this request in the gateway's log.", {"type": "string", "pattern": "^[0-9a-zA-Z-]+$"}
        ),
        "Cache-Control": header("Nothing is to be kept.", {"const": "no-store"}),
        "Allow": header("The methods that this resource knows.", {"type": "string"}),
        "Retry-After": header("Seconds after which to try again.", {"type": "integer", "minimum": 1}),
    }

"""Describes the merchant API as an OpenAPI 3.1 document, made from the tables that the code itself
reads: endpoints, callbacks, the webhook for deposits, shapes and problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mmo_sansio import __version__
from mmo_sansio.api.docs import schemas
from mmo_sansio.api.docs.error_pages import GUIDANCE, example_problem
from mmo_sansio.api.incoming.creation_body import METHOD_MAX
from mmo_sansio.api.incoming.requests import API_PREFIX, KEY_MAX, SCENARIO_HEADER
from mmo_sansio.http.exchange import DELIVERY_TIMEOUT_S
from mmo_sansio.messages.queries import RECORDS_PAGE_DEFAULT, RECORDS_PAGE_MAX
from mmo_sansio.values import problems
from mmo_sansio.values.model import Operation, Status, Type
from mmo_sansio.values.problems import CREATION_PRECEDENCE, ProblemType

API_ROOT: Final = API_PREFIX.decode().rstrip("/")

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
    "description": "The API key of your brand, in exactly one header. A retired key is refused "
    "within a minute.",
}

SUMMARIES: Final = {
    Operation.DIRECT_PAYIN: (
        "Take a payment",
        "A prompt on the payer's phone; no browser is involved.",
    ),
    Operation.DIRECT_PAYOUT: ("Pay somebody", "Money to the payee's mobile money account."),
    Operation.QR_PAYIN: (
        "Take a payment by QR code",
        "The code is sent to `displayQrUrl`; you show it.",
    ),
    Operation.WEB_PAYIN: (
        "Take a payment on the hosted page",
        "Send the payer's browser to `pageUrl` at once, and store it: no look-up tells it. The "
        "page is valid for 30 minutes unless the gateway's staff have set another time, and a "
        "payment that was not sent to its provider by then fails with `user_timeout`. Where the "
        "browser comes back to says nothing about the outcome; the callback does.",
    ),
    Operation.DIRECT_TAXPAYOUT: (
        "Pay a tax authority",
        "The recipient is implied by method and country.",
    ),
}

# Problems that any request may be rejected with.
COMMON_PROBLEMS: Final = (
    problems.MALFORMED,
    problems.UNAUTHORIZED,
    problems.MERCHANT_DISABLED,
    problems.TOO_MANY_REQUESTS,
    problems.NOT_FOUND,
    problems.METHOD_NOT_ALLOWED,
    problems.REQUEST_TIMEOUT,
    problems.TARGET_TOO_LONG,
    problems.HEAD_TOO_LARGE,
    problems.INTERNAL,
    problems.UNAVAILABLE,
)

# What requests may be rejected with, by the name of the response for those of status 400.
PROBLEMS: Final = {
    "refused": COMMON_PROBLEMS,
    "refused_creation": tuple(dict.fromkeys((*CREATION_PRECEDENCE, *COMMON_PROBLEMS))),
    "refused_records": (*COMMON_PROBLEMS, problems.VALIDATION_FAILED),
}

LINKS: Final = {
    "lookUp": {
        "operationId": "lookUp",
        "parameters": {"gatewayReference": "$response.body#/gatewayReference"},
        "description": "The state of the payment, by the gateway's reference.",
    },
    "lookUpByMerchantReference": {
        "operationId": "lookUpByMerchantReference",
        "parameters": {"merchantReference": "$response.body#/merchantReference"},
        "description": "The same by yours.",
    },
}

RESULT_TEXTS: Final = (
    "The result",
    "Sent once the payment has succeeded or failed, in one attempt. Compare the key in constant "
    "time and refuse what has another; deduplicate results by `gatewayReference`, as in rare cases "
    "the same callback comes twice. It may arrive before the answer to the creation. A body with "
    "`qrImage` and without `status` is a QR code and no result.",
)

QR_CODE_TEXTS: Final = (
    "The QR code",
    "Sent once, soon after the creation. Compare the key; show the picture, or draw the payload "
    "yourself.",
)

DEPOSIT_TEXTS: Final = (
    "A deposit",
    "Sent to the address that is configured for your brand when a payer has paid through the"
    " provider's own channel: a transaction of flow `push`, that has succeeded and was never"
    " created by you.",
)


def openapi_document(
    *, base_url: str, error_docs_url: str, sandbox_scenarios: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the merchant API as an OpenAPI 3.1 document.

    `base_url` and `error_docs_url` have no slash at their end. `sandbox_scenarios` are the values
    of the sandbox's header with their meanings; None where there is no such header."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Mobile Money Gateway Merchant API V2",
            "version": __version__,
            "summary": "One small interface to mobile money.",
            "description": INTRODUCTION,
            "contact": {"name": "the mmo-gateway developers"},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
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
            "schemas": schemas.request_schemas() | schemas.response_schemas(error_docs_url),
            "responses": _problem_responses(error_docs_url),
            "headers": _headers(),
            "securitySchemes": {"apiKey": API_KEY_SCHEME},
        },
    }


def _problem_responses(error_docs_url: str) -> dict[str, Any]:
    """Describe every response that requests may be rejected with: one for all problems of a
    status."""
    # OpenAPI has one response for a status, so its problems are described together.
    groups: dict[str, list[ProblemType]] = {}
    for name, types in PROBLEMS.items():
        for type_ in types:
            group = groups.setdefault(problem_response_name(type_, name), [])
            if type_ not in group:
                group.append(type_)
    return {name: _problem_response(types, error_docs_url) for name, types in groups.items()}


def _problem_response(problem_types: Sequence[ProblemType], error_docs_url: str) -> dict[str, Any]:
    """Describe the response for these problems, which all have one status."""
    status = problem_types[0].status
    meaning = " ".join(
        f"`{problem_type.segment}`: {GUIDANCE[problem_type].meaning}\n"
        for problem_type in problem_types
    )
    examples = {
        problem_type.segment: {"value": dict(example_problem(problem_type, error_docs_url))}
        for problem_type in problem_types
    }
    headers = common_header_refs()

    # The headers that only some responses have (P4).
    if status == problems.METHOD_NOT_ALLOWED.status:
        headers["Allow"] = {"$ref": "#/components/headers/Allow"}

    if status in (problems.UNAVAILABLE.status, problems.TOO_MANY_REQUESTS.status):
        headers["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}

    return {
        "description": meaning.strip(),
        "headers": headers,
        "content": {
            "application/problem+json": {"schema": schemas.ref("Problem"), "examples": examples}
        },
    }


def _headers() -> dict[str, Any]:
    def header(meaning: str, schema: schemas.Schema) -> dict[str, Any]:
        return {"description": meaning, "required": True, "schema": schema}

    return {
        "X-Request-Id": header(
            "Names this request in the gateway's log.",
            {"type": "string", "pattern": "^[0-9a-zA-Z-]+$"},
        ),
        "Cache-Control": header("Nothing is to be kept.", {"const": "no-store"}),
        "Allow": header("The methods that this resource knows.", {"type": "string"}),
        "Retry-After": header(
            "Seconds after which to try again.", {"type": "integer", "minimum": 1}
        ),
    }


def api_paths(sandbox_scenarios: Mapping[str, str] | None) -> dict[str, Any]:
    """Return every path of the API with its operation; None documents no scenario header."""
    paths: dict[str, Any] = {
        f"{API_ROOT}/{operation.value}/{{method}}": {
            "post": _creation_operation(operation, sandbox_scenarios)
        }
        for operation in Operation
    }
    paths[f"{API_ROOT}/status/{{gatewayReference}}"] = {"get": _look_up_operation()}
    paths[f"{API_ROOT}/status/mref/{{merchantReference}}"] = {
        "get": _look_up_by_merchant_reference_operation()
    }
    paths[f"{API_ROOT}/records"] = {"get": _records_operation()}
    alive = ("Is the process alive?", "It answers whatever its store does.")
    ready = (
        "Can it do its work?",
        "503 while the store cannot be reached or written to: send it no requests then.",
    )
    paths["/healthz"] = {"get": _health_operation("isAlive", alive, "alive")}
    paths["/readyz"] = {"get": _health_operation("isReady", ready, "ready")}

    return paths


def _creation_operation(
    operation: Operation, sandbox_scenarios: Mapping[str, str] | None
) -> dict[str, Any]:
    summary, description = SUMMARIES[operation]
    result = _callback_operation("Transaction", RESULT_TEXTS)

    # OpenAPI's own expression: the address stands in the request (OpenAPI 3.1, Runtime
    # Expressions).
    callbacks: dict[str, Any] = {"result": {"{$request.body#/resultUrl}": {"post": result}}}
    if operation is Operation.QR_PAYIN:
        code = _callback_operation("QrCode", QR_CODE_TEXTS)
        callbacks["qrCode"] = {"{$request.body#/displayQrUrl}": {"post": code}}

    meaning = (
        f"Key of a payment method that your brand has for this; at most {METHOD_MAX} characters, "
        f"case-sensitive."
    )
    schema = schemas.string(minLength=1, maxLength=METHOD_MAX)
    parameters = [_parameter("method", "path", meaning, schema, example="mpesa_ke")]
    if sandbox_scenarios is not None:
        # Only a sandbox documents it: in production the header means nothing.
        lines = "".join(f"\n- `{name}`: {text}" for name, text in sandbox_scenarios.items())
        meaning = (
            f"What the sandbox shall play; else the last three digits of the number decide.{lines}"
        )
        schema = schemas.string(enum=list(sandbox_scenarios))
        parameters.append(_parameter(SCENARIO_HEADER, "header", meaning, schema))

    response = "InitiatedWebPayment" if operation is Operation.WEB_PAYIN else "InitiatedPayment"
    responses = _responses(
        "The payment is taken, durably.", schemas.ref(response), "refused_creation"
    )
    responses["200"]["links"] = LINKS
    return {
        "operationId": "create" + schemas.request_name(operation).removesuffix("Request"),
        "tags": ["Payments"],
        "summary": summary,
        "description": description,
        "parameters": parameters,
        "requestBody": {"required": True, "content": _request_content(operation)},
        "responses": responses,
        "callbacks": callbacks,
    }


def _look_up_operation() -> dict[str, Any]:
    parameter = _parameter(
        "gatewayReference",
        "path",
        "The ULID that the gateway gave; letters of either case.",
        schemas.string(f"A ULID: `{schemas.ULID_PATTERN}`."),
        example="01KAJWT5RV3FX1QYP2Z4M0C9TB",
    )
    meaning = "The payment as it is now, by the gateway's reference."
    return _query_operation(
        "lookUp", "Look up a payment", meaning, [parameter], "Transaction", "refused"
    )


def _look_up_by_merchant_reference_operation() -> dict[str, Any]:
    parameter = _parameter(
        "merchantReference",
        "path",
        "Your own reference, of at most 255 characters, percent-encoded once. Of a reference that"
        " was used again the newest payment is found.",
        schemas.string(minLength=1),
        example="order-1",
    )
    name, summary = "lookUpByMerchantReference", "Look up a payment by your own reference"
    meaning = (
        "The payment as it is now, by your reference: also when no answer to its creation came."
    )

    return _query_operation(name, summary, meaning, [parameter], "Transaction", "refused")


def _records_operation() -> dict[str, Any]:
    moment = (
        "A calendar date of ISO 8601 or such a date with a time of hours and minutes at least, "
        "such as `2026-11-01T08:30Z`; without an offset it is UTC. Week dates, ordinal dates, hour "
        "24 and second 60 are refused."
    )
    begin = f"Created at or after. Required without `page`. {moment}"
    end = f"Created before; later than `from`. Required without `page`. {moment}"
    page_size = (
        f"How many in a page; what lies beyond 1 to {RECORDS_PAGE_MAX} becomes the nearest "
        f"of these."
    )
    page = (
        "A cursor from `pages` of an earlier answer; it holds the whole query, so send it alone."
        " Filters that are sent again must be the same."
    )
    method = schemas.string(pattern=schemas.NO_CONTROLS_PATTERN)
    size = {"type": "integer", "default": RECORDS_PAGE_DEFAULT}
    parameters = [
        _parameter("from", "query", begin, schemas.string(), example="2026-11-01"),
        _parameter("to", "query", end, schemas.string(), example="2026-12-01T00:00:00Z"),
        _filter_parameter("type", Type),
        _parameter("method", "query", "Only this method key; case-sensitive.", method),
        _filter_parameter("status", Status),
        _parameter("pageSize", "query", page_size, size),
        _parameter("page", "query", page, schemas.string()),
    ]
    meaning = (
        "Every payment that was created in a window of time, page by page, for reconciliation."
        " Values are trimmed; blank means absent; a parameter that is given twice is refused."
    )

    return _query_operation(
        "listRecords", "List payments", meaning, parameters, "TransactionPage", "refused_records"
    )


def _filter_parameter(name: str, values: type[Type] | type[Status]) -> schemas.Schema:
    words = [value.value for value in values]
    meaning = (
        f"Only these: one of {', '.join(f'`{word}`' for word in words)}, in letters of either case."
    )
    # JSON Schema has no flag for case, so each letter is written in both.
    either = "|".join("".join(f"[{letter.upper()}{letter}]" for letter in word) for word in words)
    schema = {"type": "string", "pattern": f"^\\s*(?:{either})?\\s*$", "examples": words}
    return _parameter(name, "query", meaning, schema)


def _query_operation(
    name: str,
    summary: str,
    meaning: str,
    parameters: list[schemas.Schema],
    response_schema: str,
    rejected: str,
) -> dict[str, Any]:
    return {
        "operationId": name,
        "tags": ["Look-ups"],
        "summary": summary,
        "description": meaning,
        "parameters": parameters,
        "responses": _responses("What is known.", schemas.ref(response_schema), rejected),
    }


def _health_operation(name: str, texts: tuple[str, str], status: str) -> dict[str, Any]:
    summary, description = texts
    schema = {
        "type": "object",
        "required": ["status"],
        "properties": {"status": {"const": status}},
        "examples": [{"status": status}],
    }
    responses = _responses("Yes.", schema, "refused")

    return {
        "operationId": name,
        "tags": ["Health"],
        "summary": summary,
        "description": description,
        "security": [],
        "responses": {
            response: responses[response]
            for response in responses
            # No key is asked for, and the path is always there.
            if response not in ("401", "404")
        },
    }


def _callback_operation(schema_name: str, texts: tuple[str, str]) -> dict[str, Any]:
    summary, description = texts
    key = _parameter(
        "X-API-KEY",
        "header",
        "The API key of your brand: the only proof that the gateway is calling.",
        {"type": "string", "maxLength": KEY_MAX},
    )
    delivered = (
        f"Any 2xx within {DELIVERY_TIMEOUT_S:g} seconds says that you have it. What you send back "
        f"isn't read."
    )

    return {
        "summary": summary,
        "description": description,
        "security": [],
        "parameters": [key | {"required": True}],
        "requestBody": {"required": True, "content": _json_content(schemas.ref(schema_name))},
        "responses": {
            "2XX": {"description": delivered},
            "4XX": {"description": "It counts as not delivered, and isn't sent again."},
            "default": {"description": "Anything else counts as not delivered, too."},
        },
    }


def deposit_operation() -> dict[str, Any]:
    return _callback_operation("Transaction", DEPOSIT_TEXTS) | {"operationId": "deposit"}


def _responses(description: str, schema: schemas.Schema, rejected: str) -> dict[str, Any]:
    """Return the response of status 200, and one for each status of the problems in PROBLEMS."""
    content = _json_content(schema)
    responses: dict[str, Any] = {
        "200": {"description": description, "headers": common_header_refs(), "content": content}
    }
    # Several problems of one status refer to the one response.
    for cause in sorted(PROBLEMS[rejected], key=lambda cause: cause.status):
        name = problem_response_name(cause, rejected)
        responses.setdefault(str(cause.status), {"$ref": f"#/components/responses/{name}"})
    return responses


def problem_response_name(cause: ProblemType, rejected: str) -> str:
    """Return the name of the response that describes this problem of requests with these problems:
    those of a status with several causes are described together."""
    match cause.status:
        case 400:
            return rejected
        case problems.DUPLICATE_REFERENCE.status:
            return "refused_by_a_rule"
        case _:
            return cause.segment


def common_header_refs() -> dict[str, Any]:
    """Return references to the headers that every response has (G9)."""
    return {
        name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", "Cache-Control")
    }


def _parameter(
    name: str,
    location: str,
    description: str,
    schema: schemas.Schema,
    *,
    example: str | None = None,
) -> schemas.Schema:
    parameter: schemas.Schema = {
        "name": name,
        "in": location,
        "description": description,
        "schema": schema,
    }
    if location == "path":
        parameter["required"] = True

    if example is not None:
        parameter["example"] = example

    return parameter


def _request_content(operation: Operation) -> dict[str, Any]:
    content = _json_content(schemas.ref(schemas.request_name(operation)))
    content["application/json"]["example"] = schemas.request_example(operation)
    return content


def _json_content(schema: schemas.Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}

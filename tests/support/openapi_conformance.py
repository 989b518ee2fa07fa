"""Every exchange of the contract suite is held against the OpenAPI document: an answer has a
status, a type and a shape that the document knows for that endpoint, and a request that was taken
is one that the document calls right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from mmo_sansio.api.docs.openapi import openapi_document
from mmo_sansio.api.docs.schemas import request_name
from mmo_sansio.providers.sandbox.scenarios import SCENARIO_TEXTS
from mmo_sansio.values.model import Operation

DOCS = "https://docs.example/errors"


def closed(schema: Any) -> Any:
    """Return the schema without room for further members and codes, which only later versions may
    send: a text with examples of codes becomes an enum of them, and an object has its own members
    alone."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(each) for name, each in schema.items()}
    properties = made.get("properties")
    if isinstance(properties, dict) and "type" in made:
        made["additionalProperties"] = False
        for name in ("type", "title", "status", "errorCode"):
            codes = properties[name] if isinstance(properties.get(name), dict) else {}
            if "examples" in codes:
                is_nullable = "null" in codes["type"]
                properties[name] = codes | {
                    "enum": [*codes["examples"], *([None] if is_nullable else [])]
                }
    return made


def closed_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with every schema closed but those of requests, whose further members are
    ignored (G4)."""
    components = document["components"]
    schemas = {
        name: each if "Request" in name else closed(each)
        for name, each in components["schemas"].items()
    }
    return document | {"components": components | {"schemas": schemas}}


DOCUMENT = closed_document(
    openapi_document(
        base_url="https://pay.example", error_docs_url=DOCS, sandbox_scenarios=SCENARIO_TEXTS
    )
)
ROOT = "/gateway/mmo/v2"
LARGE = 200_000
"""Bytes of an answer beyond which one look at its status and type is enough."""


def check_creation(
    operation: str, sent: bytes, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """An exchange with a creation endpoint; raises AssertionError or ValidationError."""
    path = f"{ROOT}/{operation}/{{method}}"
    if path not in DOCUMENT["paths"]:
        return
    check_answer(path, "post", status, headers, body)
    if status == 200:
        _validator(request_name(Operation(operation))).validate(json.loads(sent))


def check_look_up(target: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """An exchange with a look-up or the records."""
    match target.partition("?")[0].split("/"):
        case ["status", _]:
            path = f"{ROOT}/status/{{gatewayReference}}"
        case ["status", "mref", _]:
            path = f"{ROOT}/status/mref/{{merchantReference}}"
        case ["records"]:
            path = f"{ROOT}/records"
        case _:
            return
    check_answer(path, "get", status, headers, body)


def check_answer(
    path: str, method: str, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """The answer is one that the document knows for this endpoint."""
    responses = DOCUMENT["paths"][path][method]["responses"]
    assert str(status) in responses, (path, status, body)
    response = responses[str(status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    kind = headers["content-type"]
    assert kind in response["content"], (path, kind)
    assert all(name.lower() in headers for name in response["headers"]), (path, headers)
    if len(body) > LARGE:
        return
    document = json.loads(body)
    shape = response["content"][kind]["schema"]["$ref"].rpartition("/")[2]
    if shape == "Problem":
        cause = document["type"].rpartition("/")[2]
        assert cause in response["content"][kind]["examples"], (path, status, cause)
        document["type"] = f"{DOCS}/{cause}"  # Its base is each gateway's own.
    _validator(shape).validate(document)


@cache
def _validator(shape: str) -> Any:
    schema = {"$ref": f"#/components/schemas/{shape}", "components": DOCUMENT["components"]}
    return Draft202012Validator(schema)

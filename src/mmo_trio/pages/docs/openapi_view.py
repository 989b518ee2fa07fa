"""Turns the OpenAPI document into rows for a page: endpoints, and the schemas that they use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from mmo_sansio.api.docs.openapi.schemas import NO_CONTROLS_PATTERN, NOT_BLANK_PATTERN, ULID_PATTERN, document_text

JsonObject = Mapping[str, Any]


@frozen
class FieldRow:
    """Describes a member of an object, or a parameter of a request."""

    name: str
    type_text: str
    """`string`, `number or null`, ..."""
    schema: str | None
    """The name of its schema; None when it has none."""
    is_required: bool
    constraints: str
    description: str


@frozen
class SchemaView:
    """Describes an object schema with its name."""

    name: str
    description: str
    constraints: str
    """Limits of the object as a whole, such as how many members it may have."""
    fields: tuple[FieldRow, ...]
    example: str | None


@frozen
class ResponseView:
    """Describes a possible response."""

    status: str
    description: str
    schema: str | None
    error_codes: tuple[str, ...]
    """The error codes of the response; each has a page."""


@frozen
class WebhookView:
    """Describes a request that the gateway sends."""

    name: str
    url_field: str
    summary: str
    description: str
    schema: str
    key_header: FieldRow


@frozen
class EndpointView:
    """Describes one endpoint."""

    name: str
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[FieldRow, ...]
    body_schema: str | None
    responses: tuple[ResponseView, ...]
    callbacks: tuple[WebhookView, ...]
    example: str
    """An example as a `curl` command."""


@frozen
class ApiReference:
    """Holds the whole API reference."""

    title: str
    version: str
    introduction: tuple[str, ...]
    base_url: str
    key_name: str
    key_description: str
    groups: tuple[tuple[str, str, tuple[EndpointView, ...]], ...]
    """Groups of endpoints: (name, purpose, endpoints)."""
    webhooks: tuple[WebhookView, ...]
    schemas: tuple[SchemaView, ...]


def build_reference(document: JsonObject) -> ApiReference:
    """Convert the document that `openapi_document` makes into rows."""
    info, components = document["info"], document["components"]
    key = components["securitySchemes"]["apiKey"]
    base_url = document["servers"][0]["url"]
    endpoints = list(_endpoints(document, base_url))
    return ApiReference(
        info["title"],
        info["version"],
        tuple(info["description"].split("\n\n")),
        base_url,
        key["name"],
        key["description"],
        tuple(
            (tag["name"], tag["description"], tuple(each for each, tags in endpoints if tag["name"] in tags))
            for tag in document["tags"]
        ),
        tuple(_webhook(name, "", each["post"]) for name, each in document["webhooks"].items()),
        tuple(_schema_view(name, schema) for name, schema in components["schemas"].items()),
    )


def _endpoints(document: JsonObject, base_url: str) -> Iterator[tuple[EndpointView, list[str]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            body = operation.get("requestBody")
            body_schema = None if body is None else _schema_name(body["content"]["application/json"]["schema"])
            schemas = document["components"]["schemas"]
            example = None if body_schema is None else schemas[body_schema]["examples"][0]
            yield (
                EndpointView(
                    operation["operationId"],
                    method.upper(),
                    path,
                    operation["summary"],
                    operation.get("description", ""),
                    tuple(map(_parameter_row, operation.get("parameters", ()))),
                    body_schema,
                    tuple(_responses(operation["responses"], document)),
                    tuple(
                        _webhook(name, where, each["post"])
                        for name, at in operation.get("callbacks", {}).items()
                        for where, each in at.items()
                    ),
                    _curl_command(base_url + path, operation, example),
                ),
                operation["tags"],
            )


def _responses(responses: JsonObject, document: JsonObject) -> Iterator[ResponseView]:
    for status, response in responses.items():
        if "$ref" in response:
            response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        ((kind, content),) = response["content"].items()
        is_problem = kind == "application/problem+json"
        codes = tuple(content["examples"]) if is_problem else ()
        meaning = "Refused." if is_problem else response["description"]
        yield ResponseView(status, meaning, _schema_name(content["schema"]), codes)


def _webhook(name: str, url_field: str, operation: JsonObject) -> WebhookView:
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    answered = operation["responses"]["2XX"]["description"]
    return WebhookView(
        name,
        url_field.removeprefix("{$request.body#/").removesuffix("}"),
        operation["summary"],
        f"{operation['description']} {answered}",
        _schema_name(schema) or "",
        _parameter_row(operation["parameters"][0]),
    )


def _curl_command(url: str, operation: JsonObject, body: object) -> str:
    for each in operation.get("parameters", ()):
        if each["in"] == "path":
            url = url.replace(f"{{{each['name']}}}", each["example"])
    query = "&".join(
        f"{each['name']}={each['example']}"
        for each in operation.get("parameters", ())
        if each["in"] == "query" and "example" in each
    )
    lines = [f"curl '{url}{'?' * bool(query)}{query}'"]
    if operation.get("security") != []:
        lines.append("-H 'X-Api-Key: YOUR_KEY'")
    if body is not None:
        lines += ["-H 'Content-Type: application/json'", f"-d '{document_text(body, indent=2)}'"]
    return " \\\n  ".join(lines)


def _parameter_row(parameter: JsonObject) -> FieldRow:
    schema = parameter["schema"]
    place = {"path": "in the path", "query": "in the query", "header": "header"}[parameter["in"]]
    return FieldRow(
        parameter["name"],
        f"{_type_text(schema)}, {place}",
        None,
        bool(parameter.get("required")),
        _constraints(schema),
        parameter["description"],
    )


def _schema_view(name: str, schema: JsonObject) -> SchemaView:
    required = schema.get("required", ())
    rows = [
        FieldRow(
            member,
            _type_text(each),
            _schema_name(each),
            member in required,
            _constraints(each),
            each.get("description", ""),
        )
        for member, each in schema.get("properties", {}).items()
    ]
    if isinstance(schema.get("additionalProperties"), dict):
        values = schema["additionalProperties"]
        rows.append(FieldRow("any name", _type_text(values), None, False, _constraints(values), ""))
    example = schema.get("examples", [None])[0]
    return SchemaView(
        name,
        schema.get("description", ""),
        _constraints(schema),
        tuple(rows),
        None if example is None else document_text(example, indent=2),
    )


def _schema_name(schema: JsonObject) -> str | None:
    """Return the name of the schema that this one refers to, also in an array or in `anyOf`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "items" in schema:
        return _schema_name(schema["items"])
    return next(filter(None, map(_schema_name, schema.get("anyOf", ()))), None)


def _type_text(schema: JsonObject) -> str:
    if "$ref" in schema:
        return "object"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type_text, schema["anyOf"])))
    kinds = schema.get("type", "string")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


_PATTERN_TEXTS = {NO_CONTROLS_PATTERN: "no control characters", NOT_BLANK_PATTERN: "not blank", ULID_PATTERN: "a ULID"}
"""What a pattern means, where words say it better than the pattern itself."""


def _pattern_texts(schema: JsonObject) -> Iterator[str]:
    """Describe the patterns of a text, those of its `allOf` too."""
    for each in (schema, *schema.get("allOf", ())):
        if "pattern" in each:
            yield _PATTERN_TEXTS.get(each["pattern"], f"matches `{each['pattern']}`")


def _constraints(schema: JsonObject) -> str:
    """Describe the limits of a value in words, those of its alternatives too."""
    limits = [text for text in map(_constraints, schema.get("anyOf", ())) if text]
    if "const" in schema:
        limits.append(f"always `{schema['const']}`")
    if "enum" in schema:
        limits.append("one of " + ", ".join(f"`{each}`" for each in schema["enum"]))
    least, most = schema.get("minLength"), schema.get("maxLength")
    if most is not None:
        limits.append(f"{least} to {most} characters" if least else f"at most {most} characters")
    limits += _pattern_texts(schema)
    if "maxProperties" in schema:
        limits.append(f"at most {schema['maxProperties']} entries")
    if "default" in schema:
        limits.append(f"by default {schema['default']}")
    if "format" in schema:
        limits.append(schema["format"].upper())
    return "; ".join(limits)

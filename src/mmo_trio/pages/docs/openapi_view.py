"""The OpenAPI document as people read it: endpoints, and the shapes that they take and answer, as rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

Node = Mapping[str, Any]


@frozen
class Row:
    """A member of an object, or a parameter of a request."""

    name: str
    kind: str
    """`string`, `number or null`, ..."""
    shape: str | None
    """The shape that it has, if it is one of the named."""
    is_required: bool
    limits: str
    meaning: str


@frozen
class Shape:
    """An object with a name."""

    name: str
    meaning: str
    rows: tuple[Row, ...]
    example: str | None


@frozen
class Answer:
    """What may come back."""

    status: str
    meaning: str
    shape: str | None
    codes: tuple[str, ...]
    """The causes for which it does; each has its page."""


@frozen
class Delivery:
    """A request that the gateway makes."""

    name: str
    where: str
    summary: str
    meaning: str
    shape: str
    key: Row


@frozen
class Endpoint:
    """One thing that can be asked."""

    name: str
    method: str
    path: str
    summary: str
    meaning: str
    parameters: tuple[Row, ...]
    takes: str | None
    answers: tuple[Answer, ...]
    calls_back: tuple[Delivery, ...]
    example: str
    """A command for a terminal."""


@frozen
class Reference:
    """All of it."""

    title: str
    version: str
    introduction: tuple[str, ...]
    base_url: str
    key_name: str
    key_meaning: str
    groups: tuple[tuple[str, str, tuple[Endpoint, ...]], ...]
    """(name, what they are for, the endpoints)."""
    unasked: tuple[Delivery, ...]
    shapes: tuple[Shape, ...]


def reference_of(document: Node) -> Reference:
    """The document that `openapi_document` makes, as rows."""
    info, components = document["info"], document["components"]
    key = components["securitySchemes"]["apiKey"]
    base_url = document["servers"][0]["url"]
    endpoints = list(_endpoints(document, base_url))
    return Reference(
        info["title"],
        info["version"],
        tuple(info["description"].split("\n\n")),
        base_url,
        key["name"],
        key["description"],
        tuple(
            (
                tag["name"],
                tag["description"],
                tuple(each for each, tags in endpoints if tag["name"] in tags),
            )
            for tag in document["tags"]
        ),
        tuple(_delivery(name, "", each["post"]) for name, each in document["webhooks"].items()),
        tuple(_shape(name, schema) for name, schema in components["schemas"].items()),
    )


def _endpoints(document: Node, base_url: str) -> Iterator[tuple[Endpoint, list[str]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            body = operation.get("requestBody")
            takes = None if body is None else _name(body["content"]["application/json"]["schema"])
            schemas = document["components"]["schemas"]
            example = None if takes is None else schemas[takes]["examples"][0]
            yield (
                Endpoint(
                    operation["operationId"],
                    method.upper(),
                    path,
                    operation["summary"],
                    operation.get("description", ""),
                    tuple(map(_parameter, operation.get("parameters", ()))),
                    takes,
                    tuple(_answers(operation["responses"], document)),
                    tuple(
                        _delivery(name, where, each["post"])
                        for name, at in operation.get("callbacks", {}).items()
                        for where, each in at.items()
                    ),
                    _command(base_url + path, operation, example),
                ),
                operation["tags"],
            )


def _answers(responses: Node, document: Node) -> Iterator[Answer]:
    for status, response in responses.items():
        if "$ref" in response:
            response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        ((kind, content),) = response["content"].items()
        is_problem = kind == "application/problem+json"
        codes = tuple(content["examples"]) if is_problem else ()
        meaning = "Refused." if is_problem else response["description"]
        yield Answer(status, meaning, _name(content["schema"]), codes)


def _delivery(name: str, where: str, operation: Node) -> Delivery:
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    answered = operation["responses"]["2XX"]["description"]
    return Delivery(
        name,
        where.removeprefix("{$request.body#/").removesuffix("}"),
        operation["summary"],
        f"{operation['description']} {answered}",
        _name(schema) or "",
        _parameter(operation["parameters"][0]),
    )


def _command(url: str, operation: Node, body: object) -> str:
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
        lines += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(body, indent=2)}'"]
    return " \\\n  ".join(lines)


def _parameter(parameter: Node) -> Row:
    schema = parameter["schema"]
    place = {"path": "in the path", "query": "in the query", "header": "header"}[parameter["in"]]
    return Row(
        parameter["name"],
        f"{_kind(schema)}, {place}",
        None,
        bool(parameter.get("required")),
        _limits(schema),
        parameter["description"],
    )


def _shape(name: str, schema: Node) -> Shape:
    required = schema.get("required", ())
    rows = [
        Row(
            member,
            _kind(each),
            _name(each),
            member in required,
            _limits(each),
            each.get("description", ""),
        )
        for member, each in schema.get("properties", {}).items()
    ]
    if isinstance(schema.get("additionalProperties"), dict):
        values = schema["additionalProperties"]
        rows.append(Row("any name", _kind(values), None, False, _limits(values), ""))
    example = schema.get("examples", [None])[0]
    return Shape(
        name,
        schema.get("description", ""),
        tuple(rows),
        None if example is None else json.dumps(example, indent=2),
    )


def _name(schema: Node) -> str | None:
    """The shape that a schema refers to, itself, in an array or as one of two."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "items" in schema:
        return _name(schema["items"])
    return next(filter(None, map(_name, schema.get("anyOf", ()))), None)


def _kind(schema: Node) -> str:
    if "$ref" in schema:
        return "object"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    kinds = schema.get("type", "string")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _limits(schema: Node) -> str:
    """What bounds a value, in words."""
    said = []
    if "const" in schema:
        said.append(f"always `{schema['const']}`")
    if "enum" in schema:
        said.append("one of " + ", ".join(f"`{json.dumps(each)}`" for each in schema["enum"]))
    least, most = schema.get("minLength"), schema.get("maxLength")
    if most is not None:
        said.append(f"{least} to {most} characters" if least else f"at most {most} characters")
    if "maxProperties" in schema:
        said.append(f"at most {schema['maxProperties']} entries")
    if "default" in schema:
        said.append(f"by default {schema['default']}")
    if "format" in schema:
        said.append(schema["format"].upper())
    return "; ".join(said).replace('"', "")

"""Turns the OpenAPI document into rows for a page: endpoints, and the schemas that they use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from mmo_sansio.api.docs.schemas import NO_CONTROLS_PATTERN, NOT_BLANK_PATTERN, ULID_PATTERN
from mmo_trio.pages.docs.code_samples import ExampleRequest, json_text

JsonObject = Mapping[str, Any]


@frozen
class FieldRow:
    """Describes a member of an object, or a parameter of a request."""

    name: str
    type_text: str
    """`string`, `number or null`, ..."""
    schema: str | None
    """The name of its schema, which the page links; None when it has none, or is described here."""
    is_required: bool
    constraints: str
    description: str
    members: tuple[FieldRow, ...] = ()
    """The members of an object that is described in place."""


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
class ErrorRow:
    """Describes a code that a request may be rejected with; it has a page."""

    status: str
    code: str


@frozen
class WebhookView:
    """Describes a request that the gateway sends."""

    name: str
    url_field: str
    """The member of a request's body that has its URL; empty where no request names it."""
    summary: str
    description: str
    schema: str
    key_header: FieldRow
    example: str
    """The body as JSON."""

    @property
    def anchor(self) -> str:
        """Return its place on the page."""
        return f"callback-{self.name}"


@frozen
class EndpointView:
    name: str
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[FieldRow, ...]
    body: tuple[FieldRow, ...]
    """The members of the request's body; none without a body."""
    body_schema: str | None
    response_description: str
    response_schema: str | None
    """The object that a successful request is answered with."""
    response_example: str
    errors: tuple[ErrorRow, ...]
    """The codes of its own; any request may meet those of `ApiReference.common_errors`, too."""
    callbacks: tuple[WebhookView, ...]
    example: ExampleRequest


@frozen
class EndpointGroup:
    """Holds endpoints of one purpose."""

    name: str
    purpose: str
    endpoints: tuple[EndpointView, ...]


@frozen
class Caller:
    """Describes the merchant of the example requests."""

    api_key: str = "YOUR_API_KEY"
    result_url: str | None = None
    """Where results go in place of the shop of the examples; None: to that shop."""


@frozen
class ApiReference:
    title: str
    version: str
    introduction: tuple[str, ...]
    base_url: str
    key_name: str
    key_description: str
    groups: tuple[EndpointGroup, ...]
    common_errors: tuple[ErrorRow, ...]
    callbacks: tuple[WebhookView, ...]
    """The requests of the gateway, each kind once."""
    schemas: tuple[SchemaView, ...]
    """The objects of responses; bodies of requests are described with their endpoints."""

    @property
    def endpoints(self) -> tuple[EndpointView, ...]:
        """Return the endpoints of all groups."""
        return tuple(endpoint for group in self.groups for endpoint in group.endpoints)


def build_reference(document: JsonObject, caller: Caller | None = None) -> ApiReference:
    """Convert the document that `openapi_document` makes into rows; None: a caller without a
    key."""
    info = document["info"]
    components = document["components"]
    key = components["securitySchemes"]["apiKey"]
    groups = {tag["name"]: (tag["description"], list[EndpointView]()) for tag in document["tags"]}
    # What any request may meet stands once, and not at each endpoint again.
    common = _common_codes(document)
    callbacks: dict[str, WebhookView] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            endpoint = _endpoint(document, method, path, common, caller or Caller())
            # Several endpoints have the same callback: the first one describes it.
            for callback in endpoint.callbacks:
                callbacks.setdefault(callback.name, callback)

            groups[operation["tags"][0]][1].append(endpoint)

    # What comes without a request, such as the result of a deposit.
    callbacks |= {
        name: _webhook(document, name, "", webhook["post"])
        for name, webhook in document["webhooks"].items()
    }
    return ApiReference(
        title=info["title"],
        version=info["version"],
        introduction=tuple(info["description"].split("\n\n")),
        base_url=document["servers"][0]["url"],
        key_name=key["name"],
        key_description=key["description"],
        groups=tuple(
            EndpointGroup(name, purpose, tuple(endpoints))
            for name, (purpose, endpoints) in groups.items()
        ),
        common_errors=tuple(common.values()),
        callbacks=tuple(callbacks.values()),
        schemas=tuple(
            _schema_view(name, schema)
            for name, schema in components["schemas"].items()
            # Bodies of requests are described in place, with their endpoints.
            if not name.startswith("Requested") and not name.endswith("Request")
        ),
    )


def _endpoint(
    document: JsonObject, method: str, path: str, common: Mapping[str, ErrorRow], caller: Caller
) -> EndpointView:
    operation = document["paths"][path][method]
    schemas = document["components"]["schemas"]

    # 1. What is sent.
    body = operation.get("requestBody")
    body_schema = None
    body_rows: tuple[FieldRow, ...] = ()
    if body is not None:
        body_schema = _schema_name(body["content"]["application/json"]["schema"])

    if body_schema is not None:
        body_rows = _field_rows(schemas[body_schema], schemas)

    request = _example_request(document, operation, method, path, caller)

    # 2. What it is answered with.
    response = operation["responses"]["200"]
    response_schema = response["content"]["application/json"]["schema"]
    response_name = _schema_name(response_schema)
    # A small answer is described in place, and has no name.
    if response_name:
        response_schema = schemas[response_name]

    answer = dict(response_schema["examples"][0])
    # An answer repeats the references of its request.
    if request.body is not None:
        reference = request.body["merchantReference"]
        answer["merchantReference"] = reference
        answer["reconciliationReference"] = request.body.get("reconciliationReference", reference)

    return EndpointView(
        name=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        description=operation.get("description", ""),
        parameters=tuple(map(_parameter_row, operation.get("parameters", ()))),
        body=body_rows,
        body_schema=body_schema,
        response_description=response["description"],
        response_schema=response_name,
        response_example=json_text(answer),
        errors=tuple(error for error in _errors(document, operation) if error.code not in common),
        # OpenAPI has callbacks by name, and each by the expression of its URL.
        callbacks=tuple(
            _webhook(document, name, url_expression, item["post"])
            for name, items in operation.get("callbacks", {}).items()
            for url_expression, item in items.items()
        ),
        example=request,
    )


def _errors(document: JsonObject, operation: JsonObject) -> Iterator[ErrorRow]:
    for status, response in operation["responses"].items():
        # Responses that several endpoints share are described once.
        if "$ref" in response:
            response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        ((kind, content),) = response["content"].items()
        if kind == "application/problem+json":
            yield from (ErrorRow(status, code) for code in content["examples"])


def _common_codes(document: JsonObject) -> dict[str, ErrorRow]:
    """Return the codes that every request with a key may be rejected with."""
    # The health checks need no key (`security` is empty), and are refused by nothing of this.
    operations = [
        endpoint
        for item in document["paths"].values()
        for endpoint in item.values()
        if endpoint.get("security") != []
    ]
    rows = [{row.code: row for row in _errors(document, operation)} for operation in operations]
    return {code: row for code, row in rows[0].items() if all(code in row for row in rows)}


def _example_request(
    document: JsonObject, operation: JsonObject, method: str, path: str, caller: Caller
) -> ExampleRequest:
    given = [parameter for parameter in operation.get("parameters", ()) if "example" in parameter]
    for parameter in given:
        path = path.replace(f"{{{parameter['name']}}}", parameter["example"])

    body = None
    if "requestBody" in operation:
        name = _schema_name(operation["requestBody"]["content"]["application/json"]["schema"])
        body = dict(document["components"]["schemas"][name]["examples"][0])
        # A sandbox's examples are sent as they are: their results go to `mmo listen`.
        if caller.result_url is not None:
            body |= {
                member: caller.result_url
                for member in ("resultUrl", "displayQrUrl")
                if member in body
            }

    api_key = None
    if operation.get("security") != []:
        api_key = caller.api_key

    query = {
        parameter["name"]: parameter["example"] for parameter in given if parameter["in"] == "query"
    }
    return ExampleRequest(
        method.upper(), document["servers"][0]["url"] + path, query, api_key, body
    )


def _webhook(
    document: JsonObject, name: str, url_expression: str, operation: JsonObject
) -> WebhookView:
    """Describe a request that the gateway sends; the expression names the member of a body that has
    its URL, `{$request.body#/resultUrl}`, and is empty where no request names one."""
    schema = _schema_name(operation["requestBody"]["content"]["application/json"]["schema"]) or ""
    answered = operation["responses"]["2XX"]["description"]
    return WebhookView(
        name=name,
        url_field=url_expression.removeprefix("{$request.body#/").removesuffix("}"),
        summary=operation["summary"],
        description=f"{operation['description']} {answered}",
        schema=schema,
        key_header=_parameter_row(operation["parameters"][0]),
        example=json_text(document["components"]["schemas"][schema]["examples"][0]),
    )


def _parameter_row(parameter: JsonObject) -> FieldRow:
    schema = parameter["schema"]
    # The page has a table of the values that a description lists.
    description, _, values = parameter["description"].partition("\n- ")
    place = {"path": "in the path", "query": "in the query", "header": "header"}[parameter["in"]]
    constraints = ""
    if not values:
        constraints = _constraints(schema)

    return FieldRow(
        parameter["name"],
        f"{_type_text(schema)}, {place}",
        None,
        bool(parameter.get("required")),
        constraints,
        description,
    )


def _schema_view(name: str, schema: JsonObject) -> SchemaView:
    example = None
    if "examples" in schema:
        example = json_text(schema["examples"][0])

    return SchemaView(
        name,
        schema.get("description", ""),
        _constraints(schema),
        _field_rows(schema, {}),
        example,
    )


def _field_rows(schema: JsonObject, in_place: Mapping[str, JsonObject]) -> tuple[FieldRow, ...]:
    """Describe the members of an object; those objects that are given with their names are
    described in place."""
    required = schema.get("required", ())
    rows = []
    for member, property_ in schema.get("properties", {}).items():
        # What has a name is linked by it, unless it is described here, in place.
        linked_name = _schema_name(property_)
        inner = in_place.get(linked_name or "")
        described = property_
        if inner is not None:
            described = inner
            linked_name = None

        # An object without a name has no other place, either.
        members: tuple[FieldRow, ...] = ()
        if inner is not None or property_.get("type") == "object":
            members = _field_rows(described, in_place)

        rows.append(
            FieldRow(
                name=member,
                type_text=_type_text(property_),
                schema=linked_name,
                is_required=member in required,
                constraints=_constraints(described),
                description=described.get("description", ""),
                members=members,
            )
        )

    # Members of any name, as the merchant's labels have.
    if isinstance(schema.get("additionalProperties"), dict):
        values = schema["additionalProperties"]
        rows.append(FieldRow("any name", _type_text(values), None, False, _constraints(values), ""))

    return tuple(rows)


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
    if isinstance(kinds, str):
        return kinds
    return " or ".join(kinds)


# What a pattern means, where words say it better than the pattern itself.
_PATTERN_TEXTS = {
    NO_CONTROLS_PATTERN: "no control characters",
    NOT_BLANK_PATTERN: "not blank",
    ULID_PATTERN: "a ULID",
}


def _pattern_texts(schema: JsonObject) -> Iterator[str]:
    """Describe the patterns of a text, those of its `allOf` too."""
    for part in (schema, *schema.get("allOf", ())):
        if "pattern" in part:
            yield _PATTERN_TEXTS.get(part["pattern"], f"matches `{part['pattern']}`")


def _constraints(schema: JsonObject) -> str:
    """Describe the limits of a value in words, those of its alternatives too."""
    limits = [text for text in map(_constraints, schema.get("anyOf", ())) if text]
    if "const" in schema:
        limits.append(f"always `{schema['const']}`")

    if "enum" in schema:
        limits.append("one of " + ", ".join(f"`{value}`" for value in schema["enum"]))

    least, most = schema.get("minLength"), schema.get("maxLength")
    if least and most is not None:
        limits.append(f"{least} to {most} characters")
    elif most is not None:
        limits.append(f"at most {most} characters")

    limits += _pattern_texts(schema)
    if "maxProperties" in schema:
        limits.append(f"at most {schema['maxProperties']} entries")

    if "default" in schema:
        limits.append(f"by default {schema['default']}")

    if schema.get("format") == "uri":
        limits.append("URI")

    return "; ".join(limits)

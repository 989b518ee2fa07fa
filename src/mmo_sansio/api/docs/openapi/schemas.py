"""Defines the parts that every JSON Schema (2020-12) of the merchant API is made of."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final, TypeAlias

from mmo_sansio.values.model import Operation

Schema: TypeAlias = dict[str, Any]

NO_CONTROLS_PATTERN: Final = r"^[^\u0000-\u001f\u007f-\u009f]*$"
NOT_BLANK_PATTERN: Final = r"\S"
ULID_PATTERN: Final = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
CREATED_AT_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\+00:00$"
TIMESTAMP_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$"
CURRENCY_PATTERN: Final = "^[A-Z]{3}$"


_DECIMAL_MARK: Final = "\u0000decimal "
_MARKED_DECIMAL: Final = re.compile(r'"\\u0000decimal ([0-9.]+)"')


def document_text(document: object, *, indent: int) -> str:
    """Return a document as JSON. Its Decimals are numbers with all their digits, as amounts are (G6): `150.00`."""

    def mark(value: object) -> str:
        if isinstance(value, Decimal):
            return f"{_DECIMAL_MARK}{value}"
        raise TypeError(f"{value!r} has no place in the document")

    return _MARKED_DECIMAL.sub(r"\1", json.dumps(document, indent=indent, default=mark))


def ref(name: str) -> Schema:
    """Return a reference to one of the shapes."""
    return {"$ref": f"#/components/schemas/{name}"}


def request_name(operation: Operation) -> str:
    """Return the name of the shape of an operation's body: `DirectPayinRequest`."""
    return "".join(part.capitalize() for part in operation.value.split("/")) + "Request"


def nullable(schema: Schema) -> Schema:
    """Return the shape that also allows null."""
    if "type" in schema:
        return schema | {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def string(description: str = "", **keywords: Any) -> Schema:
    """Describe a text, which is any text without keywords."""
    return {"type": "string"} | ({"description": description} if description else {}) | keywords


def text(description: str, *, max_length: int, min_length: int = 1, **keywords: Any) -> Schema:
    """Describe a required text of a request: not blank, no control characters (G7, G8)."""
    keywords = {"minLength": min_length, "maxLength": max_length} | keywords
    if "pattern" not in keywords:
        keywords |= {"pattern": NOT_BLANK_PATTERN, "allOf": [{"pattern": NO_CONTROLS_PATTERN}]}
    return string(description, **keywords)


def optional_text(description: str, *, max_length: int) -> Schema:
    """Describe an optional text of a request; null or an empty one means absent (G4)."""
    return nullable(string(description, maxLength=max_length, pattern=NO_CONTROLS_PATTERN))


def object_schema(description: str, properties: Schema, *, required: list[str] | None = None) -> Schema:
    """Describe an object; every property is required unless `required` lists some."""
    shape = {"type": "object", "description": description, "properties": properties}
    return shape | {"required": list(properties) if required is None else required}


def response_object(description: str, properties: Schema, example: Any) -> Schema:
    """Describe an object of a response: these members with nulls written out (T2), and those of later versions."""
    return object_schema(description, properties) | {"examples": [example]}

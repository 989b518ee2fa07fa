"""Writes and reads the operator's messages: JSON over HTTP, of which nothing is trusted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.providers.common.wire import parse_json, plain_amount
from mmo_sansio.values.money import Money

TEXT_CHARACTERS_MAX = 500
"""The length to which the operator's texts are cut."""

_SPACE = re.compile(r"[ \t\n\r]*")
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


@frozen
class AirtelResponse:
    """Holds the content of a response; None for a member that is missing or invalid."""

    status: int
    """The HTTP status."""
    success: bool | None = None
    is_clear: bool = True
    """False: `success` is there and neither true nor false, so that the response can be read in two ways."""
    code: str | None = None
    """`response_code`, or the code that older responses have in its place."""
    message: str | None = None
    transaction_id: str | None = None
    """The gatewayReference."""
    transaction_status: str | None = None
    """`TS`, `TF`, `TE`, `TA`, `TIP`."""
    airtel_money_id: str | None = None


def to_json(document: Mapping[str, Any]) -> bytes:
    """Return the document as compact JSON in the order of its members, with amounts as exact numbers."""
    return _to_json_text(document).encode()


def parse_response(response: HttpResponse) -> AirtelResponse:
    """Return the content of a response; of an unreadable one only the HTTP status."""
    try:
        document = parse_json(response.body)
    except ValueError:
        return AirtelResponse(response.status)
    status = object_member(document, "status")
    transaction = object_member(object_member(document, "data"), "transaction")
    success = status.get("success")
    return AirtelResponse(
        response.status,
        success=success if isinstance(success, bool) else None,
        is_clear=isinstance(success, bool | None),
        code=_code(document, status),
        message=text_member(transaction, "message")
        or text_member(status, "message")
        or text_member(document, "status_message"),
        transaction_id=text_member(transaction, "id"),
        transaction_status=text_member(transaction, "status"),
        airtel_money_id=text_member(transaction, "airtel_money_id"),
    )


def raw_member(text: str, name: str) -> str | None:
    """Return the value of a member of the JSON object in a text, exactly as written; of several with this name the
    last, as other parsers do. None when it has none. Raises ValueError when the text is no JSON object."""
    decoder, found = json.JSONDecoder(), None
    position = _skip_past(text, 0, "{")
    while text[position : position + 1] != "}":
        key, position = decoder.raw_decode(text, position)
        start = _skip_past(text, position, ":")
        _, end = decoder.raw_decode(text, start)
        if key == name:
            found = text[start:end]
        position = _skip_space(text, end)
        if text[position : position + 1] == ",":
            position = _skip_past(text, position, ",")
        elif text[position : position + 1] != "}":
            raise ValueError("the object has no end")
    return found


def _to_json_text(value: object) -> str:
    if isinstance(value, Money):
        return plain_amount(value)
    if isinstance(value, Mapping):
        members = (f"{json.dumps(name)}:{_to_json_text(each)}" for name, each in value.items())
        return "{" + ",".join(members) + "}"
    return json.dumps(value, ensure_ascii=False)


def _code(document: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    """Return `response_code`, else the deprecated `result_code`, else the code of the router's errors."""
    code = text_member(status, "response_code") or text_member(status, "result_code")
    if code is not None:
        return code
    code = text_member(status, "code")  # Mostly the HTTP status once more.
    if code is not None and not (_DIGITS.fullmatch(code) and len(code) == 3):
        return code
    return text_member(document, "status_code")


def object_member(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object; an empty one in place of anything else."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def text_member(document: Mapping[str, Any], name: str) -> str | None:
    """Return a text that is not empty, cut, or a number as text; else None."""
    value = document.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value[:TEXT_CHARACTERS_MAX] if isinstance(value, str) and value else None


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _skip_past(text: str, position: int, mark: str) -> int:
    position = _skip_space(text, position)
    if text[position : position + 1] != mark:
        raise ValueError(f"no {mark} at character {position}")
    return _skip_space(text, position + 1)

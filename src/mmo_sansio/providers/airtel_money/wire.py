"""The operator's messages as we write and read them: JSON over HTTP, read with suspicion."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.values.money import Money

TOLD_CHARACTERS_MAX = 500
"""How much of the operator's words is kept."""

_SPACE = re.compile(r"[ \t\n\r]*")
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


@frozen
class Answer:
    """What an answer says, None for what it doesn't say or says in no form that makes sense."""

    status: int
    """Of HTTP."""
    success: bool | None = None
    code: str | None = None
    """`response_code`; where that is missing, what older answers have in its place."""
    message: str | None = None
    transaction_id: str | None = None
    """Ours."""
    transaction_status: str | None = None
    """`TS`, `TF`, `TE`, `TA`, `TIP`."""
    airtel_money_id: str | None = None


def written(document: Mapping[str, Any]) -> bytes:
    """The document as compact JSON in the order of its members; amounts as exact numbers."""
    return _text(document).encode()


def amount_written(amount: Money) -> str:
    """An amount as a JSON number, without decimals when it is whole."""
    whole, point, decimals = amount.text.partition(".")
    return f"{whole}{point}{decimals}" if decimals.strip("0") else whole


def read(body: bytes) -> dict[str, Any]:
    """The JSON object in a body; raises ValueError for anything else, and for text that no store can hold."""
    try:
        document = json.loads(body.decode())
        if not isinstance(document, dict):
            raise ValueError("not a JSON object")
        if b"\\u" in body:  # Escapes can spell U+0000 and lone surrogates.
            json.dumps(document, ensure_ascii=False).encode()
            if "\\u0000" in json.dumps(document):
                raise ValueError("it holds U+0000")
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return document


def answer_read(response: HttpResponse) -> Answer:
    """What an answer says; one that can't be read says nothing but its HTTP status."""
    try:
        document = read(response.body)
    except ValueError:
        return Answer(response.status)
    status = _object(document, "status")
    transaction = _object(_object(document, "data"), "transaction")
    success = status.get("success")
    return Answer(
        response.status,
        success=success if isinstance(success, bool) else None,
        code=_code(document, status),
        message=_told(transaction, "message")
        or _told(status, "message")
        or _told(document, "status_message"),
        transaction_id=_told(transaction, "id"),
        transaction_status=_told(transaction, "status"),
        airtel_money_id=_told(transaction, "airtel_money_id"),
    )


def raw_member(text: str, name: str) -> str | None:
    """The value of a member of the JSON object in this text, exactly as it is written there; of several with this name
    the last, as other readers do. None when it has none. Raises ValueError when the text is no JSON object."""
    decoder, found = json.JSONDecoder(), None
    position = _past(text, 0, "{")
    while text[position : position + 1] != "}":
        key, position = decoder.raw_decode(text, position)
        start = _past(text, position, ":")
        _, end = decoder.raw_decode(text, start)
        if key == name:
            found = text[start:end]
        position = _skip(text, end)
        if text[position : position + 1] == ",":
            position = _past(text, position, ",")
        elif text[position : position + 1] != "}":
            raise ValueError("the object has no end")
    return found


def _text(value: object) -> str:
    if isinstance(value, Money):
        return amount_written(value)
    if isinstance(value, Mapping):
        members = (f"{json.dumps(name)}:{_text(each)}" for name, each in value.items())
        return "{" + ",".join(members) + "}"
    return json.dumps(value, ensure_ascii=False)


def _code(document: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    """`response_code`, else the deprecated `result_code`, else what stands where errors of the router are told."""
    code = _told(status, "response_code") or _told(status, "result_code")
    if code is not None:
        return code
    code = _told(status, "code")  # Mostly the HTTP status once more.
    if code is not None and not (_DIGITS.fullmatch(code) and len(code) == 3):
        return code
    return _told(document, "status_code")


def _object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _told(document: Mapping[str, Any], name: str) -> str | None:
    """Text that isn't empty, cut; a number as text."""
    value = document.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value[:TOLD_CHARACTERS_MAX] if isinstance(value, str) and value else None


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _past(text: str, position: int, mark: str) -> int:
    position = _skip(text, position)
    if text[position : position + 1] != mark:
        raise ValueError(f"no {mark} at character {position}")
    return _skip(text, position + 1)

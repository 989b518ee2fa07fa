"""Writes what goes to and comes from an operator as lines of JSON, without secrets, persons and our
addresses.

Each of these is replaced by a stand-in of its form. The same value has the same one within a
recording, and only the recording's key leads from a value to its stand-in; so a test can play the
lines as they were."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from attrs import field, frozen

from mmo_sansio.http.messages import Headers, HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.common.redaction import LONG_SECRET_CHARACTERS, REDACTED

HOOKS: Final = "https://hooks.invalid/hooks/"
"""The beginning of what stands for an address of ours."""

KEPT_HEADERS: Final = frozenset(
    (
        "accept",
        "content-type",
        "retry-after",
        "x-callback-url",
        "x-country",
        "x-currency",
        "x-reference-id",
        "x-target-environment",
    )
)
"""The fields whose values are kept; of all others only the names are."""

_SECRET_NAMES: Final = re.compile(r"password|credential|secret|token|pin$|.key$|hash|signature")
_NUMBER_NAMES: Final = re.compile(r"msisdn|phone|partyid$|^partya$|^partyb$")
_PERSON_NAMES: Final = re.compile(r"name$")
_TEXT_NAMES: Final = re.compile(r"message$|desc$|description$|note$|reason$|remarks$|occasion$")
_PHONE: Final = re.compile(
    r"(?<![0-9A-Za-z.])(\+?[0-9]{0,4}?)([0-9])([0-9]{8})(?![0-9A-Za-z.])", re.ASCII
)
"""A number of nine digits and what may stand before them: a plus sign, a dialling code or a
zero."""
_HOOKS_URL: Final = re.compile(r"(https?://[^\s\"'/]+)?/hooks/[^\s\"'?]+", re.ASCII)


@frozen
class RecordedExchange:
    """A request and what answered it."""

    is_from_operator: bool
    """Whether the operator sent the request: a notification."""
    offset_ms: int
    """When it was answered, in milliseconds since the recording began."""
    request: HttpRequest
    answer: HttpResponse | ExchangeFailed


@frozen
class Redactor:
    """Replaces what a recording must not hold."""

    key: bytes = field(repr=False)
    """The random key of this recording."""
    secrets: Sequence[str] = field(repr=False)
    """The secrets of the account."""

    def to_line(self, exchange: RecordedExchange) -> str:
        request, answer = exchange.request, exchange.answer
        line: dict[str, Any] = {
            "from": "operator" if exchange.is_from_operator else "gateway",
            "offsetMs": exchange.offset_ms,
            "method": request.method,
            "target": self._text(request.target.decode("utf-8", "replace")),
            "headers": self._headers(request.headers),
            "body": self._body(request.body),
        }
        if isinstance(answer, ExchangeFailed):
            return json.dumps(
                {
                    **line,
                    "failure": self._text(answer.reason),
                    "mayHaveArrived": answer.may_have_arrived,
                }
            )
        shown = {
            "status": answer.status,
            "headers": self._headers(answer.headers),
            "body": self._body(answer.body),
        }
        return json.dumps({**line, "answer": shown})

    def _headers(self, headers: Headers) -> dict[str, str]:
        shown = {}
        for name, value in headers:
            plain = name.decode("latin-1").lower()
            shown[plain] = (
                self._text(value.decode("latin-1")) if plain in KEPT_HEADERS else REDACTED
            )
        return shown

    def _body(self, body: bytes) -> Any:
        """Return JSON as it is, redacted; of anything else a page of HTML, say, its text."""
        text = body.decode("utf-8", "replace")
        try:
            return self._value("", json.loads(text))
        except (ValueError, RecursionError):
            return self._text(text)

    def _value(self, name: str, value: Any) -> Any:
        plain = name.lower().replace("_", "").replace(" ", "")
        if isinstance(value, dict):
            named = value.get("Key", value.get("Name"))
            if isinstance(named, str) and "Value" in value:
                return {**value, "Value": self._value(named, value["Value"])}
            return {key: self._value(key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._value(name, each) for each in value]
        if value is None or isinstance(value, bool) or value == "":
            return value
        if _SECRET_NAMES.search(plain):
            return REDACTED
        text = self._text(str(value))
        if not isinstance(value, str):
            return int(text) if text.isdigit() else value if text == str(value) else text
        if _PERSON_NAMES.search(plain):
            number, dash, person = text.partition(" - ")
            return (
                f"{number} - {self._stand_in('NAME', person)}"
                if dash
                else self._stand_in("NAME", text)
            )
        if _NUMBER_NAMES.search(plain) and text == str(value) and not text.isdigit():
            return self._stand_in("NUMBER", text)
        if _TEXT_NAMES.search(plain) and any(each.isdigit() for each in text) and " " in text:
            return "[text]"  # It may name a person.
        return text

    def _text(self, text: str) -> str:
        text = _HOOKS_URL.sub(
            lambda found: HOOKS + self._digest(found[0].rpartition("/hooks/")[2]), text
        )
        for secret in self.secrets:
            if len(secret) >= LONG_SECRET_CHARACTERS:
                text = text.replace(secret, REDACTED)
            elif text == secret:
                text = REDACTED
        return _PHONE.sub(self._phone, text)

    def _phone(self, found: re.Match[str]) -> str:
        digits = int(self._digest(found[2] + found[3]), 16) % 10**8
        return f"{found[1]}{found[2]}{digits:08d}"

    def _stand_in(self, kind: str, value: str) -> str:
        return f"{kind} {self._digest(value)[:4]}"

    def _digest(self, value: str) -> str:
        return hmac.new(self.key, value.encode(), sha256).hexdigest()[:16]

"""An operator that says back all that it hears, and all that it knows of people, in its answers,
error pages and notifications, in every encoding."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import Factory, define, evolve, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import Instant
from mmo_simulators.common.faults import DroppedConnection, FaultScript
from mmo_simulators.common.simulator import Simulator
from tests.support.private_texts import ENCODINGS

WORD_CHARACTERS_MIN = 4
WORD_CHARACTERS_MAX = 120
PAYERS_PAGES = (b"/approve/", b"/c/")
"""Where payers, and no gateway, are answered."""


@define(eq=False)
class EchoingSimulator:
    """Wraps a simulator. The first question about each payment gets an error page."""

    simulator: Simulator
    people: Sequence[str]
    """Names, addresses and numbers of its customers."""
    heard: list[str] = Factory(list)
    """What it says back: the words of the last request, and of people."""
    tokens: list[str] = Factory(list)
    """The access tokens that it has given."""
    _asked: set[bytes] = field(init=False, factory=set)
    _original: dict[HttpRequest, HttpRequest] = field(init=False, factory=dict)

    @property
    def faults(self) -> FaultScript:
        return self.simulator.faults

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        answer = self.simulator.handle_request(request, now=now)
        if isinstance(answer, DroppedConnection) or request.target.startswith(PAYERS_PAGES):
            return answer

        words = self.heard = [*heard_in(request), *self.people]
        is_question = request.method == "GET" and b"oauth" not in request.target
        if is_question and request.target not in self._asked:
            self._asked.add(request.target)
            return HttpResponse(500, echoing_headers(words), error_page(words))

        body = echoing_body(answer.body, words)
        token = json.loads(body or b"{}")
        if isinstance(token, dict) and "access_token" in token:
            self.tokens.append(token["access_token"])
        return evolve(answer, headers=(*answer.headers, *echoing_headers(words)), body=body)

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        callbacks = []
        for told in self.simulator.take_due_callbacks(now=now):
            callback = evolve(told, body=echoing_body(told.body, self.heard))
            self._original[callback] = told
            callbacks.append(callback)
        return callbacks

    def next_due_at(self) -> Instant | None:
        return self.simulator.next_due_at()

    def on_callback_response(
        self, request: HttpRequest, response: HttpResponse | None, *, now: Instant
    ) -> None:
        self.simulator.on_callback_response(self._original.pop(request), response, now=now)

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        self.simulator.open_accounts(accounts)

    def snapshot(self) -> Mapping[str, Any]:
        return self.simulator.snapshot()


def heard_in(request: HttpRequest) -> Iterator[str]:
    """Yield the values of a request's headers, the parts of its address, and the texts and numbers
    of its body."""
    for _, value in request.headers:
        text = value.decode("latin-1")
        yield text
        yield from text.split(" ")[1:]
    yield from request.target.decode().split("/")
    if request.body:
        yield from _values_of(json.loads(request.body))


def _values_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for member in value.values():
            yield from _values_of(member)
    elif isinstance(value, list):
        for item in value:
            yield from _values_of(item)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield str(value)


def echoes(words: Iterable[str]) -> Iterator[str]:
    """Yield each of these in every encoding; of an encrypted PIN or password its beginning, and no
    short codes, as answers with more structure are not read."""
    for word in dict.fromkeys(words):
        if len(word) >= WORD_CHARACTERS_MIN:
            yield from (encode(word[:WORD_CHARACTERS_MAX]) for encode in ENCODINGS.values())


def echoing_body(body: bytes, words: Iterable[str]) -> bytes:
    """Return JSON with further members: the words as codes, messages, names and whole members."""
    document = json.loads(body or b"null")
    if not isinstance(document, dict):
        return body
    places = ("code", "message", "name", "customer", "Value")
    said = [
        {"id": echo, places[number % len(places)]: f"Refused: {echo}", echo: number}
        for number, echo in enumerate(echoes(words))
    ]
    return json.dumps({**document, "items": said}).encode()


def echoing_headers(words: Sequence[str]) -> tuple[tuple[bytes, bytes], ...]:
    """Return headers that a recording keeps, with these words."""
    said = [echo.encode() for echo in echoes(words) if echo.isascii() and echo.isprintable()]
    return tuple((b"x-callback-url", each) for each in said[:40])


def error_page(words: Iterable[str]) -> bytes:
    """Return a page of HTML with these words."""
    return f"<html><body>{'<br>'.join(echoes(words))}</body></html>".encode()

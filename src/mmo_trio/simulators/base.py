"""What every operator's simulator is, and what all of them share: scripted faults, callbacks that wait, controls.

A simulator never waits and never asks the time: it is given requests and instants, and gives answers and callbacks.
:mod:`.serving` puts it on a socket.

    POST /_simulator/faults     {"faults": [{"at": "b2c", "do": "lose_answer", "skip": 0, "times": 1}, ...]}
    POST /_simulator/accounts   {"accounts": [{...}, ...]}, members as the simulator's own
    GET  /_simulator/book       what it did, to the unit
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from attrs import Factory, define, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import SECOND, Instant, Span

CONTROL_PREFIX: Final = "/_simulator/"
JSON_HEADERS: Final = ((b"content-type", b"application/json"),)
ANYWHERE: Final = "*"
"""As a fault's `at`: at any of the operator's own paths."""


@frozen
class NoAnswer:
    """The connection is closed without an answer."""

    hold: Span = 0
    """How long it stays open before."""


@frozen
class LoseRequest:
    """The request is lost before anything was done; `lose_request`."""

    hold: Span = 0


@frozen
class LoseAnswer:
    """The request is carried out, and its answer is lost; `lose_answer`."""

    hold: Span = 0


@frozen
class AnswerInstead:
    """The operator answers so, and does nothing; `answer_instead`."""

    answer: HttpResponse


@frozen
class AnswerAfter:
    """The operator carries the request out, and answers so all the same; `answer_after`."""

    answer: HttpResponse


@frozen
class EndWith:
    """The submission is taken and comes to this result, in the operator's own code; `end_with`."""

    code: str
    message: str | None = None


@frozen
class EndAfter:
    """The submission comes to its result this long after it was taken; `end_after`. None: never."""

    span: Span | None


@frozen
class CallBack:
    """The result is called back this long after it is reached, once for each; `call_back`.

    None at all: the callback never comes. Two: it comes twice. One that is longer than the next payment's: they come
    in the wrong order.
    """

    after: tuple[Span, ...]


Fault: TypeAlias = (
    LoseRequest | LoseAnswer | AnswerInstead | AnswerAfter | EndWith | EndAfter | CallBack
)


@define
class Planned:
    """A fault, and the requests that it shall meet."""

    at: str
    """The simulator's name of an operation, or `*`."""
    fault: Fault
    skip: int = 0
    """How many such requests pass before."""
    times: int = 1
    """How many it meets then."""


@define
class Faults:
    """A script of faults."""

    _planned: list[Planned] = Factory(list)

    def plan(self, planned: Iterable[Planned]) -> None:
        """Follow this script from now on, whatever was left of another."""
        self._planned = list(planned)

    def meet(self, at: str) -> tuple[Fault, ...]:
        """What meets the request that has just come in for this operation; it is used up by that."""
        met = []
        for each in self._planned:
            if each.at not in (at, ANYWHERE):
                continue
            if each.skip > 0:
                each.skip -= 1
            elif each.times > 0:
                each.times -= 1
                met.append(each.fault)
        return tuple(met)


F = TypeVar("F", EndWith, EndAfter, CallBack)


def find(kind: type[F], met: Sequence[Fault]) -> F | None:
    """The first fault of this kind among those that a request met."""
    return next((each for each in met if isinstance(each, kind)), None)


def answered(met: Sequence[Fault], act: Callable[[], HttpResponse]) -> HttpResponse | NoAnswer:
    """The answer to a request that met these faults; `act` carries it out, at most once."""
    for fault in met:
        match fault:
            case LoseRequest(hold):
                return NoAnswer(hold)
            case LoseAnswer(hold):
                act()
                return NoAnswer(hold)
            case AnswerInstead(answer):
                return answer
            case AnswerAfter(answer):
                act()
                return answer
            case EndWith() | EndAfter() | CallBack():
                pass  # They are about what comes after the answer.
    return act()


@define
class Callbacks:
    """Requests that wait for their time, told in the order of their times."""

    _waiting: list[tuple[Instant, int, HttpRequest]] = Factory(list)
    _count: int = 0

    def tell(self, request: HttpRequest, *, at: Instant) -> None:
        """Send this request then; its target is in absolute form."""
        self._count += 1
        heappush(self._waiting, (at, self._count, request))

    def due(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Those whose time has come; they wait no longer."""
        told = []
        while self._waiting and self._waiting[0][0] <= now:
            told.append(heappop(self._waiting)[2])
        return told

    def next_due(self) -> Instant | None:
        """When the next one's time comes."""
        return self._waiting[0][0] if self._waiting else None


class Simulator(Protocol):
    """A make-believe operator."""

    @property
    def faults(self) -> Faults:
        """The script that it follows."""
        ...

    def receive(self, request: HttpRequest, *, now: Instant) -> HttpResponse | NoAnswer:
        """Its answer to a request of its API, the target in origin-form or absolute-form; never raises for a bad
        one."""
        ...

    def due(self, *, now: Instant) -> Sequence[HttpRequest]:
        """The callbacks to send now, in absolute form; each is given out once."""
        ...

    def next_due(self) -> Instant | None:
        """When to ask `due` again; None while nothing will happen by itself."""
        ...

    def heard(self, request: HttpRequest, answer: HttpResponse | None, *, now: Instant) -> None:
        """What came of a callback of `due`: the gateway's answer, or None when there was none."""
        ...

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open these accounts, or set those that exist; raises ValueError when one of them makes no sense."""
        ...

    def book(self) -> Mapping[str, Any]:
        """Everything that it did, as JSON: `{"accounts": [{"account", "currency", "balance"}, ...],
        "payments": [{"kind", "reference", "receipt", "account", "amount", "currency", "result", "told"}, ...]}`.

        Amounts are text such as `150.00`; `reference` is what the gateway called the payment; `receipt` the operator's
        own number; `result` is null, `success` or the native code; `told` counts the callbacks given out.
        """
        ...


def control(simulator: Simulator, request: HttpRequest) -> HttpResponse | None:
    """The answer to a request that is about the simulation itself; None when it isn't one of those."""
    path, _ = path_and_query(request)
    try:
        match request.method, path:
            case "GET", "/_simulator/book":
                return json_answer(200, simulator.book())
            case "POST", "/_simulator/faults":
                simulator.faults.plan(planned_read(each) for each in _list(request, "faults"))
                return json_answer(200, {"planned": True})
            case "POST", "/_simulator/accounts":
                simulator.open_accounts(_list(request, "accounts"))
                return json_answer(200, {"opened": True})
            case _:
                return None
    except ValueError as error:
        return json_answer(400, {"error": str(error)})


def planned_read(document: Mapping[str, Any]) -> Planned:
    """A line of a script; raises ValueError when it makes no sense.

    `{"at", "do", "skip", "times"}` and what `do` takes: `hold_s`; `status`, `headers`, `body`; `code`, `message`;
    `after_s` (a number, null or, for `call_back`, a list).
    """
    given = dict(document)
    at, do = given.pop("at", ANYWHERE), given.pop("do", None)
    skip, times = given.pop("skip", 0), given.pop("times", 1)
    if do not in _READERS or not isinstance(at, str):
        raise ValueError(f"do must be one of {', '.join(_READERS)}")
    if not isinstance(skip, int) or not isinstance(times, int) or min(skip, times) < 0:
        raise ValueError("skip and times must be counts")
    try:
        fault = _READERS[do](**given)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{do}: {error}") from None
    return Planned(at, fault, skip, times)


def _span(seconds: float) -> Span:
    return round(seconds * SECOND)


def _answer(
    status: int, body: Any = None, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    fields = tuple((k.lower().encode(), v.encode()) for k, v in (headers or {}).items())
    if body is None:
        return HttpResponse(status, fields)
    octets = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return HttpResponse(status, fields or JSON_HEADERS, octets)


_READERS: Final[Mapping[str, Callable[..., Fault]]] = {
    "lose_request": lambda hold_s=0: LoseRequest(_span(hold_s)),
    "lose_answer": lambda hold_s=0: LoseAnswer(_span(hold_s)),
    "answer_instead": lambda **answer: AnswerInstead(_answer(**answer)),
    "answer_after": lambda **answer: AnswerAfter(_answer(**answer)),
    "end_with": lambda code, message=None: EndWith(str(code), message),
    "end_after": lambda after_s: EndAfter(None if after_s is None else _span(after_s)),
    "call_back": lambda after_s: CallBack(tuple(map(_span, after_s))),
}
"""How a script's line is read, by what it does."""


def path_and_query(request: HttpRequest) -> tuple[str, str]:
    """The path and the query of a request, whichever form its target has."""
    target = request.target.decode("ascii", "replace")
    scheme, separator, rest = target.partition("://")
    if separator and "/" not in scheme:
        _, slash, tail = rest.partition("/")
        target = slash + tail
    path, _, query = target.partition("?")
    return path or "/", query


def json_answer(status: int, document: object) -> HttpResponse:
    """An answer in JSON."""
    return HttpResponse(status, JSON_HEADERS, json.dumps(document, ensure_ascii=False).encode())


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body; raises ValueError for anything else."""
    try:
        document = json.loads(body)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    return document


def _list(request: HttpRequest, name: str) -> list[Mapping[str, Any]]:
    found = json_object(request.body).get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"{name} must be a list of objects")
    return found

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

JSON_HEADERS: Final = ((b"content-type", b"application/json"),)
ANY_OPERATION: Final = "*"
"""As a fault's `at`: at any of the operator's own paths."""


@frozen
class DroppedConnection:
    """The connection is closed without an answer."""

    close_after: Span = Span(0)
    """How long it stays open before."""


@frozen
class LoseRequest:
    """The request is lost before anything was done; `lose_request`."""

    close_after: Span = Span(0)


@frozen
class LoseAnswer:
    """The request is carried out, and its answer is lost; `lose_answer`."""

    close_after: Span = Span(0)


@frozen
class AnswerInstead:
    """The operator answers so, and does nothing; `answer_instead`."""

    response: HttpResponse


@frozen
class AnswerAfter:
    """The operator carries the request out, and answers so all the same; `answer_after`."""

    response: HttpResponse


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
    """The result is called back this long after it is reached, once for each; `send_due_callbacks`.

    None at all: the callback never comes. Two: it comes twice. One that is longer than the next payment's: they come
    in the wrong order.
    """

    after: tuple[Span, ...]


Fault: TypeAlias = (
    LoseRequest | LoseAnswer | AnswerInstead | AnswerAfter | EndWith | EndAfter | CallBack
)


@define
class PlannedFault:
    """A fault, and the requests that it shall meet."""

    operation: str
    """The simulator's name of an operation, or `*`."""
    fault: Fault
    skip: int = 0
    """How many such requests pass before."""
    times: int = 1
    """How many it meets then."""


@define
class FaultScript:
    """A script of faults."""

    _planned: list[PlannedFault] = Factory(list)

    def plan(self, planned: Iterable[PlannedFault]) -> None:
        """Follow this script from now on, whatever was left of another."""
        self._planned = list(planned)

    def take_matching(self, operation: str) -> tuple[Fault, ...]:
        """What meets the request that has just come in for this operation; it is used up by that."""
        met = []
        for each in self._planned:
            if each.operation not in (operation, ANY_OPERATION):
                continue
            if each.skip > 0:
                each.skip -= 1
            elif each.times > 0:
                each.times -= 1
                met.append(each.fault)
        return tuple(met)


FaultT = TypeVar("FaultT", EndWith, EndAfter, CallBack)


def find_fault(fault_type: type[FaultT], faults: Sequence[Fault]) -> FaultT | None:
    """The first fault of this kind among those that a request met."""
    return next((each for each in faults if isinstance(each, fault_type)), None)


def respond_with_faults(
    faults: Sequence[Fault], handle: Callable[[], HttpResponse]
) -> HttpResponse | DroppedConnection:
    """The answer to a request that met these faults; `act` carries it out, at most once."""
    for fault in faults:
        match fault:
            case LoseRequest(hold):
                return DroppedConnection(hold)
            case LoseAnswer(hold):
                handle()
                return DroppedConnection(hold)
            case AnswerInstead(answer):
                return answer
            case AnswerAfter(answer):
                handle()
                return answer
            case EndWith() | EndAfter() | CallBack():
                pass  # They are about what comes after the answer.
    return handle()


@define
class CallbackQueue:
    """Requests that wait for their time, told in the order of their times."""

    _queue: list[tuple[Instant, int, HttpRequest]] = Factory(list)
    _count: int = 0

    def schedule(self, request: HttpRequest, *, at: Instant) -> None:
        """Send this request then; its target is in absolute form."""
        self._count += 1
        heappush(self._queue, (at, self._count, request))

    def take_due(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Those whose time has come; they wait no longer."""
        told = []
        while self._queue and self._queue[0][0] <= now:
            told.append(heappop(self._queue)[2])
        return told

    def next_due_at(self) -> Instant | None:
        """When the next one's time comes."""
        return self._queue[0][0] if self._queue else None


class Simulator(Protocol):
    """A make-believe operator."""

    @property
    def faults(self) -> FaultScript:
        """The script that it follows."""
        ...

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        """Its answer to a request of its API, the target in origin-form or absolute-form; never raises for a bad
        one."""
        ...

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """The callbacks to send now, in absolute form; each is given out once."""
        ...

    def next_due_at(self) -> Instant | None:
        """When to ask `due` again; None while nothing will happen by itself."""
        ...

    def on_callback_response(
        self, request: HttpRequest, response: HttpResponse | None, *, now: Instant
    ) -> None:
        """What came of a callback of `due`: the gateway's answer, or None when there was none."""
        ...

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open these accounts, or set those that exist; raises ValueError when one of them makes no sense."""
        ...

    def snapshot(self) -> Mapping[str, Any]:
        """Everything that it did, as JSON: `{"accounts": [{"account", "currency", "balance"}, ...],
        "payments": [{"kind", "reference", "receipt", "account", "amount", "currency", "result", "told"}, ...]}`.

        Amounts are text such as `150.00`; `reference` is what the gateway called the payment; `receipt` the operator's
        own number; `result` is null, `success` or the native code; `told` counts the callbacks given out.
        """
        ...


def handle_control_request(simulator: Simulator, request: HttpRequest) -> HttpResponse | None:
    """The answer to a request that is about the simulation itself; None when it isn't one of those."""
    path, _ = path_and_query(request)
    try:
        match request.method, path:
            case "GET", "/_simulator/book":
                return json_response(200, simulator.snapshot())
            case "POST", "/_simulator/faults":
                simulator.faults.plan(
                    parse_planned_fault(each) for each in _required_object_list(request, "faults")
                )
                return json_response(200, {"planned": True})
            case "POST", "/_simulator/accounts":
                simulator.open_accounts(_required_object_list(request, "accounts"))
                return json_response(200, {"opened": True})
            case _:
                return None
    except ValueError as error:
        return json_response(400, {"error": str(error)})


def parse_planned_fault(document: Mapping[str, Any]) -> PlannedFault:
    """A line of a script; raises ValueError when it makes no sense.

    `{"at", "do", "skip", "times"}` and what `do` takes: `hold_s`; `status`, `headers`, `body`; `code`, `message`;
    `after_s` (a number, null or, for `send_due_callbacks`, a list).
    """
    given = dict(document)
    at, do = given.pop("at", ANY_OPERATION), given.pop("do", None)
    skip, times = given.pop("skip", 0), given.pop("times", 1)
    if do not in _FAULT_PARSERS or not isinstance(at, str):
        raise ValueError(f"do must be one of {', '.join(_FAULT_PARSERS)}")
    if not isinstance(skip, int) or not isinstance(times, int) or min(skip, times) < 0:
        raise ValueError("skip and times must be counts")
    try:
        fault = _FAULT_PARSERS[do](**given)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{do}: {error}") from None
    return PlannedFault(at, fault, skip, times)


def _to_span(seconds: float) -> Span:
    return Span(round(seconds * SECOND))


def _scripted_response(
    status: int, body: Any = None, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    fields = tuple((k.lower().encode(), v.encode()) for k, v in (headers or {}).items())
    if body is None:
        return HttpResponse(status, fields)
    octets = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return HttpResponse(status, fields or JSON_HEADERS, octets)


_FAULT_PARSERS: Final[Mapping[str, Callable[..., Fault]]] = {
    "lose_request": lambda hold_s=0: LoseRequest(_to_span(hold_s)),
    "lose_answer": lambda hold_s=0: LoseAnswer(_to_span(hold_s)),
    "answer_instead": lambda **answer: AnswerInstead(_scripted_response(**answer)),
    "answer_after": lambda **answer: AnswerAfter(_scripted_response(**answer)),
    "end_with": lambda code, message=None: EndWith(str(code), message),
    "end_after": lambda after_s: EndAfter(None if after_s is None else _to_span(after_s)),
    "call_back": lambda after_s: CallBack(tuple(map(_to_span, after_s))),
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


def json_response(status: int, document: object) -> HttpResponse:
    """An answer in JSON."""
    return HttpResponse(status, JSON_HEADERS, json.dumps(document, ensure_ascii=False).encode())


def parse_json_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body; raises ValueError for anything else."""
    try:
        document = json.loads(body)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    return document


def _required_object_list(request: HttpRequest, name: str) -> list[Mapping[str, Any]]:
    found = parse_json_object(request.body).get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"{name} must be a list of objects")
    return found

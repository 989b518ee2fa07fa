"""Defines what an operator's simulator is, and what all of them share: scripted faults, scheduled callbacks, controls.

A simulator never waits and reads no clock: it is given requests and instants, and returns responses and callbacks.
`server` puts it on a socket.

    POST /_simulator/faults     {"faults": [{"at": "b2c", "do": "lose_answer", "times": 1}, ...]}
    POST /_simulator/accounts   {"accounts": [{...}, ...]}, with the simulator's own members
    GET  /_simulator/book       all accounts and payments
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from attrs import Factory, define, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import SECOND, Instant, Span
from mmo_sansio.values.money import Money

JSON_HEADERS: Final = ((b"content-type", b"application/json"),)
ANY_OPERATION: Final = "*"
"""The `at` of a fault for any of the operator's own paths."""


@frozen
class DroppedConnection:
    """The connection is closed without a response."""

    close_after: Span = Span(0)
    """How long the connection stays open before that."""


@frozen
class LoseRequest:
    """The request is lost before anything is done; `lose_request`."""

    close_after: Span = Span(0)


@frozen
class LoseAnswer:
    """The request is carried out, and its response is lost; `lose_answer`."""

    close_after: Span = Span(0)


@frozen
class AnswerInstead:
    """The operator sends this response and does nothing; `answer_instead`."""

    response: HttpResponse


@frozen
class AnswerAfter:
    """The operator carries the request out and sends this response; `answer_after`."""

    response: HttpResponse


@frozen
class EndWith:
    """The submission is accepted and gets this result, in the operator's own code; `end_with`."""

    code: str
    message: str | None = None


@frozen
class PollWith:
    """The submission is accepted, and questions about it by its own id are answered with this failure, in the
    operator's own code, whatever becomes of it; `poll_with`."""

    code: str


@frozen
class EndAfter:
    """The submission gets its result this long after it was accepted; `end_after`. None: never."""

    span: Span | None


@frozen
class CallBack:
    """The result is called back this long after it is reached, once for each span; `call_back`.

    An empty tuple means that the callback never comes; two spans, that it comes twice. A span longer than the next
    payment's changes the order of callbacks.
    """

    after: tuple[Span, ...]


Fault: TypeAlias = LoseRequest | LoseAnswer | AnswerInstead | AnswerAfter | EndWith | PollWith | EndAfter | CallBack


@define
class PlannedFault:
    """A fault, and the requests that it applies to."""

    operation: str
    """The simulator's name of an operation, or `*`."""
    fault: Fault
    skip: int = 0
    """How many such requests pass before."""
    times: int = 1
    """How many requests it applies to then."""


@define
class FaultScript:
    """Holds the faults that are planned."""

    _planned: list[PlannedFault] = Factory(list)

    def plan(self, planned: Iterable[PlannedFault]) -> None:
        """Replace the script by this one."""
        self._planned = list(planned)

    def take_matching(self, operation: str) -> tuple[Fault, ...]:
        """Return the faults for the request that has just arrived for this operation, and use them up."""
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


FaultT = TypeVar("FaultT", EndWith, PollWith, EndAfter, CallBack)


def find_fault(fault_type: type[FaultT], faults: Sequence[Fault]) -> FaultT | None:
    """Return the first fault of this type, or None."""
    return next((each for each in faults if isinstance(each, fault_type)), None)


class RequestRejected(Exception):
    """Raised for a request that the operator rejects with this response."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__(response.status)
        self.response = response


def respond_with_faults(faults: Sequence[Fault], act: Callable[[], HttpResponse]) -> HttpResponse | DroppedConnection:
    """Return the response to a request with these faults; `act` is called at most once, and may raise
    RequestRejected."""

    def handle() -> HttpResponse:
        try:
            return act()
        except RequestRejected as rejected:
            return rejected.response

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
            case EndWith() | PollWith() | EndAfter() | CallBack():
                pass  # They are about what comes after the answer.
    return handle()


ItemT = TypeVar("ItemT")


@define
class DueQueue(Generic[ItemT]):
    """Holds items until they are due, in the order of their times."""

    _heap: list[tuple[Instant, int, ItemT]] = Factory(list)
    _count: int = 0

    def schedule(self, item: ItemT, *, at: Instant) -> None:
        """Add an item that is due then."""
        self._count += 1
        heappush(self._heap, (at, self._count, item))

    def take_due(self, *, now: Instant) -> Iterator[tuple[Instant, ItemT]]:
        """Remove and yield what is due, with its time, also what is scheduled meanwhile."""
        while self._heap and self._heap[0][0] <= now:
            at, _, item = heappop(self._heap)
            yield at, item

    def next_due_at(self) -> Instant | None:
        """Return when the next item is due; None when there is none."""
        return self._heap[0][0] if self._heap else None


def earliest(*instants: Instant | None) -> Instant | None:
    """Return the first of these instants; None when all are None."""
    return min((each for each in instants if each is not None), default=None)


class Simulator(Protocol):
    """Simulates an operator: responds to requests and calls back."""

    @property
    def faults(self) -> FaultScript:
        """Return the script that it follows."""
        ...

    def handle_request(self, request: HttpRequest, *, now: Instant) -> HttpResponse | DroppedConnection:
        """Return the response to a request of its API, whose target is in origin-form or absolute-form. Never raises
        for a bad request."""
        ...

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Return the callbacks to send now, in absolute form; each is returned once."""
        ...

    def next_due_at(self) -> Instant | None:
        """Return when to call `take_due_callbacks` again; None while nothing is scheduled."""
        ...

    def on_callback_response(self, request: HttpRequest, response: HttpResponse | None, *, now: Instant) -> None:
        """Take the gateway's response to a callback, or None when there was none."""
        ...

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open these accounts, or change those that exist. Raises ValueError for an invalid one."""
        ...

    def snapshot(self) -> Mapping[str, Any]:
        """Return everything it did, as JSON: `{"accounts": [account_row, ...], "payments": [payment_row, ...]}`.

        Amounts are text such as `150.00`; `reference` is the gateway's name of the payment; `receipt` is the operator's
        own number; `result` is null, `success` or the native code; the last member counts the callbacks.
        """
        ...


def handle_control_request(simulator: Simulator, request: HttpRequest) -> HttpResponse | None:
    """Return the response to a request that controls the simulation; None for any other request."""
    path, _ = path_and_query(request)
    try:
        match request.method, path:
            case "GET", "/_simulator/book":
                return json_response(200, simulator.snapshot())
            case "POST", "/_simulator/faults":
                simulator.faults.plan(parse_planned_fault(each) for each in _required_object_list(request, "faults"))
                return json_response(200, {"planned": True})
            case "POST", "/_simulator/accounts":
                simulator.open_accounts(_required_object_list(request, "accounts"))
                return json_response(200, {"opened": True})
            case _:
                return None
    except ValueError as error:
        return json_response(400, {"error": str(error)})


def parse_planned_fault(document: Mapping[str, Any]) -> PlannedFault:
    """Parse a line of a script. Raises ValueError for an invalid one.

    The line is `{"at", "do", "skip", "times"}` and the parameters of `do`: `hold_s`; `status`, `headers`, `body`;
    `code`, `message`; `after_s` (a number, null or, for `call_back`, a list).
    """
    parameters = dict(document)
    at, do = parameters.pop("at", ANY_OPERATION), parameters.pop("do", None)
    skip, times = parameters.pop("skip", 0), parameters.pop("times", 1)
    if do not in _FAULT_PARSERS or not isinstance(at, str):
        raise ValueError(f"do must be one of {', '.join(_FAULT_PARSERS)}")
    if not isinstance(skip, int) or not isinstance(times, int) or min(skip, times) < 0:
        raise ValueError("skip and times must be counts")
    try:
        fault = _FAULT_PARSERS[do](**parameters)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{do}: {error}") from None
    return PlannedFault(at, fault, skip, times)


def _to_span(seconds: float) -> Span:
    return Span(round(seconds * SECOND))


def _scripted_response(status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> HttpResponse:
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
    "poll_with": lambda code: PollWith(str(code)),
    "end_after": lambda after_s: EndAfter(None if after_s is None else _to_span(after_s)),
    "call_back": lambda after_s: CallBack(tuple(map(_to_span, after_s))),
}
"""By the `do` of a script's line."""


def account_row(account: str, balance: Money) -> dict[str, str]:
    """Return an account as `Simulator.snapshot` shows it."""
    return {"account": account, "currency": balance.currency, "balance": balance.text}


def payment_row(
    kind: str, reference: str, receipt: str | None, account: str, amount: Money, result: str | None, callback_count: int
) -> dict[str, Any]:
    """Return a payment as `Simulator.snapshot` shows it."""
    return {
        "kind": kind,
        "reference": reference,
        "receipt": receipt,
        "account": account,
        "amount": amount.text,
        "currency": amount.currency,
        "result": result,
        "told": callback_count,
    }


def path_and_query(request: HttpRequest) -> tuple[str, str]:
    """Return the path and the query of a request, for either form of target."""
    target = request.target.decode("ascii", "replace")
    scheme, separator, rest = target.partition("://")
    if separator and "/" not in scheme:
        _, slash, tail = rest.partition("/")
        target = slash + tail
    path, _, query = target.partition("?")
    return path or "/", query


def json_response(status: int, document: object) -> HttpResponse:
    """Return a response in JSON."""
    return HttpResponse(status, JSON_HEADERS, json.dumps(document, ensure_ascii=False).encode())


def parse_json_object(body: bytes) -> dict[str, Any]:
    """Parse the JSON object in a body. Raises ValueError for anything else."""
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

"""Defines what may go wrong at a simulated operator, and the script that says when."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from attrs import Factory, define, frozen

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.values.clock import SECOND, Span
from mmo_simulators.common.messages import JSON_HEADERS

# The `at` of a fault for any of the operator's own paths.
ANY_OPERATION: Final = "*"

# Fields that the server adds to each response.
SERVERS_OWN_HEADERS: Final = frozenset(
    {b"connection", b"content-length", b"date", b"transfer-encoding"}
)


@frozen
class DroppedConnection:
    """The connection is closed without a whole response."""

    close_after: Span = Span(0)
    """How long the connection stays open before that."""
    response: HttpResponse | None = None
    """The response that breaks off; None: none begins."""
    sent_share: float = 0.0
    """The share of its bytes, head and body, that is sent; less than 1."""


@frozen
class LoseRequest:
    """The request is lost before anything is done; `lose_request`."""

    close_after: Span = Span(0)


@frozen
class LoseAnswer:
    """The request is carried out, and its response is lost; `lose_answer`."""

    close_after: Span = Span(0)


@frozen
class CutAnswer:
    """The request is carried out, and its response breaks off; `cut_answer`."""

    sent_share: float = 0.5
    """The share of its bytes, head and body, that is sent; more than 0 and less than 1."""
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
    """The submission is accepted, and questions about it by its own id are answered with this
    failure, in the operator's own code, whatever becomes of it; `poll_with`."""

    code: str


@frozen
class EndAfter:
    """The submission gets its result this long after it was accepted; `end_after`. None: never."""

    span: Span | None


@frozen
class CallBack:
    """The result is called back this long after it is reached, once for each span; `call_back`.

    An empty tuple means that the callback never comes; two spans, that it comes twice. A span
    longer than the next payment's changes the order of callbacks."""

    after: tuple[Span, ...]


Fault: TypeAlias = (
    LoseRequest
    | LoseAnswer
    | CutAnswer
    | AnswerInstead
    | AnswerAfter
    | EndWith
    | PollWith
    | EndAfter
    | CallBack
)


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
        """Return the faults for the request that has just arrived for this operation, and use them
        up."""
        # One that is skipped uses up its skip, and the others apply all the same.
        matching = []
        for fault in self._planned:
            if fault.operation not in (operation, ANY_OPERATION):
                continue
            if fault.skip > 0:
                fault.skip -= 1
            elif fault.times > 0:
                fault.times -= 1
                matching.append(fault.fault)

        return tuple(matching)


FaultT = TypeVar("FaultT", EndWith, PollWith, EndAfter, CallBack)


def find_fault(fault_type: type[FaultT], faults: Sequence[Fault]) -> FaultT | None:
    """Return the first fault of this type, or None."""
    return next((fault for fault in faults if isinstance(fault, fault_type)), None)


class RequestRejected(Exception):
    """Raised for a request that the operator rejects with this response."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__(response.status)
        self.response = response


def respond_with_faults(
    faults: Sequence[Fault], act: Callable[[], HttpResponse]
) -> HttpResponse | DroppedConnection:
    """Return the response to a request with these faults; `act` is called at most once, and may
    raise RequestRejected."""

    def handle() -> HttpResponse:
        try:
            return act()
        except RequestRejected as rejected:
            return rejected.response

    # The first that is about the answer decides: a request has one answer.
    for fault in faults:
        match fault:
            case LoseRequest(hold):
                return DroppedConnection(hold)
            case LoseAnswer(hold):
                handle()
                return DroppedConnection(hold)
            case CutAnswer(share, hold):
                return DroppedConnection(hold, handle(), share)
            case AnswerInstead(answer):
                return answer
            case AnswerAfter(answer):
                handle()
                return answer
            # These are about what comes after the answer.
            case EndWith() | PollWith() | EndAfter() | CallBack():
                pass

    return handle()


def parse_planned_fault(document: Mapping[str, Any]) -> PlannedFault:
    """Parse a line of a script. Raises ValueError for an invalid one.

    The line is `{"at", "do", "skip", "times"}` and the parameters of `do`: `hold_s`; `share`;
    `status`, `headers`, `body`; `code`, `message`; `after_s` (a number, null or, for `call_back`, a
    list)."""
    parameters = dict(document)
    at = parameters.pop("at", ANY_OPERATION)
    do = parameters.pop("do", None)
    skip = parameters.pop("skip", 0)
    times = parameters.pop("times", 1)
    if do not in _FAULT_PARSERS or not isinstance(at, str):
        raise ValueError(f"do must be one of {', '.join(_FAULT_PARSERS)}")
    if not isinstance(skip, int) or not isinstance(times, int) or min(skip, times) < 0:
        raise ValueError("skip and times must be counts")

    # The rest are the parser's arguments: its signature says which there are.
    try:
        fault = _FAULT_PARSERS[do](**parameters)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{do}: {error}") from None

    return PlannedFault(at, fault, skip, times)


def _to_span(seconds: float) -> Span:
    return Span(round(seconds * SECOND))


def _cut_answer(share: float = 0.5, hold_s: float = 0) -> CutAnswer:
    if not 0 < share < 1:
        raise ValueError(
            "share must be more than 0 and less than 1: it is the part of the response that is sent"
        )
    return CutAnswer(share, _to_span(hold_s))


def _scripted_response(
    status: int, body: Any = None, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    fields = tuple((k.lower().encode(), v.encode()) for k, v in (headers or {}).items())
    if not isinstance(status, int) or not 200 <= status <= 599:
        raise ValueError("status must be a number from 200 to 599")
    # Written twice, they would make a response that can be read in two ways.
    if own := sorted(name.decode() for name, _ in fields if name in SERVERS_OWN_HEADERS):
        raise ValueError(f"headers may not have {own[0]}: the server sends its own")
    if body is None:
        return HttpResponse(status, fields)

    if isinstance(body, str):
        octets = body.encode()
    else:
        octets = json.dumps(body).encode()

    return HttpResponse(status, fields or JSON_HEADERS, octets)


def _optional_span(seconds: float | None) -> Span | None:
    if seconds is None:
        return None
    return _to_span(seconds)


# By the `do` of a script's line.
_FAULT_PARSERS: Final[Mapping[str, Callable[..., Fault]]] = {
    "lose_request": lambda hold_s=0: LoseRequest(_to_span(hold_s)),
    "lose_answer": lambda hold_s=0: LoseAnswer(_to_span(hold_s)),
    "cut_answer": _cut_answer,
    "answer_instead": lambda **answer: AnswerInstead(_scripted_response(**answer)),
    "answer_after": lambda **answer: AnswerAfter(_scripted_response(**answer)),
    "end_with": lambda code, message=None: EndWith(str(code), message),
    "poll_with": lambda code: PollWith(str(code)),
    "end_after": lambda after_s: EndAfter(_optional_span(after_s)),
    "call_back": lambda after_s: CallBack(tuple(map(_to_span, after_s))),
}

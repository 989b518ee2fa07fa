"""Judges what an endpoint did in a situation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

from attrs import frozen

from mmo_merchant.endpoint_check.situations.situation import (
    ConnectionUse,
    Expectation,
    Handling,
    PlayedRequest,
    Script,
    Situation,
)


@frozen
class EndpointAnswer:
    """Is the endpoint's answer to one request."""

    status: int
    duration_s: float
    """From the first byte sent to the end of the answer's head (K2)."""
    has_key: bool = False
    """Whether the merchant's API key stands in it."""
    is_whole: bool = True
    """Whether its body came to its end."""


@frozen
class NoEndpointAnswer:
    """Says that a request has had no answer in HTTP."""

    reason: str
    """A clause that ends without a dot."""


# The fault of an endpoint that repeats the key; it counts in every situation.
KEY_IN_ANSWER: Final = "The answer has your API key in it, which belongs in no answer and no log."

# What followed one request.
Observation: TypeAlias = EndpointAnswer | NoEndpointAnswer

# What the merchant has handled, by gatewayReference; a text says why that could not be learnt.
Handled: TypeAlias = Mapping[str, Handling | str]


class VerdictKind(StrEnum):
    """Says how a situation ended."""

    PASSED = "passed"
    FAILED = "failed"
    ADVICE = "advice"
    """The endpoint answered otherwise than is advised."""
    NOT_PLAYED = "not_played"


@frozen
class Verdict:
    """Is the judgement of one situation."""

    situation: Situation
    kind: VerdictKind
    reasons: tuple[str, ...] = ()
    """Sentences: what was wrong, or why it was not played."""
    question: str | None = None
    """What the merchant has to ask himself, as it did not show; None when everything did."""


def judge(
    situation: Situation,
    script: Script,
    observed: Sequence[Sequence[Observation]],
    handled: Handled | None,
) -> Verdict:
    """Return the verdict; `observed` has the observations of each round, in its order.

    `handled` is None when the merchant cannot be asked what he has handled.
    """
    # Each request with what followed it.
    exchanges = [
        exchange
        for requests, observations in zip(script.rounds, observed, strict=True)
        for exchange in zip(requests, observations, strict=True)
    ]
    faults = [
        fault
        for exchange in exchanges
        if (fault := _answer_fault(*exchange, script.connection)) is not None
    ]

    # A key that is repeated and a result that was handled wrongly count in every situation; a
    # wrong answer counts only where it is required.
    grave = []
    if any(_has_key(observation) for _, observation in exchanges):
        grave.append(KEY_IN_ANSWER)

    if handled is not None:
        grave += _handling_faults(script, handled)

    if grave or (faults and situation.is_required):
        kind = VerdictKind.FAILED
    else:
        kind = VerdictKind.ADVICE if faults else VerdictKind.PASSED

    # Who asks the merchant's program needs not ask the merchant.
    question = None
    if script.handled and handled is None:
        question = situation.question

    # One sentence for what was wrong in several requests.
    reasons = tuple(dict.fromkeys(faults + grave))
    return Verdict(situation, kind, reasons, question)


def _has_key(observation: Observation) -> bool:
    return isinstance(observation, EndpointAnswer) and observation.has_key


def _answer_fault(
    request: PlayedRequest, observation: Observation, connection: ConnectionUse
) -> str | None:
    """Return what is wrong with the answer to one request; None when nothing is."""
    if request.expectation is Expectation.NOTHING:
        return None

    match observation:
        case NoEndpointAnswer(reason=reason):
            return f"There was no answer: {reason}."
        case EndpointAnswer(status=status, duration_s=duration_s, is_whole=is_whole):
            # Each of these makes the next one meaningless, so the first counts.
            if (fault := _status_fault(request.expectation, status)) is not None:
                return fault
            if duration_s > request.within_s:
                return f"The answer took {duration_s:.1f} s."
            # The rest of a body would be read as the next answer on this connection.
            if connection is ConnectionUse.KEPT and not is_whole:
                return "The body of the answer did not come to its end."
            return None
        case _:
            assert_never(observation)


def _status_fault(expectation: Expectation, status: int) -> str | None:
    """Return what is wrong with a status, in one sentence; None when nothing is."""
    accepted = 200 <= status <= 299
    match expectation:
        case Expectation.ACCEPT if not accepted:
            # The gateway follows no redirect (K2): its address itself has to be right.
            redirected = ""
            if 300 <= status <= 399:
                redirected = " A redirect is not followed."

            return (
                f"It answered {status}, so the delivery has failed, and there is no second "
                f"one.{redirected}"
            )
        case Expectation.REJECT if not 400 <= status <= 499:
            return f"It answered {status} instead of a 4xx."
        case Expectation.NO_FAULT if status >= 500:
            return f"It answered {status}: the request broke it."
        case Expectation.DECLINE if accepted:
            return f"It answered {status}."
        case _:
            return None


def _handling_faults(script: Script, handled: Handled) -> Iterator[str]:
    for reference, expected in script.handled.items():
        reported = handled[reference]
        if isinstance(reported, str):
            yield f"What you have handled could not be learnt: {reported}"
        elif reported.times != expected.times:
            yield (
                f"You have handled the result of {reference} {_times(reported.times)} instead of "
                f"{_times(expected.times)}."
            )
        else:
            yield from _booking_faults(reference, expected, reported)


def _booking_faults(reference: str, expected: Handling, reported: Handling) -> Iterator[str]:
    # What the merchant's program does not tell is not judged.
    if None not in (expected.status, reported.status) and expected.status != reported.status:
        yield f"You have booked {reference} as {reported.status}, but it is {expected.status}."
    if (
        expected.amount is not None
        and reported.amount is not None
        and not _is_same(expected.amount, reported.amount)
    ):
        yield f"You have booked {reported.amount} for {reference}, but it is {expected.amount}."


def _times(count: int) -> str:
    if count == 1:
        return "once"
    return f"{count} times"


def _is_same(expected: str, reported: str) -> bool:
    # As numbers: a program may write 150 for 150.00.
    try:
        return Decimal(expected) == Decimal(reported)
    except InvalidOperation:
        return False


def parse_handling(text: str) -> Handling:
    """Return what a merchant's own program reports about one payment: a number, or a JSON object
    with `handled` and, if it likes, `status` and `amount`. Raises ValueError with a sentence."""
    try:
        # Amounts stay text: a binary float would make 999999999999999.99 another number.
        parsed = json.loads(text, parse_float=str)
    except (ValueError, RecursionError):
        parsed = None

    # True is an integer of Python's, and no number of times; it is refused below.
    if isinstance(parsed, int):
        members = {"handled": parsed}
    else:
        members = parsed

    if isinstance(members, dict):
        times = members.get("handled")
        if isinstance(times, int) and not isinstance(times, bool) and times >= 0:
            status = _optional_text(members.get("status"))
            amount = _optional_text(members.get("amount"))
            return Handling(times, status, amount)

    raise ValueError(f'It reported {text.strip()[:80]!r} instead of a number or {{"handled": 1}}.')


def _optional_text(value: object) -> str | None:
    if value is None:
        return None
    return str(value)

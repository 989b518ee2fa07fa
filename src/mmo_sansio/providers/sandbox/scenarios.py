"""What the sandbox provider can be asked to play, as data: every scenario with its digits, its name and its results."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from attrs import frozen

from mmo_sansio.values import clock
from mmo_sansio.values.clock import Span
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Order, Type

DEFAULT_DELAY = Span(200 * clock.MILLISECOND)
"""How long the sandbox takes for a payment, unless its scenario says otherwise."""

FEE_PERCENT = 1
"""What the sandbox keeps of a payment, rounded half up, at least one minor unit."""


class DelayOrigin(StrEnum):
    """What a result's delay is counted from."""

    SUBMISSION = "submission"
    EXPIRY = "expiry"


@frozen
class ScenarioStep:
    """One result of a payment, and when it is reached."""

    after: Span = DEFAULT_DELAY
    counted_from: DelayOrigin = DelayOrigin.SUBMISSION
    failure: ErrorCode | None = None
    """Why it fails; None: it succeeds."""
    minor_units_less: int = 0
    """How much less than requested is settled; at least one minor unit always is."""


@frozen
class Scenario:
    """What happens to a payment."""

    name: str
    """What the header `X-Sandbox-Scenario` says."""
    digits: str | None
    """The last three digits of the msisdn that choose it; None for the one that all others choose."""
    description: str
    """For people, as the documentation's table says it."""
    steps: tuple[ScenarioStep, ...] = (ScenarioStep(),)
    """Its results in order; the first counts, a well-behaved operator has no second."""
    is_notified: bool = True
    """Whether the operator tells results by itself; otherwise they are learnt by asking."""
    waits_for_person: bool = False
    """Whether a person at the virtual phone decides."""
    poll_after: Span | None = None
    """When the operator wants to be asked first; None: as usual."""


def _failure_steps(code: ErrorCode) -> tuple[ScenarioStep, ...]:
    return (ScenarioStep(failure=code),)


SUCCESS = Scenario("success", None, "success after about 0.2 s, with a fee")

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "insufficient_funds",
        "101",
        "failed `user_insufficient_funds`",
        _failure_steps(ErrorCode.USER_INSUFFICIENT_FUNDS),
    ),
    Scenario("timeout", "102", "failed `user_timeout`", _failure_steps(ErrorCode.USER_TIMEOUT)),
    Scenario(
        "cancelled", "103", "failed `user_cancelled`", _failure_steps(ErrorCode.USER_CANCELLED)
    ),
    Scenario(
        "unavailable",
        "104",
        "failed `provider_unavailable`",
        _failure_steps(ErrorCode.PROVIDER_UNAVAILABLE),
    ),
    Scenario(
        "provider_timeout",
        "105",
        "failed `provider_timeout`",
        _failure_steps(ErrorCode.PROVIDER_TIMEOUT),
    ),
    Scenario(
        "by_poll",
        "110",
        "success, learnt only by polling (first poll after 2 s)",
        is_notified=False,
        poll_after=Span(2 * clock.SECOND),
    ),
    Scenario(
        "other_amount",
        "120",
        "success with finalAmount one minor unit less than requested (never below one), and a fee",
        (ScenarioStep(minor_units_less=1),),
    ),
    Scenario("never", "130", "no answer at all: ends in `transaction_expired`", ()),
    Scenario(
        "after_expiry",
        "140",
        "success reported 1 s after the expiry: suspense book",
        (ScenarioStep(clock.SECOND, DelayOrigin.EXPIRY),),
    ),
    Scenario(
        "twice",
        "150",
        "success reported again 1 s later",
        (ScenarioStep(), ScenarioStep(Span(DEFAULT_DELAY + clock.SECOND))),
    ),
    Scenario(
        "conflicting",
        "160",
        "success, then failure 1 s later: suspense book",
        (
            ScenarioStep(),
            ScenarioStep(
                Span(DEFAULT_DELAY + clock.SECOND), failure=ErrorCode.PROVIDER_UNAVAILABLE
            ),
        ),
    ),
    Scenario("slow", "170", "success after 10 s", (ScenarioStep(Span(10 * clock.SECOND)),)),
    Scenario("phone", "180", "waits for a person at the virtual phone", (), waits_for_person=True),
    SUCCESS,
)
"""The table of the sandbox, row for row."""

SCENARIOS_BY_NAME: Mapping[str, Scenario] = MappingProxyType(
    {each.name: each for each in SCENARIOS}
)
"""What the header may say; the edge refuses any other name."""

SCENARIOS_BY_DIGITS: Mapping[str, Scenario] = MappingProxyType(
    {each.digits: each for each in SCENARIOS if each.digits is not None}
)


def find_scenario(order: Order) -> Scenario:
    """What shall happen to this order: what its header asked for, else what its msisdn's last three digits say.

    A tax payout, whose recipient is implied, succeeds without a header. Raises KeyError for a name that the edge
    should have refused.
    """
    if order.scenario is not None:
        return SCENARIOS_BY_NAME[order.scenario]
    if order.type is Type.TAX:
        return SUCCESS
    return SCENARIOS_BY_DIGITS.get(order.party.msisdn[-3:], SUCCESS)

"""Lists the scenarios of the sandbox provider: each with its digits, its name and its results."""

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
"""The sandbox's fee in percent of a payment, rounded half up, at least one minor unit."""


class DelayOrigin(StrEnum):
    """Says from when a result's delay counts."""

    SUBMISSION = "submission"
    EXPIRY = "expiry"


@frozen
class ScenarioStep:
    """Describes one result of a payment, and its time."""

    after: Span = DEFAULT_DELAY
    counted_from: DelayOrigin = DelayOrigin.SUBMISSION
    failure: ErrorCode | None = None
    """The reason of its failure; None: it succeeds."""
    minor_units_less: int = 0
    """How much less than the requested amount is settled; at least one minor unit is."""


@frozen
class Scenario:
    """Describes what happens to a payment."""

    name: str
    """The value of the header `X-Sandbox-Scenario`."""
    digits: str | None
    """The last three digits of the msisdn that select it; None for the default scenario."""
    description: str
    """For people, as in the documentation's table."""
    steps: tuple[ScenarioStep, ...] = (ScenarioStep(),)
    """Its results in order; the first counts, and a well-behaved operator has no second."""
    is_notified: bool = True
    """Whether the operator sends notifications of results; otherwise they are found by polling."""
    waits_for_person: bool = False
    """Whether a user of the virtual phone decides."""
    poll_after: Span | None = None
    """The operator's advice for the first poll; None: the usual interval."""


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
    Scenario("cancelled", "103", "failed `user_cancelled`", _failure_steps(ErrorCode.USER_CANCELLED)),
    Scenario("unavailable", "104", "failed `provider_unavailable`", _failure_steps(ErrorCode.PROVIDER_UNAVAILABLE)),
    Scenario("provider_timeout", "105", "failed `provider_timeout`", _failure_steps(ErrorCode.PROVIDER_TIMEOUT)),
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
        (ScenarioStep(), ScenarioStep(Span(DEFAULT_DELAY + clock.SECOND), failure=ErrorCode.PROVIDER_UNAVAILABLE)),
    ),
    Scenario("slow", "170", "success after 10 s", (ScenarioStep(Span(10 * clock.SECOND)),)),
    Scenario("phone", "180", "waits for a person at the virtual phone", (), waits_for_person=True),
    SUCCESS,
)
"""The table of the sandbox, row for row."""

SCENARIOS_BY_NAME: Mapping[str, Scenario] = MappingProxyType({each.name: each for each in SCENARIOS})
"""The names that the header may have; any other is rejected with the request."""

SCENARIOS_BY_DIGITS: Mapping[str, Scenario] = MappingProxyType(
    {each.digits: each for each in SCENARIOS if each.digits is not None}
)


def find_scenario(order: Order) -> Scenario:
    """Return the scenario of this order: that of its header, or else of its msisdn's last three digits.

    A tax payout, whose recipient is implied, succeeds without a header. Raises KeyError for a name that should have
    been rejected with the request.
    """
    if order.scenario is not None:
        return SCENARIOS_BY_NAME[order.scenario]
    if order.type is Type.TAX:
        return SUCCESS
    return SCENARIOS_BY_DIGITS.get(order.party.msisdn[-3:], SUCCESS)

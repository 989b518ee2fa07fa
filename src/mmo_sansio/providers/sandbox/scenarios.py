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
from mmo_sansio.values.money import decimals_of

# How long the sandbox takes for a payment, unless its scenario says otherwise: long enough that
# `pending` is seen, and no wait for whoever tries the API.
DEFAULT_DELAY = Span(200 * clock.MILLISECOND)

# The sandbox's fee in percent of a payment, rounded half up, at least one minor unit.
FEE_PERCENT = 1


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

    @property
    def only_failure(self) -> ErrorCode | None:
        """Return the reason with which the payment fails at once, where nothing else happens."""
        if len(self.steps) != 1 or self.steps[0].counted_from is not DelayOrigin.SUBMISSION:
            return None
        return self.steps[0].failure


def _failure(name: str, digits: str, code: ErrorCode) -> Scenario:
    return Scenario(name, digits, f"fails with `{code}`", (ScenarioStep(failure=code),))


SUCCESS = Scenario("success", None, "succeeds after 0.2 s, with a fee of 1 %")

# The table of the sandbox, row for row.
SCENARIOS: tuple[Scenario, ...] = (
    # 1. Each error that a provider can report, by the digits of its number.
    _failure("insufficient_funds", "101", ErrorCode.USER_INSUFFICIENT_FUNDS),
    _failure("timeout", "102", ErrorCode.USER_TIMEOUT),
    _failure("cancelled", "103", ErrorCode.USER_CANCELLED),
    _failure("unavailable", "104", ErrorCode.PROVIDER_UNAVAILABLE),
    _failure("provider_timeout", "105", ErrorCode.PROVIDER_TIMEOUT),
    _failure("user_not_found", "106", ErrorCode.USER_NOT_FOUND),
    _failure("user_account_blocked", "107", ErrorCode.USER_ACCOUNT_BLOCKED),
    _failure("user_limit_exceeded", "108", ErrorCode.USER_LIMIT_EXCEEDED),
    _failure("user_wrong_pin", "109", ErrorCode.USER_WRONG_PIN),
    _failure("user_busy", "111", ErrorCode.USER_BUSY),
    _failure("amount_out_of_range", "112", ErrorCode.AMOUNT_OUT_OF_RANGE),
    _failure("merchant_insufficient_funds", "113", ErrorCode.MERCHANT_INSUFFICIENT_FUNDS),
    _failure("merchant_misconfigured", "114", ErrorCode.MERCHANT_MISCONFIGURED),
    _failure("duplicate_request", "115", ErrorCode.DUPLICATE_REQUEST),
    _failure("transaction_declined", "116", ErrorCode.TRANSACTION_DECLINED),
    # 2. The ways in which operators' results come, or don't.
    Scenario(
        "by_poll",
        "110",
        "succeeds, which is learnt only by polling (the first poll is after 2 s)",
        is_notified=False,
        poll_after=Span(2 * clock.SECOND),
    ),
    Scenario(
        "other_amount",
        "120",
        "succeeds with a `finalAmount` one minor unit less than requested, at least one",
        (ScenarioStep(minor_units_less=1),),
    ),
    Scenario(
        "never", "130", "has no result: fails with `transaction_expired` after three days", ()
    ),
    Scenario(
        "after_expiry",
        "140",
        "fails with `transaction_expired` after three days; a success reported 1 s later goes to "
        "the suspense book",
        (ScenarioStep(clock.SECOND, DelayOrigin.EXPIRY),),
    ),
    Scenario(
        "twice",
        "150",
        "succeeds, and the success is reported again 1 s later: there is one callback",
        (ScenarioStep(), ScenarioStep(Span(DEFAULT_DELAY + clock.SECOND))),
    ),
    Scenario(
        "conflicting",
        "160",
        "succeeds; a failure reported 1 s later goes to the suspense book",
        (
            ScenarioStep(),
            ScenarioStep(
                Span(DEFAULT_DELAY + clock.SECOND), failure=ErrorCode.PROVIDER_UNAVAILABLE
            ),
        ),
    ),
    Scenario("slow", "170", "succeeds after 10 s", (ScenarioStep(Span(10 * clock.SECOND)),)),
    Scenario(
        "phone",
        "180",
        "waits for a person at the virtual phone, `/phone` on the pages listener",
        (),
        waits_for_person=True,
    ),
    SUCCESS,
)

# The names that the header may have; any other is rejected with the request.
SCENARIOS_BY_NAME: Mapping[str, Scenario] = MappingProxyType(
    {scenario.name: scenario for scenario in SCENARIOS}
)

SCENARIOS_BY_DIGITS: Mapping[str, Scenario] = MappingProxyType(
    {scenario.digits: scenario for scenario in SCENARIOS if scenario.digits is not None}
)


def _describe(scenario: Scenario) -> str:
    if scenario.digits is None:
        return scenario.description
    return f"{scenario.description} (a number that ends in {scenario.digits})"


# What happens in each scenario and which number selects it, by its name; `code` is marked.
SCENARIO_TEXTS: Mapping[str, str] = MappingProxyType(
    {scenario.name: _describe(scenario) for scenario in SCENARIOS}
)

# The error codes that no scenario ends with, each with the way to see it.
NOT_PLAYED: Mapping[ErrorCode, str] = MappingProxyType(
    {
        ErrorCode.PAYMENT_STOPPED: (
            "no provider reports it: stop the payments of the demo brand with"
            " `mmo brands disable demo --hold` while one of them waits to be submitted"
        )
    }
)

# The currencies in which the operator takes no fraction of a unit, as M-Pesa takes whole shillings.
WHOLE_UNIT_CURRENCIES = frozenset({"KES"})


def find_scenario(order: Order, *, is_lenient: bool = False) -> Scenario:
    """Return the scenario of this order: that of its header, or else what the operator rejects,
    unless it is lenient, or else that of its msisdn's last three digits.

    A tax payout, whose recipient is implied, succeeds without a header if its amount is taken.
    Raises KeyError for a name that should have been rejected with the request."""
    if order.scenario is not None:
        return SCENARIOS_BY_NAME[order.scenario]

    # As an operator does, which refuses an amount before it looks for the number.
    amount = order.requested
    has_fraction = (
        amount.currency in WHOLE_UNIT_CURRENCIES
        and amount.minor % 10 ** decimals_of(amount.currency) != 0
    )
    if not is_lenient and has_fraction:
        return SCENARIOS_BY_NAME["amount_out_of_range"]

    # Nobody's number is in it that could select a scenario.
    if order.type is Type.TAX:
        return SUCCESS

    return SCENARIOS_BY_DIGITS.get(order.party.msisdn[-3:], SUCCESS)

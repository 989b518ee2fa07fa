"""Says what another version of a brand's configuration changes: whether it only tightens, so that
one person alone may bring it into force again, and what payments on record would have met under it.

The payments of a day, and the requests that its limits and flows refused, are replayed in their
order against both versions of the brand: with the checks of C9 that configuration decides, from the
method to the daily limit. What one version refuses adds nothing to its counters; the end of a
payment takes back what it added, as on the day itself. A request that was refused had no end: where
a version accepts it, it is taken to succeed at once. The requests that only ask left no record: the
limits of their rate are not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from attrs import Factory, define, evolve, frozen

from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.payments.brand_usage import daily_counter
from mmo_sansio.values import problems
from mmo_sansio.values.clock import DAY, Instant
from mmo_sansio.values.model import Brand, BrandLimits, Limits, Method, Operation, Type
from mmo_sansio.values.money import AmountError, Money, to_money
from mmo_sansio.values.problems import Problem, ProblemType


def only_tightens(before: Brand, after: Brand) -> bool:
    """Tell whether the second version differs in limits and flows only, of which none allows more
    than in the first."""
    # Methods are compared in pairs; one more, or one less, is no matter of limits and flows.
    if len(before.methods) != len(after.methods):
        return False

    # With limits and flows made equal, anything else that differs shows.
    others = evolve(after, limits=before.limits, methods=before.methods)
    pairs = list(zip(before.methods, after.methods, strict=True))
    return (
        others == before
        and _is_within(before.limits.requests_per_second, after.limits.requests_per_second)
        and _is_within(before.limits.pending_payments, after.limits.pending_payments)
        and _is_within(_burst(before.limits), _burst(after.limits))
        and all(_is_tighter_method(old, new) for old, new in pairs)
    )


def _is_tighter_method(before: Method, after: Method) -> bool:
    others = evolve(after, operations=before.operations, limits=before.limits)
    return (
        others == before
        and after.operations <= before.operations
        and all(
            # A currency that is new allows more; one that is gone allows less.
            currency in before.limits and _are_tighter_limits(before.limits[currency], limits)
            for currency, limits in after.limits.items()
        )
    )


def _are_tighter_limits(before: Limits, after: Limits) -> bool:
    return (
        before.minimum.minor <= after.minimum.minor
        and after.maximum.minor <= before.maximum.minor
        and all(
            _is_within(most.minor, after.daily[counter].minor if counter in after.daily else None)
            for counter, most in before.daily.items()
        )
    )


def _is_within(before: int | None, after: int | None) -> bool:
    # None is no limit at all, so only a limit is within it.
    return before is None or (after is not None and after <= before)


def _burst(limits: BrandLimits) -> int | None:
    return limits.requests_burst or limits.requests_per_second


# The requests by the type and the flow of their payments; no request asks for an offline deposit.
OPERATIONS: Mapping[tuple[str, str], Operation] = {
    (operation.type.value, operation.flow.value): operation for operation in Operation
}


@frozen
class RecordedRequest:
    """Holds what a back-test has to know of a payment; nothing in it is personal data."""

    gateway_reference: str
    created_at: Instant
    operation: Operation | None
    """None for an offline deposit, which nobody requested and no limit refuses."""
    method: str
    country: str
    amount: Money
    ended_at: Instant | None
    """None while it is pending."""
    has_failed: bool
    was_refused: bool = False
    """Whether it became no payment, as the configuration of the day refused it."""


@frozen
class RefusedRequest:
    """A request that limits or flows of a brand refused, as it is kept for back-tests; nothing in
    it is personal data."""

    brand: str
    segment: str
    """The cause: the last segment of the type of the problem that the merchant received."""
    request: RecordedRequest


_DECIDED_BY_LIMITS_AND_FLOWS = frozenset(
    problem_type.segment
    for problem_type in (
        problems.UNSUPPORTED_METHOD,
        problems.BELOW_MINIMUM,
        problems.ABOVE_MAXIMUM,
        problems.PENDING_LIMIT,
        problems.DAILY_LIMIT,
    )
)


def refused_request(
    input_: CreatePayment, problem: Problem, *, now: Instant
) -> RefusedRequest | None:
    """Return what is kept of a refused request; None where no other limits or flows of the brand's
    methods would have accepted it."""
    brand, draft = input_.brand, input_.draft
    # Another version of limits and flows would have changed nothing about other refusals.
    if problem.segment not in _DECIDED_BY_LIMITS_AND_FLOWS:
        return None

    # A method, country or currency that the brand never had is no question of its limits.
    asked = (draft.method, draft.country)
    if not any(
        (method.key, method.country) == asked and draft.currency in method.limits
        for method in brand.methods
    ):
        return None

    try:
        amount = to_money(draft.amount, draft.currency)
    except AmountError:
        return None

    return RefusedRequest(
        brand.id,
        problem.segment,
        refused_on_record(
            input_.gateway_reference, now, draft.operation, draft.method, draft.country, amount
        ),
    )


def refused_on_record(
    gateway_reference: str,
    at: Instant,
    operation: Operation,
    method: str,
    country: str,
    amount: Money,
) -> RecordedRequest:
    """Return a request that was refused, as a back-test judges it: where it is accepted, it
    succeeds at once."""
    return RecordedRequest(
        gateway_reference,
        at,
        operation,
        method,
        country,
        amount,
        ended_at=at,
        has_failed=False,
        was_refused=True,
    )


@frozen
class BackTestResult:
    """Says what the requests would have met under a version of the brand."""

    accepted: int
    accepted_of_refused: int
    """How many of the accepted requests were refused on the day itself."""
    accepted_minor: Mapping[str, int]
    """The sum of the accepted amounts in minor units, by currency."""
    refused: Mapping[str, int]
    """The numbers of refused requests, by the last segment of their problem's type."""


class _End(NamedTuple):
    """Says when an accepted request ends, and what that takes back: entries of a heap are compared
    as tuples."""

    at: Instant
    number: int
    """Makes it unique, so that nothing behind it is compared."""
    counter: str | None
    """The counter of the day's amounts that a failure reduces; None: nothing is taken back."""
    day: int
    minor: int


@define
class BackTest:
    """Replays requests against one version of a brand; they come in the order of creation."""

    brand: Brand
    _accepted: int = 0
    _accepted_of_refused: int = 0
    _accepted_minor: Counter[str] = Factory(Counter)
    _refused: Counter[str] = Factory(Counter)
    _pending: int = 0
    # The day's amounts that count against a limit, by counter and day.
    _sums: Counter[tuple[str, int]] = Factory(Counter)
    _ends: list[_End] = Factory(list)
    """A heap of what is still to end."""
    # What each method, operation and country of a request comes to; the same few are asked for.
    _selected: dict[tuple[str, Operation, str], Method | ProblemType] = Factory(dict)

    def add(self, requests: Iterable[RecordedRequest]) -> None:
        for request in requests:
            if request.operation is not None:
                self._judge(request, request.operation)

    @property
    def result(self) -> BackTestResult:
        """Return what was judged so far."""
        return BackTestResult(
            self._accepted,
            self._accepted_of_refused,
            dict(self._accepted_minor),
            dict(self._refused),
        )

    def _judge(self, request: RecordedRequest, operation: Operation) -> None:
        # What has ended by then makes room again, as on the day itself.
        while self._ends and self._ends[0].at <= request.created_at:
            ended = heappop(self._ends)
            self._pending -= 1
            if ended.counter is not None:
                self._sums[ended.counter, ended.day] -= ended.minor

        # What is refused adds nothing to the counters.
        refusal = self._refusal(request, operation)
        if refusal is not None:
            self._refused[refusal.segment] += 1
            return

        self._accepted += 1
        self._accepted_of_refused += request.was_refused
        self._accepted_minor[request.amount.currency] += request.amount.minor

    def _refusal(self, request: RecordedRequest, operation: Operation) -> ProblemType | None:
        """Return why this request is refused; None after counting one that is accepted."""
        if not self.brand.enabled:
            return problems.MERCHANT_DISABLED

        selection = (request.method, operation, request.country)
        method = self._selected.get(selection)
        if method is None:
            method = self._selected[selection] = _select_method(self.brand, *selection)

        if isinstance(method, ProblemType):
            return method

        amount = request.amount
        limits = method.limits.get(amount.currency)
        if limits is None:
            return problems.UNSUPPORTED_CURRENCY
        if amount.minor < limits.minimum.minor:
            return problems.BELOW_MINIMUM
        if amount.minor > limits.maximum.minor:
            return problems.ABOVE_MAXIMUM

        # The limits that depend on other payments come last, as in `creation`.
        pending_max = self.brand.limits.pending_payments
        if pending_max is not None and self._pending >= pending_max:
            return problems.PENDING_LIMIT

        return self._reserve(request, method, operation.type, limits.daily.get(operation.type))

    def _reserve(
        self, request: RecordedRequest, method: Method, type: Type, daily_max: Money | None
    ) -> ProblemType | None:
        counter, day, minor = None, request.created_at // DAY, request.amount.minor
        if daily_max is not None:
            counter = daily_counter(method, type, request.amount.currency)
            if self._sums[counter, day] + minor > daily_max.minor:
                return problems.DAILY_LIMIT

            self._sums[counter, day] += minor

        self._pending += 1
        if request.ended_at is not None:
            # Only a failure gives its amount back to the day.
            released = counter if request.has_failed else None
            heappush(self._ends, _End(request.ended_at, self._accepted, released, day, minor))

        return None


def _select_method(
    brand: Brand, key: str, operation: Operation, country: str
) -> Method | ProblemType:
    """Return the method that a request asks for, or the first problem in the order of C9."""
    methods = [
        method for method in brand.methods if method.key == key and operation in method.operations
    ]
    if not methods:
        return problems.UNSUPPORTED_METHOD

    return next(
        (method for method in methods if method.country == country), problems.UNSUPPORTED_COUNTRY
    )

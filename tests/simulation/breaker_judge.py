"""The judge of breakers: each merchant has one over all processes, and it permits what a model of
it permits."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import Factory, define

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.resilience.circuit_breaker import DEFAULT_BREAKER_SETTINGS
from mmo_sansio.values.clock import SECOND
from tests.simulation.world.books import WorldBooks
from tests.simulation.world.commits import StoredCallback
from tests.simulation.world.faults import COSTS_LEASES, FaultPeriod
from tests.simulation.world.plan import FaultKind
from tests.simulation.world.world import SimulatedWorld

UNCERTAIN_S: Final = 4.0
"""How long after a breaker has counted an outcome, or held a callback back, that is on record where
nothing is wrong. What is so near to a change of its state may have been decided before it or after
it."""
ATTEMPT_S: Final = 15.0
"""The longest attempt. One that a process gives up as it drains leaves no record."""
LOSES_OUTCOMES: Final = COSTS_LEASES - {FaultKind.GATEWAY_RESTARTED}
"""Kinds of faults from which on a breaker may lack outcomes, or may have counted some that are not
on record. A process that drains and shares its store passes on what it has counted; the only
process of a file loses the latest successes."""
COUNTED: Final = frozenset(
    {
        DeliveryOutcome.DELIVERED,
        DeliveryOutcome.NON_2XX,
        DeliveryOutcome.TIMEOUT,
        DeliveryOutcome.TRANSPORT_ERROR,
    }
)
"""Outcomes that a breaker counts."""
OPEN_FOR_S: Final = DEFAULT_BREAKER_SETTINGS.open_for / SECOND
WINDOW_S: Final = DEFAULT_BREAKER_SETTINGS.window / SECOND
WINDOW_MARGIN_S: Final = 7.0
"""How much earlier or later than after a whole window an outcome may leave it, which is more than a
tenth: outcomes leave by tenths, whose beginnings are not known."""


def one_breaker_holds_over_all_processes(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """K5: what was sent to a merchant, and what was held back, by whichever process, is what one
    breaker permits that has counted the outcomes of all."""
    loses_outcomes = LOSES_OUTCOMES if world.plan.is_store_shared else COSTS_LEASES
    until_s = min(
        (each.began_s for each in world.periods if each.kind in loses_outcomes), default=math.inf
    )
    restarts = [each for each in world.periods if each.kind is FaultKind.GATEWAY_RESTARTED]
    of_brands: defaultdict[str, list[StoredCallback]] = defaultdict(list)
    for each in world.commits.callbacks:
        if each.at_s < until_s:
            of_brands[each.brand].append(each)
    for brand, callbacks in of_brands.items():
        found = BreakerComparison(restarts, until_s).first_difference(callbacks)
        if found is not None:
            yield f"{brand}: {found}"


@define
class BreakerComparison:
    """Compares what one merchant's breaker has permitted with what a model of it permits."""

    restarts: Sequence[FaultPeriod]
    until_s: float = math.inf
    """When the records end: outcomes may be lost from then on, also those of attempts in
    progress."""
    _outcomes: list[tuple[float, bool]] = Factory(list)
    """The times of what was counted and may be in the window, and whether it has succeeded; in
    their order."""
    _open_until_s: float | None = None
    """None unless open."""
    _probe: StoredCallback | None = None
    """The one attempt that is permitted while half-open; None while closed or open."""
    _changed_at_s: float = -math.inf
    _may_be_open: bool = False
    """Whether what was counted last opened it or not, according to which outcomes were still in the
    window."""

    def first_difference(self, callbacks: Sequence[StoredCallback]) -> str | None:
        """Return a sentence about the first callback that differs; None when none does for certain.
        Once it is not certain what the breaker knew, what follows is not compared."""
        events = [(_began_s(each), False, nth) for nth, each in enumerate(callbacks)]
        events += [
            (each.at_s, True, nth)
            for nth, each in enumerate(callbacks)
            if each.attempt.outcome in COUNTED
        ]
        wrongly_held: StoredCallback | None = None
        for at_s, is_end, nth in sorted(events):
            each = callbacks[nth]
            if wrongly_held is not None and at_s > wrongly_held.at_s + UNCERTAIN_S:
                break
            if is_end:
                self._count(each)
                if self._may_be_open or (wrongly_held is not None and self._changed_at_s == at_s):
                    return None
            elif each.attempt.outcome is DeliveryOutcome.BREAKER_OPEN:
                if wrongly_held is None and self._may_send(at_s):
                    if self._is_uncertain(at_s) or self._may_lack_an_attempt(at_s):
                        return None
                    wrongly_held = each
            elif each.attempt.outcome not in COUNTED:
                return None
            elif self._may_send(at_s):
                self._begin(each)
                if wrongly_held is not None and self._changed_at_s == at_s:
                    return None
            else:
                if self._is_uncertain(at_s):
                    return None
                return f"{each.gateway_reference} was sent at {at_s:.3f}, and the breaker was open"
        if wrongly_held is not None:
            return (
                f"{wrongly_held.gateway_reference} was held back at {wrongly_held.at_s:.3f} by a "
                f"closed breaker"
            )
        return None

    def _may_send(self, at_s: float) -> bool:
        return self._probe is None and (self._open_until_s is None or at_s >= self._open_until_s)

    def _begin(self, callback: StoredCallback) -> None:
        if self._open_until_s is not None:
            self._open_until_s, self._probe, self._changed_at_s = None, callback, _began_s(callback)

    def _count(self, callback: StoredCallback) -> None:
        at_s, has_succeeded = callback.at_s, callback.attempt.outcome is DeliveryOutcome.DELIVERED
        if self._probe is not None and self._probe is not callback:
            return
        self._outcomes = [
            each for each in self._outcomes if each[0] > at_s - WINDOW_S - WINDOW_MARGIN_S
        ]
        self._outcomes.append((at_s, has_succeeded))
        if self._probe is not None:
            self._probe, self._changed_at_s = None, at_s
            if has_succeeded:
                self._outcomes.clear()
            else:
                self._open_until_s = at_s + OPEN_FOR_S
        elif self._open_until_s is None and not has_succeeded:
            old = sum(each[0] <= at_s - WINDOW_S + WINDOW_MARGIN_S for each in self._outcomes)
            answers = {_is_failing(self._outcomes[left:]) for left in range(old + 1)}
            if answers == {True}:
                self._open_until_s, self._changed_at_s = at_s + OPEN_FOR_S, at_s
            self._may_be_open = len(answers) > 1

    def _is_uncertain(self, at_s: float) -> bool:
        """Return whether the state changes about this time."""
        changes = [self._changed_at_s]
        if self._open_until_s is not None:
            changes.append(self._open_until_s)
        if self._probe is not None:
            changes.append(self._probe.at_s)
        return any(abs(at_s - each) <= UNCERTAIN_S for each in changes)

    def _may_lack_an_attempt(self, at_s: float) -> bool:
        """Return whether an attempt in progress may be on no record: its process was about to
        drain, which may have given it up, or the records end before it does."""
        margin_s = ATTEMPT_S + UNCERTAIN_S
        is_near_a_restart = any(
            each.began_s - margin_s <= at_s <= each.ended_s + margin_s for each in self.restarts
        )
        return is_near_a_restart or at_s >= self.until_s - margin_s


def _is_failing(outcomes: Sequence[tuple[float, bool]]) -> bool:
    """Return whether a failure among these, in the window, opens a closed breaker."""
    failures = sum(not has_succeeded for _, has_succeeded in outcomes)
    is_enough = len(outcomes) >= DEFAULT_BREAKER_SETTINGS.minimum_requests
    return is_enough and failures / len(outcomes) >= DEFAULT_BREAKER_SETTINGS.failure_ratio


def _began_s(callback: StoredCallback) -> float:
    """Return when the attempt began, or was held back."""
    return callback.at_s - callback.attempt.duration_ms / 1_000

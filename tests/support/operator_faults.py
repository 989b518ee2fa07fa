"""What can go wrong at an operator's, chosen by chance: answers lost or broken, results and
callbacks late or never."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from attrs import frozen

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, Span
from mmo_simulators.common.faults import (
    AnswerAfter,
    AnswerInstead,
    CallBack,
    EndAfter,
    EndWith,
    Fault,
    LoseAnswer,
    LoseRequest,
    PollWith,
)

OFTEN = tuple(Span(minutes * MINUTE) for minutes in (0, 1, 5, 180))
"""When the callback about a payment comes whose questions are answered otherwise: the last one
arrives, as nothing is lost by then."""


@frozen
class FaultSource:
    """Chooses random faults."""

    random: Random
    tally: Counter[str]
    failures: Sequence[str]
    """Codes with which a submission may fail."""
    maintenance: Sequence[HttpResponse]
    """What the operator answers while it is maintained."""
    contradiction: str | None = None
    """A code of failure that questions about a paid payment are sometimes answered with; None: none
    are."""

    def next_faults(self, is_submission: bool) -> tuple[Fault, ...]:
        """Return the faults of the next request."""
        faults: list[Fault] = []
        broken = self.random.choice(self.maintenance)
        chance = self.random.random()
        if chance < 0.16:
            kinds = (LoseRequest(), LoseAnswer(), AnswerInstead(broken), AnswerAfter(broken))
            faults.append(kinds[int(chance / 0.04)])
            self.tally[type(faults[-1]).__name__] += 1
        if is_submission:
            if self.contradiction is not None and self.random.random() < 0.06:
                self.tally["contradicted"] += 1
                return (
                    *faults,
                    PollWith(self.contradiction),
                    EndAfter(Span(MINUTE)),
                    CallBack(OFTEN),
                )
            if self.random.random() < 0.3:
                faults.append(EndWith(self.random.choice(self.failures)))
            decided = self._decision()
            is_late = decided is not None and decided > 3 * DAY
            faults.append(EndAfter(decided))
            faults.append(CallBack((Span(0),) if is_late else self._callbacks()))
        return tuple(faults)

    def _decision(self) -> Span | None:
        chance = self.random.random()
        if chance < 0.03:
            self.tally["never decided"] += 1
            return None
        if chance < 0.06:
            self.tally["decided after the expiry"] += 1
            return Span(3 * DAY + HOUR)
        return Span(self.random.randrange(4 * MINUTE))

    def _callbacks(self) -> tuple[Span, ...]:
        """Return the delays of none, one or two callbacks."""
        count = self.random.choice((0, 1, 1, 1, 2))
        return tuple(Span(self.random.randrange(10 * MINUTE)) for _ in range(count))

"""Remembers the questions about payments that have ended which had no answer, and when each is
asked again: after a pause that doubles each time, for some three days (S3, S5).

Each question is a durable intent, which stays open meanwhile with the hints that caused it and the
time since when it has no answer. A process that starts finds it there: it begins with a short pause
again, and the three days go on."""

from __future__ import annotations

from collections import Counter

from attrs import Factory, define, evolve

from mmo_sansio.messages.intents import PollEnded, merge_polls
from mmo_sansio.values.clock import DAY, Instant, Span, elapsed
from mmo_trio.storage.interface.store import WorkItem

# Seconds before the first repetition of a question; the pause doubles each time.
PAUSE_S = 30.0

# The longest pause in seconds: as long as that between two polls of a pending payment.
PAUSE_MAX_S = 3600.0

# Own time after the oldest question without an answer from which on staff have to look: longer than
# an operator's outage over a weekend.
GIVEN_UP_AFTER = Span(3 * DAY)


@define(eq=False)
class _Unanswered:
    """A question without an answer."""

    provider: str
    poll: PollEnded
    """The latest question, with what those before it knew."""
    pause_s: float = PAUSE_S
    """Seconds before it is asked again."""
    attempts: int = 1


@define(eq=False)
class UnansweredPolls:
    """Knows the questions without an answer, by the gatewayReference of their payments."""

    _by_reference: dict[str, _Unanswered] = Factory(dict)
    _by_provider: Counter[str] = Factory(Counter)

    def count(self, provider: str) -> int:
        """Return how many questions this provider has not answered."""
        return self._by_provider[provider]

    def complete(self, work: WorkItem) -> WorkItem:
        """Return the question with what those before it knew, which had no answer."""
        intent = work.intent
        known = self._by_reference.get(intent.gateway_reference)
        if known is None or not isinstance(intent, PollEnded):
            return work
        return evolve(work, intent=merge_polls(known.poll, intent))

    def add(self, work: WorkItem, now: Instant) -> float | None:
        """Remember that this question had no answer, and return the seconds until it is to be asked
        again; None when it was asked for long enough. `now` is own time."""
        intent = work.intent
        assert isinstance(intent, PollEnded)
        known = self._by_reference.get(intent.gateway_reference)
        if known is None:
            known = _Unanswered(work.transaction.order.provider, intent)
            self._by_reference[intent.gateway_reference] = known
            self._by_provider[known.provider] += 1
        else:
            # The latest question knows what those before it knew; see `complete`.
            known.poll = intent
            known.attempts += 1
            known.pause_s = min(2 * known.pause_s, PAUSE_MAX_S)

        if elapsed(intent.since, now) >= GIVEN_UP_AFTER:
            return None

        return known.pause_s

    def attempts(self, reference: str) -> int:
        """Return how many questions about this payment had no answer."""
        known = self._by_reference.get(reference)
        if known is None:
            return 0
        return known.attempts

    def discard(self, reference: str) -> None:
        """Forget the question, as it is answered or given up."""
        known = self._by_reference.pop(reference, None)
        if known is not None:
            self._by_provider[known.provider] -= 1

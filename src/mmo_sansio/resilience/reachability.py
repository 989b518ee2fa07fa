"""Decides when a server counts as lost, so that callers are refused at once instead of each waiting
in vain.

    REACHABLE ──nobody is answered for some seconds──▶ SUSPECTED ──a probe fails──▶ LOST
        ▲                                                  │                          │
        └───────────────────any answer─────────────────────┴──────────────────────────┘

A short outage, such as a failover, is waited out by the callers. A statement that waits for a lock
is no reason to refuse others: the probe, which locks nothing, is answered.

Time is an argument: seconds of a monotonic clock.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import define


class ServerState(StrEnum):
    """Says what is known of a server."""

    REACHABLE = "reachable"
    """It has answered of late, or nobody has asked."""
    SUSPECTED = "suspected"
    """It has answered nobody of late: a probe is to find out whether it is lost."""
    LOST = "lost"
    """It answers nobody: probes go on until one is answered."""


@define(eq=False)
class Reachability:
    """Holds what calls and probes have learnt of one server."""

    suspect_after_s: float
    """How long the server may stay without an answer before it is suspected, in seconds."""
    state: ServerState = ServerState.REACHABLE
    _answered_at: float | None = None
    """The last answer's time."""
    _unanswered_since: float | None = None
    """When the oldest call began that has had no answer since the last one; None when the last call
    was answered."""

    def record_answer(self, now: float) -> None:
        """Record that a call or a probe was answered, be it with an error."""
        self.state = ServerState.REACHABLE
        self._answered_at, self._unanswered_since = now, None

    def record_silence(self, began: float, now: float) -> None:
        """Record that a call which began then has had no answer."""
        # Silence begins with the call, or with the last answer that any call had since.
        if self._answered_at is None:
            since = began
        else:
            since = max(began, self._answered_at)

        # The oldest silence counts: how long nobody has been answered.
        if self._unanswered_since is None or since < self._unanswered_since:
            self._unanswered_since = since

        if (
            # LOST stays: only an answer ends it.
            self.state is ServerState.REACHABLE
            and now - self._unanswered_since >= self.suspect_after_s
        ):
            self.state = ServerState.SUSPECTED

    def record_failed_probe(self) -> None:
        """Record that a probe had no answer: unless another call has been answered meanwhile, the
        server is lost."""
        # An answer in between has shown that the server is there.
        if self.state is ServerState.SUSPECTED:
            self.state = ServerState.LOST

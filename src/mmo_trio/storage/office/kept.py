"""What only the office of the store in memory keeps."""

from __future__ import annotations

from attrs import Factory, define

from mmo_sansio.breaker import BreakerState
from mmo_sansio.changes import BreakerKept
from mmo_sansio.clock import Instant
from mmo_trio.storage.office.values import AuditRow, BreakerChange, Operator, Proposal, Session


@define
class OfficeKept:
    """The rest it finds among what the store has."""

    operators: dict[str, Operator] = Factory(dict)
    sessions: dict[bytes, Session] = Factory(dict)
    proposals: list[Proposal] = Factory(list)
    audit: list[AuditRow] = Factory(list)
    breaker_changes: list[BreakerChange] = Factory(list)

    def keep_breaker(self, kept: BreakerKept, at: Instant) -> None:
        """Note it when it has opened or closed."""
        earlier = [each.state for each in self.breaker_changes if each.brand == kept.brand]
        before = earlier[-1] if earlier else BreakerState.CLOSED.value
        if kept.breaker.state.value != before:
            change = BreakerChange(kept.brand, at, kept.breaker.state.value)
            self.breaker_changes.append(change)

"""Decides whether a store is older than what was last known of it, as after a backup was
restored."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from mmo_sansio.values.clock import SECOND, Instant, Span, elapsed


@frozen
class StoreMark:
    """Says how far a store had come. A process keeps it outside of the store, where no restore
    reaches it."""

    store_id: str
    """A random name of the store; a restored one gets another."""
    epoch: int
    """A number that commits raise, those of one process at most once a second; 0: nothing was
    committed yet."""
    raised_at: Instant = Instant(0)
    """When the epoch was raised last, by the store's own clock; 0: never."""
    timeline: int | None = None
    """What PostgreSQL's server writes, which grows when a standby is promoted; None where there is
    none or the role may not see it."""


@frozen
class StoreState:
    """Says which store this is, and how far it has come, by itself."""

    mark: StoreMark
    former_ids: frozenset[str] = frozenset()
    """What it was named before it was restored, each time."""


class Recognition(StrEnum):
    """Says what the comparison of a store with a mark means."""

    CURRENT = "current"
    """The store has everything that the mark knows of."""
    BEHIND = "behind"
    """A standby was promoted that lacks a little, no more than is allowed."""
    RESTORED = "restored"
    """The store lacks what it once had, or is another one."""
    UNMARKED = "unmarked"
    """The mark is missing, so nobody can tell."""


def recognise(
    stored: StoreState,
    mark: StoreMark | None,
    *,
    must_be_marked: bool,
    is_served: bool,
    loss_max: Span,
) -> Recognition:
    """Compare a store with the mark that this machine has kept of it; None when it has none.

    `must_be_marked`: whether the mark of a store that was used has to be there. `is_served`:
    whether another process serves the store, and has compared it. `loss_max`: how much a failover
    may lose; what is lost is counted in epochs, of a second each, or in time, whichever is less.
    """
    if mark is None:
        is_missed = must_be_marked and stored.mark.epoch > 0 and not is_served
        return Recognition.UNMARKED if is_missed else Recognition.CURRENT
    if mark.store_id != stored.mark.store_id:
        return Recognition.CURRENT if mark.store_id in stored.former_ids else Recognition.RESTORED
    lost = mark.epoch - stored.mark.epoch
    if lost <= 0:
        return Recognition.CURRENT
    before, now = mark.timeline, stored.mark.timeline
    is_promoted = before is not None and now is not None and now > before
    is_little = min(lost * SECOND, elapsed(stored.mark.raised_at, mark.raised_at)) <= loss_max
    return Recognition.BEHIND if is_promoted and is_little else Recognition.RESTORED

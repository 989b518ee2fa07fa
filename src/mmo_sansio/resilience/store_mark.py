"""Decides whether a store is older than what was last known of it, as after a backup was
restored."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from attrs import frozen

from mmo_sansio.values.clock import SECOND, Instant, Span, elapsed

# The least time between two commits of one serving process that raise the epoch.
EPOCH_LENGTH: Final = Span(SECOND)


@frozen
class StoreMark:
    """Says how far a store had come. A process keeps it outside of the store, where no restore
    reaches it."""

    store_id: str
    """A random name of the store; a restored one gets another."""
    epoch: int
    """A number that commits of serving processes raise, those of each at most once a second; 0:
    nothing has served the store yet."""
    command_epoch: int = 0
    """A number that each commit of a command raises. It is apart from the other, so that no command
    makes a backup pass for what was served since."""
    raised_at: Instant = Instant(0)
    """When one of them was raised last, by the store's own clock; 0: never."""
    timeline: int | None = None
    """What PostgreSQL's server writes, which grows when a standby is promoted; None where there is
    none or the role may not see it."""
    is_synchronous: bool = False
    """Whether that server confirmed a commit only once a standby had it, so that a promoted one
    lacks nothing."""


@frozen
class StoreState:
    """Says which store this is, and how far it has come, by itself."""

    mark: StoreMark
    former_ids: frozenset[str] = frozenset()
    """What it was named before it was restored, each time."""

    def has_all_of(self, mark: StoreMark) -> bool:
        """Return whether this store has everything that a mark knows of. One that was named anew
        was prepared first, so it has."""
        # A restored store was named anew by the command that prepared it, and keeps its former
        # names.
        if mark.store_id != self.mark.store_id:
            return mark.store_id in self.former_ids
        return lost_epochs(self.mark, mark) == 0


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
    may lose; what is lost is counted in epochs, of a second each, or in time, whichever is less. A
    clock that was set back meanwhile says nothing: then epochs count.
    """
    if mark is None:
        # A store that nobody has served has no mark; and one that another process serves was
        # compared by it.
        is_missed = must_be_marked and stored.mark.epoch > 0 and not is_served
        if is_missed:
            return Recognition.UNMARKED
        return Recognition.CURRENT

    has_all = stored.has_all_of(mark)
    if has_all and not may_lack_last_commits(stored.mark, mark):
        return Recognition.CURRENT
    # It is another store, or a copy of which nobody knows how old it is.
    if mark.store_id != stored.mark.store_id:
        return Recognition.RESTORED

    # Only a promoted standby may lack a little. A backup of the same age is a restore, and has to
    # be prepared.
    lost_time = max(_lost_time(stored.mark, mark), EPOCH_LENGTH)
    if _is_promoted(stored.mark, mark) and lost_time <= loss_max:
        return Recognition.BEHIND

    return Recognition.RESTORED


def may_lack_last_commits(stored: StoreMark, known: StoreMark) -> bool:
    """Return whether a store that has each epoch of a mark of its may lack commits all the same:
    those that came after the last raise, of which no epoch tells. A promoted standby may, unless
    each commit waited for it."""
    is_same = stored.store_id == known.store_id
    return is_same and _is_promoted(stored, known) and not known.is_synchronous


def _is_promoted(stored: StoreMark, known: StoreMark) -> bool:
    before, now = known.timeline, stored.timeline
    return before is not None and now is not None and now > before


def lost_epochs(stored: StoreMark, known: StoreMark) -> int:
    """Return how many epochs a store lacks that a mark of the same store knows of."""
    served = max(0, known.epoch - stored.epoch)
    return served + max(0, known.command_epoch - stored.command_epoch)


def _lost_time(stored: StoreMark, known: StoreMark) -> Span:
    counted = Span(lost_epochs(stored, known) * EPOCH_LENGTH)
    passed = elapsed(stored.raised_at, known.raised_at)
    # A clock that was set back would make the loss look like none.
    if passed > 0:
        return min(counted, passed)
    return counted

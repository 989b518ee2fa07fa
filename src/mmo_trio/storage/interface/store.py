"""Defines the errors of a store, what its methods take and return, and how processes share one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from attrs import frozen

from mmo_sansio.messages.intents import Intent
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.resilience.ownership import Channel, OwnershipCounts
from mmo_sansio.values.clock import DAY, MINUTE, MonotonicInstant, Span
from mmo_sansio.values.model import Transaction
from mmo_trio.system.fault_report import describe_fault


class StoreUnavailable(Exception):
    """The store has stored nothing of the request, which may be repeated (P5)."""


class StoreLost(StoreUnavailable):
    """The store has answered nobody for a while; it has logged that, and will log when it answers
    again."""


class OutcomeUnknown(Exception):
    """Nobody can learn whether the batch was stored (P5)."""


class StoreCorrupt(Exception):
    """Stored data is damaged; nothing was made of it, and repeating the request does not help."""

    def __init__(
        self, damage: str, remedy: str = "restore a backup, or run `mmo db check`"
    ) -> None:
        super().__init__(f"{damage}: {remedy}")
        self.damage = damage


class StoreUnusable(Exception):
    """The store can't be opened as it is; the message says why and names the remedy."""


# What says that the store, and not an input, has held something up.
STORE_ERRORS: Final = (StoreUnavailable, OutcomeUnknown, StoreUnusable)


def log_store_failure(logger: Any, event: str, error: Exception, **details: object) -> None:
    """Log why a round of a periodic task failed: once a second while the store can't serve, once a
    minute where somebody has to repair something, as of a right that the database user lacks, and
    where the fault is ours. A store that is lost has said so itself."""
    match error:
        case StoreLost():
            pass
        case StoreUnavailable() | OutcomeUnknown():
            logger.warning(event, error=str(error), once_a_second=True, **details)
        case StoreUnusable() | StoreCorrupt():
            logger.error(event, error=str(error), once_a_minute=True, **details)
        case _:
            logger.error(event, fault=describe_fault(error), once_a_minute=True, **details)


# Seconds between two commits of a process that raise the store's epoch, at least.
EPOCH_INTERVAL_S = 1.0

# Seconds after which a store that does not answer `check` counts as unavailable.
CHECK_TIMEOUT_S = 0.9

# A call that fails after so many seconds has found a store that hangs. What has waited since before
# the call is refused with it: it has waited as long, and must not wait for the next one, too.
HANGS_AFTER_S: Final = 0.5


@frozen
class WorkItem:
    """An intent that this process has claimed, with its transaction as it is now."""

    intent: Intent
    transaction: Transaction
    begun_at: MonotonicInstant = MonotonicInstant(-1)
    """When this process began the commit that it follows from, as time since the machine started;
    -1 where it was read from the store."""


# How long the record of a machine stays that runs no gateway any more.
CLOCK_RECORDS_KEPT_FOR: Span = Span(30 * DAY)


# How old the record of a machine may be that tells whether its clock agrees with the store's.
CLOCK_RECORDS_RECENT_FOR: Span = Span(3 * MINUTE)


@frozen
class StoredClockRecord:
    """A record of the clocks, from which a process continues the gateway's own time."""

    record: ClockRecord
    age: Span | None
    """How long ago it was saved, by the store's own clock; None where the store has none."""


# A pure function: from a working set it makes the batch's decisions, applies each to the working
# set, and creates nothing at or before the working set's `not_before`. A store that lost a race
# loads again and calls it again.
DecideBatch: TypeAlias = Callable[[Ledger], Sequence[Decision]]


class ChannelOwnership(Protocol):
    """Coordinates the processes that share a store: which are alive, and which one sends the
    callbacks of a merchant.

    `mmo_sansio.resilience.ownership` defines the meaning; time is the store's own clock. Every
    method raises StoreUnavailable when nothing has happened, and OutcomeUnknown when the outcome
    cannot be learnt."""

    async def renew_lease(self) -> int:
        """Renew this process's lease, or begin another when it has none or its own was ended;
        return the lease's number. A new number says that the process owns nothing any more."""

    async def end_lease(self) -> None:
        """End this process's lease: all that it owned is free at once, or when this raises, by the
        lease's end. The next renewal begins another in any case."""

    async def counts(self) -> OwnershipCounts:
        """Return how many processes are alive, and how many channels they own."""

    async def claim(
        self,
        *,
        excluding: Collection[str] = (),
        known: Mapping[str, int] | None = None,
        waiting: Collection[str] | None = None,
        end_leases: bool = False,
    ) -> Sequence[Channel]:
        """Claim the channels that have callbacks waiting and that no process owns, but not those of
        these brands.

        With `known`, the fences of the channels that this process knows to be its own, a channel
        that it owns under another fence gets a new one and is returned: so the process learns what
        it claimed when an answer was lost. With `waiting`, the brands of callbacks that this
        process has committed lately, a store to which the search for all others is costly may leave
        these out for some seconds. With `end_leases`, first end the leases of processes that have
        run out; until that is done their owners can renew them."""

    async def find_callbacks(
        self,
        room: Mapping[str, int],
        *,
        known: Mapping[str, int] | None = None,
        taken: Mapping[str, Collection[str]] | None = None,
        afresh: Collection[str] = (),
    ) -> Sequence[WorkItem]:
        """Return callbacks that wait in this process's channels, whichever process committed them,
        at most so many of each brand, oldest first. Their intents carry the channel's fence.
        Nothing is changed, as only the owner of a channel sends them: the caller names what it has
        `taken` and not concluded, gatewayReferences by brand, which are left out.

        With `known`, only callbacks of channels are returned whose fence is the one that is known.
        A store to which the search is costly may find some seconds later what became visible out of
        order, except for the brands `afresh`."""

    async def release(
        self, fences: Mapping[str, int], breakers: Mapping[str, BreakerSnapshot]
    ) -> None:
        """Free these channels, by brand, and store the breakers that are given, in the gateway's
        own time, as far as this process owns the channels under these fences."""

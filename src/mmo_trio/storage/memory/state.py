"""Holds the state of a store in memory, and records how a batch changes it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

import trio
from attrs import Factory, define, evolve, field

from mmo_sansio.messages.changes import (
    BreakerSaved,
    CallbackRecorded,
    JournalEntry,
    SuspenseRecorded,
    TransactionAdvanced,
    TransactionCreated,
)
from mmo_sansio.messages.intents import IntentKey, PollProvider
from mmo_sansio.payments.back_test import RefusedRequest
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.resilience.ownership import OwnershipModel
from mmo_sansio.resilience.store_mark import StoreMark, StoreState
from mmo_sansio.values.clock import SECOND, Instant, MonotonicInstant
from mmo_sansio.values.model import Brand, Transaction
from mmo_trio.storage.interface.admin_types import (
    AuditEvent,
    AuditHead,
    AuditKey,
    AuditRow,
    BrandHold,
    BreakerChange,
    ClosedProvider,
    ConsoleSession,
    ConsoleUser,
    Proposal,
    ProviderNote,
    SecondFactor,
    ServingProcess,
    SignInAttempt,
    StoredApiKey,
    StoredMasterKey,
    SuspenseEntry,
)
from mmo_trio.storage.interface.audit_chain import EMPTY_HEAD, next_row
from mmo_trio.storage.interface.configuration_types import BrandDay, ConfigurationChange, RefusalCount
from mmo_trio.storage.interface.retention import EMPTY_ARCHIVE, ArchiveHead, RetentionDuty


@define
class MemoryAdminState:
    """Holds the part of the state that only the admin API uses."""

    operators: dict[str, ConsoleUser] = Factory(dict)
    master_keys: list[StoredMasterKey] = Factory(list)
    sessions: dict[bytes, ConsoleSession] = Factory(dict)
    sign_in_attempts: list[SignInAttempt] = Factory(list)
    second_factors: dict[str, SecondFactor] = Factory(dict)
    recovery_codes: dict[str, set[bytes]] = Factory(dict)
    proposals: list[Proposal] = Factory(list)
    configuration_changes: list[ConfigurationChange] = Factory(list)
    refused: list[RefusedRequest] = Factory(list)
    refusal_counts: dict[BrandDay, RefusalCount] = Factory(dict)
    audit: list[AuditRow] = Factory(list)
    audit_keys: dict[str, bytes] = Factory(dict)
    breaker_changes: list[BreakerChange] = Factory(list)

    @property
    def audit_head(self) -> AuditHead:
        """Return where the audit log ends."""
        return AuditHead(self.audit[-1].number, self.audit[-1].hash) if self.audit else EMPTY_HEAD

    def append_audit(self, event: AuditEvent, key: AuditKey) -> AuditRow:
        """Append an event to the audit log."""
        self.audit.append(next_row(self.audit_head, event, key))
        return self.audit[-1]

    def record_breaker(self, saved: BreakerSaved, at: Instant) -> None:
        """Record the change if the breaker has opened or closed."""
        earlier = [each.state for each in self.breaker_changes if each.brand == saved.brand]
        before = earlier[-1] if earlier else BreakerState.CLOSED.value
        if saved.breaker.state.value != before:
            change = BreakerChange(saved.brand, at, saved.breaker.state.value)
            self.breaker_changes.append(change)


@define
class MemoryRetentionState:
    """Holds how far the removal of old rows has come."""

    holder: str = ""
    """The holder of the lease; "" when nobody has it."""
    held_until: int = 0
    """By the store's own clock."""
    last_run: Instant = Instant(0)
    positions: dict[RetentionDuty, str] = Factory(dict)
    archive: ArchiveHead = EMPTY_ARCHIVE


def store_time() -> MonotonicInstant:
    """Return the time of the store's own clock: Trio's, which a test may move."""
    return MonotonicInstant(round(trio.current_time() * SECOND))


@define
class MemoryState:
    """The state of a store in memory. To open it again is what a restart is to other stores."""

    is_shared: bool = False
    """Whether it may be open several times at once, as a database is to several processes."""
    ledger: Ledger = Factory(Ledger)
    claims: dict[IntentKey, int] = Factory(dict)
    """Claimed durable intents and the numbers of their leases; 0 for a store that is not shared."""
    locked_intents: set[IntentKey] = Factory(set)
    """Durable intents of a commit in progress: claims leave them out."""
    listings: dict[str, tuple[Instant, Instant]] = Factory(dict)
    """When the last listing of each provider began, and until when all is listed."""
    ownership: OwnershipModel = Factory(OwnershipModel)
    journal: list[JournalEntry] = Factory(list)
    callbacks: list[CallbackRecorded] = Factory(list)
    suspense: list[SuspenseEntry] = Factory(list)
    brands: dict[str, Brand] = Factory(dict)
    keys: list[StoredApiKey] = Factory(list)
    last_key_id: int = 0
    closed_providers: dict[str, ClosedProvider] = Factory(dict)
    provider_notes: dict[tuple[str, str, str], ProviderNote] = Factory(dict)
    configuration_generation: int = 1
    configurations_in_use: dict[int, ServingProcess] = Factory(dict)
    """What each process has said, by the number of its lease."""
    clock_records: dict[str, ClockRecord] = Factory(dict)
    """By the start of the machine."""
    brand_holds: dict[str, BrandHold] = Factory(dict)
    admin: MemoryAdminState = Factory(MemoryAdminState)
    retention: MemoryRetentionState = Factory(MemoryRetentionState)
    clock: Callable[[], MonotonicInstant] = store_time
    """The store's own clock."""
    store: StoreState = StoreState(StoreMark("memory", 0))
    restored_brands: frozenset[str] = frozenset()
    wakes: list[tuple[Instant, str]] = field(init=False)
    """When each pending payment wakes, the earliest first."""

    def __attrs_post_init__(self) -> None:
        wakes = ((each.progress.wake_at, each.reference) for each in self.ledger.transactions.values())
        self.wakes = sorted((at, reference) for at, reference in wakes if at is not None)

    def apply(self, decisions: Sequence[Decision], holder: int) -> None:
        """Store a batch of decisions, whose durable intents the holder of this lease has claimed."""
        if any(decision.changes for decision in decisions):
            self.raise_epoch()
        for decision in decisions:
            self.ledger.apply(decision.changes, decision.intents)
            self.claims.update(
                ((intent.gateway_reference, intent.kind), holder)
                for intent in decision.intents
                if not isinstance(intent, PollProvider)
            )
            for change in decision.changes:
                record_change(self, change)

    def raise_epoch(self) -> None:
        """Raise the epoch of the store, a second after it was raised last."""
        now = Instant(self.clock())
        mark = self.store.mark
        if mark.epoch == 0 or now - mark.raised_at >= SECOND:
            self.store = evolve(self.store, mark=evolve(mark, epoch=mark.epoch + 1, raised_at=now))

    def record_wake(self, before: Transaction | None, now: Transaction) -> None:
        """Record when a payment wakes that is new or has moved."""
        was, wakes = None if before is None else before.progress.wake_at, self.wakes
        if was is not None:
            place = bisect_left(wakes, (was, now.reference))
            if wakes[place : place + 1] == [(was, now.reference)]:
                del wakes[place]
        if now.progress.wake_at is not None:
            insort(wakes, (now.progress.wake_at, now.reference))


def record_change(memory: MemoryState, change: object) -> None:
    """Record what decisions do not look at: what staff read, and when payments wake."""
    match change:
        case TransactionCreated(transaction):
            memory.record_wake(None, transaction)
        case TransactionAdvanced(before, now):
            memory.record_wake(before, now)
        case JournalEntry():
            memory.journal.append(change)
        case CallbackRecorded():
            memory.callbacks.append(change)
        case BreakerSaved(brand, fence, breaker):
            memory.ownership.save_breaker(brand, fence, breaker)
            memory.admin.record_breaker(change, memory.callbacks[-1].at)
        case SuspenseRecorded():
            _record_suspense(memory, change)
        case _:
            pass


def _record_suspense(memory: MemoryState, recorded: SuspenseRecorded) -> None:
    identity = (recorded.reason, recorded.provider, recorded.content, recorded.gateway_reference)
    for index, each in enumerate(memory.suspense):
        if (each.reason, each.provider, each.content, each.gateway_reference) == identity:
            memory.suspense[index] = evolve(each, times=each.times + 1, last_at=recorded.at)
            return
    id, at = max((each.id for each in memory.suspense), default=0) + 1, recorded.at
    entry = SuspenseEntry(id, *identity, recorded.brand, first_at=at, last_at=at, times=1)
    memory.suspense.append(entry)

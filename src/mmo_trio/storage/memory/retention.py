"""Removes and masks what is too old in the store in memory."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import takewhile
from typing import TypeVar, assert_never

from attrs import define, evolve, field

from mmo_sansio.payments.personal_data import mask_claim, mask_transaction
from mmo_sansio.values.clock import DAY, Instant, Span
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import AuditRow, ProposalState
from mmo_trio.storage.interface.retention import (
    AgedRows,
    ArchivedHistory,
    ArchivedPayment,
    ArchiveHead,
    RetentionDuty,
    RetentionStep,
)
from mmo_trio.storage.memory.state import MemoryState
from mmo_trio.storage.shared.payment_index import position_of
from mmo_trio.storage.shared.personal_rows import mask_callback, mask_line, mask_proposal, mask_suspense_entry

T = TypeVar("T")


@define(eq=False)
class MemoryRetentionStore:
    """See :class:`mmo_trio.storage.interface.retention.RetentionStore`; one step does all there is to do."""

    _memory: Callable[[], Awaitable[MemoryState]] = field(alias="memory")

    async def take_lease(self, holder: str, duration: Span) -> bool:
        memory = await self._memory()
        state, now = memory.retention, memory.clock()
        if state.holder not in ("", holder) and state.held_until >= now:
            return False
        state.holder, state.held_until = holder, now + duration
        return True

    async def end_lease(self, holder: str) -> None:
        state = (await self._memory()).retention
        if state.holder == holder:
            state.holder = ""

    async def last_run(self) -> Instant:
        return (await self._memory()).retention.last_run

    async def save_run(self, now: Instant) -> None:
        (await self._memory()).retention.last_run = now

    async def position(self, duty: RetentionDuty) -> str:
        return (await self._memory()).retention.positions.get(duty, "")

    async def save_position(self, duty: RetentionDuty, position: str) -> None:
        (await self._memory()).retention.positions[duty] = position

    async def count_aged(self, duty: RetentionDuty, before: Instant) -> AgedRows:
        memory = await self._memory()
        times = sorted(at for at in _times(memory, duty) if at < before)
        return AgedRows(len(times), times[0], times[-1]) if times else AgedRows(0)

    async def age(self, duty: RetentionDuty, before: Instant, position: str, *, limit: int) -> RetentionStep:
        memory = await self._memory()
        match duty:
            case RetentionDuty.CALLBACK_BODIES:
                changed = _remove_bodies(memory, before)
            case RetentionDuty.PERSONAL_DATA:
                changed = _mask_payments(memory, before)
            case RetentionDuty.SUSPENSE_DATA:
                changed = _mask_suspense(memory, before)
            case RetentionDuty.HOURLY_COUNTS:
                changed = 0  # Payments are counted when somebody asks.
            case RetentionDuty.BREAKER_CHANGES:
                changed = _remove_breaker_changes(memory, before)
            case RetentionDuty.ARCHIVED_PAYMENTS | RetentionDuty.ARCHIVED_HISTORY | RetentionDuty.ARCHIVED_AUDIT:
                raise ValueError(f"{duty} needs an archive")
            case _:
                assert_never(duty)
        return RetentionStep(changed, "", is_last=True)

    async def archive_head(self) -> ArchiveHead:
        return (await self._memory()).retention.archive

    async def advance_archive(self, known: ArchiveHead, head: ArchiveHead) -> bool:
        state = (await self._memory()).retention
        if state.archive != known:
            return False
        state.archive = head
        return True

    async def archived_references(self, merchant_reference: str) -> Sequence[str]:
        uses = (await self._memory()).ledger.references.items()
        return [each.gateway_reference for key, each in uses if key[1] == merchant_reference and each.ended is not None]

    async def archivable_payments(
        self, before: Instant, position: str, *, limit: int
    ) -> tuple[Sequence[ArchivedPayment], str | None]:
        memory = await self._memory()
        created = sorted(memory.ledger.transactions.values(), key=position_of)
        over = [
            each
            for each in created
            if each.order.created_at < before and _is_over(memory, each, before) and _position_text(each) > position
        ]
        day = over[0].order.created_at // DAY if over else 0
        chosen = [each for each in over if each.order.created_at // DAY == day][:limit]
        left = len(chosen) < len(over)
        return [_with_history(memory, each) for each in chosen], _position_text(chosen[-1]) if left else None

    async def archivable_history(
        self, before: Instant, position: str, *, limit: int
    ) -> tuple[ArchivedHistory, str | None]:
        memory = await self._memory()
        stored = memory.ledger.transactions
        lines = [(nth, each) for nth, each in enumerate(memory.journal) if each.at < before]
        return (
            ArchivedHistory(
                [(number, each) for number, each in lines if each.gateway_reference not in stored],
                [
                    each
                    for each in memory.suspense
                    if each.closed_at is not None and each.last_at < before and each.gateway_reference not in stored
                ],
            ),
            None,
        )

    async def stored_payments(self, references: Sequence[str]) -> Sequence[Transaction]:
        stored = (await self._memory()).ledger.transactions
        return [stored[each] for each in references if each in stored]

    async def remove_archived(
        self, payments: Sequence[ArchivedPayment], *, masks_claims: bool, is_durable: bool
    ) -> int:
        memory = await self._memory()
        removed = [
            each for each in payments if memory.ledger.transactions.get(each.transaction.reference) == each.transaction
        ]
        for each in removed:
            order = each.transaction.order
            if masks_claims:
                _mask_settled_claim(memory, order.provider, each.transaction.progress.provider_reference)
            del memory.ledger.transactions[order.gateway_reference]
            key = (order.brand, order.merchant_reference or "")
            use = memory.ledger.references.get(key)
            if use is not None and use.gateway_reference == order.gateway_reference:
                memory.ledger.references[key] = evolve(use, ended=each.transaction.status)
            memory.journal = _without(memory.journal, (line for _, line in each.journal))
            memory.callbacks = [
                call for call in memory.callbacks if call.gateway_reference != each.transaction.reference
            ]
            memory.suspense = _without(memory.suspense, each.suspense)
            memory.admin.proposals = _without(memory.admin.proposals, each.proposals)
        return len(removed)

    async def archivable_audit(self, before: Instant, *, limit: int) -> Sequence[AuditRow]:
        log = (await self._memory()).admin.audit[:-1][:limit]
        return list(takewhile(lambda row: row.event.at < before, log))

    async def remove_audit(self, through: int) -> int:
        state = (await self._memory()).admin
        kept = [row for row in state.audit[:-1] if row.number > through] + state.audit[-1:]
        removed, state.audit = len(state.audit) - len(kept), kept
        return removed

    async def release_space(self, before: Instant) -> None:
        """Do nothing: there are no files."""

    async def remove_history(self, history: ArchivedHistory) -> int:
        memory = await self._memory()
        before = len(memory.journal) + len(memory.suspense)
        memory.journal = _without(memory.journal, (line for _, line in history.journal))
        memory.suspense = _without(memory.suspense, history.suspense)
        return before - len(memory.journal) - len(memory.suspense)


def _times(memory: MemoryState, duty: RetentionDuty) -> Iterable[Instant]:
    """Return the times of what this duty looks at."""
    ended = [each for each in memory.ledger.transactions.values() if each.progress.stage.is_terminal]
    match duty:
        case RetentionDuty.CALLBACK_BODIES:
            return [each.at for each in memory.callbacks if each.attempt.body]
        case RetentionDuty.PERSONAL_DATA:
            return [each.order.created_at for each in ended if mask_transaction(each) is not each]
        case RetentionDuty.SUSPENSE_DATA:
            return [each.last_at for each in memory.suspense if each.closed_at is not None]
        case RetentionDuty.HOURLY_COUNTS:
            return ()
        case RetentionDuty.BREAKER_CHANGES:
            return [each.at for each in memory.admin.breaker_changes]
        case RetentionDuty.ARCHIVED_PAYMENTS:
            return [each.order.created_at for each in ended]
        case RetentionDuty.ARCHIVED_HISTORY:
            return [each.at for each in memory.journal if each.gateway_reference is None]
        case RetentionDuty.ARCHIVED_AUDIT:
            return [row.event.at for row in memory.admin.audit[:-1]]
        case _:
            assert_never(duty)


def _remove_bodies(memory: MemoryState, before: Instant) -> int:
    old = [each.at < before and bool(each.attempt.body) for each in memory.callbacks]
    memory.callbacks = [
        evolve(each, attempt=evolve(each.attempt, body=b"")) if is_old else each
        for each, is_old in zip(memory.callbacks, old, strict=True)
    ]
    return sum(old)


def _mask_payments(memory: MemoryState, before: Instant) -> int:
    ledger = memory.ledger
    due = {
        each.reference: masked
        for each in ledger.transactions.values()
        if each.order.created_at < before
        and each.progress.stage.is_terminal
        and not _has_open_intent(memory, each.reference)
        and (masked := mask_transaction(each)) is not each
    }
    ledger.transactions.update(due)
    for masked in due.values():
        _mask_settled_claim(memory, masked.order.provider, masked.progress.provider_reference)
    memory.journal = [mask_line(each) if each.gateway_reference in due else each for each in memory.journal]
    memory.callbacks = [mask_callback(each) if each.gateway_reference in due else each for each in memory.callbacks]
    memory.admin.proposals = [
        mask_proposal(each) if each.gateway_reference in due and each.state is not ProposalState.OPEN else each
        for each in memory.admin.proposals
    ]
    return len(due)


def _mask_settled_claim(memory: MemoryState, provider: str, receipt: str | None) -> None:
    claim = memory.ledger.claims.get((provider, receipt or ""))
    if claim is not None and claim.wake_at is None:
        memory.ledger.claims[claim.provider, claim.receipt] = mask_claim(claim)


def _mask_suspense(memory: MemoryState, before: Instant) -> int:
    changed = 0
    for index, each in enumerate(memory.suspense):
        if each.closed_at is None or each.last_at >= before:
            continue
        masked = mask_suspense_entry(each)
        changed += masked != each
        memory.suspense[index] = masked
        _mask_settled_claim(memory, each.provider, json.loads(each.content).get("providerReference"))
    return changed


def _remove_breaker_changes(memory: MemoryState, before: Instant) -> int:
    """Remove old changes, but the newest of each brand, by which the next is known as one."""
    changes = memory.admin.breaker_changes
    newest = {each.brand: each for each in changes}
    kept = [each for each in changes if each.at >= before or newest[each.brand] is each]
    memory.admin.breaker_changes = kept
    return len(changes) - len(kept)


def _has_open_intent(memory: MemoryState, reference: str) -> bool:
    return any(key[0] == reference for key in memory.ledger.intents)


def _is_over(memory: MemoryState, transaction: Transaction, before: Instant) -> bool:
    """Tell whether a payment has ended and nothing about it is open or newer than this."""
    reference = transaction.reference
    return (
        transaction.progress.stage.is_terminal
        and not _has_open_intent(memory, reference)
        and not any(
            each.gateway_reference == reference and (each.closed_at is None or each.last_at >= before)
            for each in memory.suspense
        )
        and not any(
            each.gateway_reference == reference and each.state is ProposalState.OPEN for each in memory.admin.proposals
        )
    )


def _position_text(transaction: Transaction) -> str:
    """Return a position that sorts as its payment does."""
    return f"{transaction.order.created_at:020d}/{transaction.reference}"


def _with_history(memory: MemoryState, transaction: Transaction) -> ArchivedPayment:
    reference = transaction.reference
    return ArchivedPayment(
        transaction,
        tuple((nth, each) for nth, each in enumerate(memory.journal) if each.gateway_reference == reference),
        tuple(
            (nth, evolve(each, attempt=evolve(each.attempt, body=b"")))
            for nth, each in enumerate(memory.callbacks)
            if each.gateway_reference == reference
        ),
        tuple(each for each in memory.suspense if each.gateway_reference == reference),
        tuple(each for each in memory.admin.proposals if each.gateway_reference == reference),
    )


def _without(rows: list[T], removed: Iterable[T]) -> list[T]:
    """Return the rows without one equal row for each that was removed."""
    left = list(rows)
    for each in removed:
        if each in left:
            left.remove(each)
    return left

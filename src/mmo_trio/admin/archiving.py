"""Moves payments that are too old from the store to the archive, so that each is in one of the two, whatever happens.

A part of the archive is on the disk and read back, byte for byte, before the store learns of it, and the store knows it
before anything is removed. What it names is removed, and that is on the disk, before another part follows. So after a
death at any point the next run finds the last part complete or absent: what it names and the store still has is removed
first.

Who runs it serves payments meanwhile: whatever takes long is done in a thread that needs no lock of the interpreter, or
in slices of a millisecond.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

import trio
from attrs import Factory, evolve, frozen

from mmo_sansio.payments.personal_data import mask_transaction
from mmo_sansio.values.clock import DAY, Instant, to_datetime
from mmo_trio.admin.retention_pace import RetentionPace, StepSize
from mmo_trio.storage.archive.directory import ArchiveDirectory, ArchivePart, ArchiveUnusable
from mmo_trio.storage.archive.rows import ArchiveRows, PartContent
from mmo_trio.storage.interface.admin_types import AuditRow
from mmo_trio.storage.interface.retention import (
    EMPTY_ARCHIVE,
    ArchivedHistory,
    ArchivedPayment,
    ArchiveHead,
    RetentionDuty,
    RetentionStore,
)
from mmo_trio.storage.shared.personal_rows import mask_history, mask_payment

PAGE_ROWS = 100
"""Payments that are read at a time, at first."""

PAGE_ROWS_MAX = 200
"""So that they are parsed in ten milliseconds."""

PART_PAYMENTS = 2_000
"""Payments of one part, all created on one day; it has all their rows in memory."""

AUDIT_ROWS = 500
"""Rows of the audit log of one part."""

REMOVED_AT_ONCE = 50
"""Payments that one step removes, at first."""

REMOVED_MAX = 500

SLICE_PAYMENTS = 8
"""Payments that are masked and encoded before others get their turn: this takes about a millisecond."""


@frozen
class _ReadPart:
    """What was read from the store for the next part, and how it is written there."""

    day: Instant
    """The time of the oldest."""
    content: PartContent
    payments: Sequence[ArchivedPayment] = ()
    """As they are in the store."""
    history: ArchivedHistory | None = None
    audit: Sequence[AuditRow] = ()


@frozen
class Archiver:
    """Works while its process has the lease."""

    store: RetentionStore
    directory: ArchiveDirectory
    pace: RetentionPace
    read_size: StepSize = Factory(lambda: StepSize(PAGE_ROWS, PAGE_ROWS_MAX))
    removal_size: StepSize = Factory(lambda: StepSize(REMOVED_AT_ONCE, REMOVED_MAX))

    async def run(self, due: Mapping[RetentionDuty, Instant], now: Instant) -> AsyncIterator[tuple[RetentionDuty, int]]:
        """Archive what is older than this says for each duty; yield how many rows each step has removed. What is older
        than the duty of personal data says is masked in the archive. Raises ArchiveUnusable, and LeaseLost."""
        await trio.to_thread.run_sync(self.directory.prepare)
        head = await self.store.archive_head()
        if head != EMPTY_ARCHIVE:
            async for each in self._remove(await self._recover(await self._known_part(head)), due):
                yield each
        for number in await trio.to_thread.run_sync(self.directory.numbers):
            if number > head.number:
                part = await trio.to_thread.run_sync(self.directory.part, number)
                await trio.to_thread.run_sync(self.directory.verify, part, head)
                head = await self._advance(part, head)
                async for each in self._remove(await self._recover(part), due):
                    yield each
        released = None
        async for read in self._parts(due):
            write = partial(self.directory.write, read.content, head, day=read.day, now=now)
            head = await self._advance(await self.pace.step(partial(trio.to_thread.run_sync, write)), head)
            async for each in self._remove(read, due):
                yield each
            if released not in (None, month := to_datetime(read.day).month):
                await self.pace.step(partial(self.store.release_space, read.day))
            released = month
        if RetentionDuty.ARCHIVED_HISTORY in due:
            await self.pace.step(partial(self.store.release_space, due[RetentionDuty.ARCHIVED_HISTORY]))

    async def _parts(self, due: Mapping[RetentionDuty, Instant]) -> AsyncIterator[_ReadPart]:
        """Yield what was read for each part that is to be written."""
        if RetentionDuty.ARCHIVED_PAYMENTS in due:
            position: str | None = ""
            while position is not None:
                content, payments, position = await self._gather(due, position)
                if payments:
                    yield _ReadPart(payments[0].transaction.order.created_at, content, payments)
        if RetentionDuty.ARCHIVED_HISTORY in due:
            before, position = due[RetentionDuty.ARCHIVED_HISTORY], ""
            while position is not None:
                read = partial(self.store.archivable_history, before, position, limit=PAGE_ROWS)
                history, position = await self.pace.step(read)
                times = [line.at for _, line in history.journal] + [each.last_at for each in history.suspense]
                if times:
                    masked = mask_history(history) if _is_masked(max(times), due) else history
                    yield _ReadPart(min(times), _content(ArchiveRows.of_history(masked)), history=history)
        if RetentionDuty.ARCHIVED_AUDIT in due:
            before = due[RetentionDuty.ARCHIVED_AUDIT]
            rows: Sequence[AuditRow] | None = None
            while rows is None or len(rows) == AUDIT_ROWS:
                rows = await self.pace.step(partial(self.store.archivable_audit, before, limit=AUDIT_ROWS))
                if rows:
                    yield _ReadPart(rows[0].event.at, _content(ArchiveRows.of_audit(rows)), audit=rows)

    async def _gather(
        self, due: Mapping[RetentionDuty, Instant], position: str
    ) -> tuple[PartContent, Sequence[ArchivedPayment], str | None]:
        """Read and encode the payments of the next part; return also where the part after it begins."""
        content, gathered = PartContent(), list[ArchivedPayment]()
        before = due[RetentionDuty.ARCHIVED_PAYMENTS]
        at: str | None = position
        while at is not None and len(gathered) < PART_PAYMENTS:
            read = partial(self._read_page, before, at, PART_PAYMENTS - len(gathered))
            page, following = await self.pace.sized_step(self.read_size, read)
            if gathered and page and _day_of(page[0]) != _day_of(gathered[0]):
                break
            await self.pace.step(partial(_encode, content, page, due))
            gathered += page
            at = following
        return content, gathered, at

    async def _read_page(
        self, before: Instant, position: str, left: int, limit: int
    ) -> tuple[Sequence[ArchivedPayment], str | None]:
        return await self.store.archivable_payments(before, position, limit=min(left, limit))

    async def _known_part(self, head: ArchiveHead) -> ArchivePart:
        """Return the part that the store knows as the last. Raises ArchiveUnusable where another archive, or none, is
        in the directory."""
        numbers = await trio.to_thread.run_sync(self.directory.numbers)
        part = self.directory.part(head.number) if head.number in numbers else None
        if part is None or part.head != head:
            raise ArchiveUnusable(
                f"{self.directory.path} holds another archive than the one of this store, which ends with part"
                f" {head.number} ({head.digest}): mount the right one, or correct retention.archive_directory."
            )
        return part

    async def _recover(self, part: ArchivePart) -> _ReadPart:
        """Return what the files of a part name and the store still has, as it is there. Raises ArchiveUnusable."""
        rows = await trio.to_thread.run_sync(self.directory.read, part)
        archived = {each.transaction.reference: each for each in rows.payments()}
        payments: list[ArchivedPayment] = []
        references = list(archived)
        for first in range(0, len(references), PAGE_ROWS):
            read = partial(self.store.stored_payments, references[first : first + PAGE_ROWS])
            for stored in await self.pace.step(read):
                known = archived[stored.reference]
                if stored.progress.stage.is_terminal and known.transaction in (stored, mask_transaction(stored)):
                    payments.append(evolve(known, transaction=stored))
        history = None if archived or rows.audit else ArchivedHistory(rows.journal, rows.suspense)
        return _ReadPart(Instant(0), PartContent(), payments, history, rows.audit)

    async def _advance(self, part: ArchivePart, head: ArchiveHead) -> ArchiveHead:
        """Let the store know a part as the last. Raises ArchiveUnusable."""
        if not await self.store.advance_archive(head, part.head):
            raise ArchiveUnusable(f"Another process has continued the archive after part {head.number}.")
        return part.head

    async def _remove(
        self, read: _ReadPart, due: Mapping[RetentionDuty, Instant]
    ) -> AsyncIterator[tuple[RetentionDuty, int]]:
        """Remove from the store what is in the archive."""
        payments = read.payments
        while payments:
            removed = 0
            while removed < len(payments):
                some = payments[removed : removed + self.removal_size.rows]
                removed += len(some)
                remove = partial(self._remove_some, some, due, removed == len(payments))
                yield RetentionDuty.ARCHIVED_PAYMENTS, await self.pace.sized_step(self.removal_size, remove)
            payments = await self._left_of(payments)
        if read.audit:
            remove_audit = partial(self.store.remove_audit, read.audit[-1].number)
            yield RetentionDuty.ARCHIVED_AUDIT, await self.pace.step(remove_audit)
        if read.history is not None:
            remove_history = partial(self.store.remove_history, read.history)
            yield RetentionDuty.ARCHIVED_HISTORY, await self.pace.step(remove_history)

    async def _remove_some(
        self, payments: Sequence[ArchivedPayment], due: Mapping[RetentionDuty, Instant], is_durable: bool, _limit: int
    ) -> int:
        masks_claims = _is_masked(payments[0].transaction.order.created_at, due)
        return await self.store.remove_archived(payments, masks_claims=masks_claims, is_durable=is_durable)

    async def _left_of(self, payments: Sequence[ArchivedPayment]) -> Sequence[ArchivedPayment]:
        """Return those of the removed payments that the store still has as they were. A server that was restarted may
        have lost removals that were not durable. The last one was, so what is not found now stays removed."""
        left: list[ArchivedPayment] = []
        for first in range(0, len(payments), PAGE_ROWS):
            some = {each.transaction.reference: each for each in payments[first : first + PAGE_ROWS]}
            stored = await self.pace.step(partial(self.store.stored_payments, list(some)))
            left += [some[each.reference] for each in stored if each == some[each.reference].transaction]
        return left


def _content(rows: ArchiveRows) -> PartContent:
    content = PartContent()
    content.add(rows)
    return content


async def _encode(
    content: PartContent, payments: Sequence[ArchivedPayment], due: Mapping[RetentionDuty, Instant]
) -> None:
    """Add payments to a part, without the personal data that is too old."""
    for first in range(0, len(payments), SLICE_PAYMENTS):
        content.add(
            ArchiveRows.of_payments(
                mask_payment(each) if _is_masked(each.transaction.order.created_at, due) else each
                for each in payments[first : first + SLICE_PAYMENTS]
            )
        )
        await trio.lowlevel.checkpoint()


def _is_masked(at: Instant, due: Mapping[RetentionDuty, Instant]) -> bool:
    """Tell whether what was created at this time has lost its personal data."""
    return RetentionDuty.PERSONAL_DATA in due and at < due[RetentionDuty.PERSONAL_DATA]


def _day_of(payment: ArchivedPayment) -> int:
    return payment.transaction.order.created_at // DAY

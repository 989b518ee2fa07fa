"""Moves payments that are too old from the store to the archive, so that each is in one of the two, whatever happens.

A part of the archive is on the disk and read back before the store learns of it, and the store knows it before anything
is removed. So after a death at any point the next run finds the last part complete or absent: what it names and the
store still has is removed first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

import trio
from attrs import frozen

from mmo_sansio.values.clock import DAY, Instant
from mmo_trio.admin.retention_pace import RetentionPace
from mmo_trio.storage.archive.directory import ArchiveDirectory, ArchivePart, ArchiveUnusable
from mmo_trio.storage.archive.rows import ArchiveRows
from mmo_trio.storage.interface.admin_types import AuditRow
from mmo_trio.storage.interface.retention import (
    EMPTY_ARCHIVE,
    ArchivedHistory,
    ArchivedPayment,
    ArchiveHead,
    RetentionDuty,
    RetentionStore,
)

PAGE_ROWS = 100
"""Payments that are read at a time."""

PART_PAYMENTS = 2_000
"""Payments of one part, all created on one day; it has all their rows in memory."""

AUDIT_ROWS = 500
"""Rows of the audit log of one part."""

REMOVED_AT_ONCE = 25
"""Payments that one step removes."""


@frozen
class Archiver:
    """Works while its process has the lease."""

    store: RetentionStore
    directory: ArchiveDirectory
    pace: RetentionPace

    async def run(self, due: Mapping[RetentionDuty, Instant], now: Instant) -> AsyncIterator[tuple[RetentionDuty, int]]:
        """Archive what is older than this says for each duty; yield how many rows each step has removed. Raises
        ArchiveUnusable, and LeaseLost."""
        await trio.to_thread.run_sync(self.directory.prepare)
        head = await self.store.archive_head()
        if head != EMPTY_ARCHIVE:
            async for each in self._remove(await self._known_part(head)):
                yield each
        for number in await trio.to_thread.run_sync(self.directory.numbers):
            if number > head.number:
                part = await trio.to_thread.run_sync(self.directory.part, number)
                head = await self._adopt(part, head)
                async for each in self._remove(part):
                    yield each
        async for rows, day in self._parts(due):
            part = await self.pace.step(
                partial(trio.to_thread.run_sync, partial(self.directory.write, rows, head, day=day, now=now))
            )
            head = await self._adopt(part, head)
            async for each in self._remove(part):
                yield each
        if RetentionDuty.ARCHIVED_HISTORY in due:
            await self.pace.step(partial(self.store.release_space, due[RetentionDuty.ARCHIVED_HISTORY]))

    async def _parts(self, due: Mapping[RetentionDuty, Instant]) -> AsyncIterator[tuple[ArchiveRows, Instant]]:
        """Yield the rows of each part that is to be written, with the time of the oldest."""
        if RetentionDuty.ARCHIVED_PAYMENTS in due:
            position: str | None = ""
            while position is not None:
                payments, position = await self._gather(due[RetentionDuty.ARCHIVED_PAYMENTS], position)
                if payments:
                    yield ArchiveRows.of_payments(payments), payments[0].transaction.order.created_at
        if RetentionDuty.ARCHIVED_HISTORY in due:
            before, position = due[RetentionDuty.ARCHIVED_HISTORY], ""
            while position is not None:
                read = partial(self.store.archivable_history, before, position, limit=PAGE_ROWS)
                history, position = await self.pace.step(read)
                times = [line.at for _, line in history.journal] + [each.last_at for each in history.suspense]
                if times:
                    yield ArchiveRows.of_history(history), min(times)
        if RetentionDuty.ARCHIVED_AUDIT in due:
            before = due[RetentionDuty.ARCHIVED_AUDIT]
            rows: Sequence[AuditRow] | None = None
            while rows is None or len(rows) == AUDIT_ROWS:
                rows = await self.pace.step(partial(self.store.archivable_audit, before, limit=AUDIT_ROWS))
                if rows:
                    yield ArchiveRows.of_audit(rows), rows[0].event.at

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

    async def _gather(self, before: Instant, position: str) -> tuple[Sequence[ArchivedPayment], str | None]:
        """Read the payments of the next part, and where the part after it begins."""
        gathered: list[ArchivedPayment] = []
        at: str | None = position
        while at is not None and len(gathered) < PART_PAYMENTS:
            read = partial(self.store.archivable_payments, before, at, limit=PAGE_ROWS)
            page, following = await self.pace.step(read)
            if gathered and page and _day_of(page[0]) != _day_of(gathered[0]):
                break
            gathered += page
            at = following
        return gathered, at

    async def _adopt(self, part: ArchivePart, head: ArchiveHead) -> ArchiveHead:
        """Verify a part, and let the store know it as the last. Raises ArchiveUnusable."""
        await trio.to_thread.run_sync(self.directory.verify, part, head)
        if not await self.store.advance_archive(head, part.head):
            raise ArchiveUnusable(f"Another process has continued the archive after part {head.number}.")
        return part.head

    async def _remove(self, part: ArchivePart) -> AsyncIterator[tuple[RetentionDuty, int]]:
        """Remove from the store what the files of a part name, as they are on the disk."""
        rows = await trio.to_thread.run_sync(self.directory.read, part)
        payments = rows.payments()
        for at in range(0, len(payments), REMOVED_AT_ONCE):
            some = payments[at : at + REMOVED_AT_ONCE]
            yield RetentionDuty.ARCHIVED_PAYMENTS, await self.pace.step(partial(self.store.remove_archived, some))
        if rows.audit:
            remove = partial(self.store.remove_audit, rows.audit[-1].number)
            yield RetentionDuty.ARCHIVED_AUDIT, await self.pace.step(remove)
        elif not payments:
            history = ArchivedHistory(rows.journal, rows.suspense)
            yield RetentionDuty.ARCHIVED_HISTORY, await self.pace.step(partial(self.store.remove_history, history))


def _day_of(payment: ArchivedPayment) -> int:
    return payment.transaction.order.created_at // DAY

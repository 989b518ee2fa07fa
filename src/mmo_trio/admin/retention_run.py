"""Removes what is too old from the store, in small steps that leave the store to others most of the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from attrs import Factory, define, frozen

from mmo_sansio.values.clock import DAY, Instant, earlier
from mmo_trio.admin.archiving import Archiver
from mmo_trio.admin.retention_pace import RetentionPace
from mmo_trio.settings.sections import RetentionSection
from mmo_trio.storage.archive.directory import ArchiveDirectory, ArchiveUnusable
from mmo_trio.storage.interface.retention import AgedRows, RetentionDuty, RetentionStep, RetentionStore

STEP_ROWS = 50
"""Payments or other rows that one step looks at, so that each takes milliseconds."""

POSITION_SAVED_AFTER_STEPS = 100

_ARCHIVED = frozenset({RetentionDuty.ARCHIVED_PAYMENTS, RetentionDuty.ARCHIVED_HISTORY, RetentionDuty.ARCHIVED_AUDIT})


@frozen
class AgedDuty:
    """Says what of a duty is too old."""

    duty: RetentionDuty
    before: Instant
    found: AgedRows


@define
class RetentionReport:
    """Says what a run has done."""

    changed: dict[RetentionDuty, int] = Factory(dict)
    """Rows that were removed or masked."""
    archive_fault: str | None = None
    """Why nothing was archived; None when nothing is wrong."""

    def rows(self) -> Mapping[str, int]:
        """Return how many rows have changed, by the names of the duties that had any."""
        return {duty.value: count for duty, count in self.changed.items() if count}


def cutoffs(section: RetentionSection, now: Instant) -> Mapping[RetentionDuty, Instant]:
    """Return before which time each duty's rows are too old; without those that are switched off. Whole days in UTC, so
    that a run of the same day finds nothing more."""
    archive_after = section.archive_after if section.archive_directory is not None else None
    spans = {
        RetentionDuty.CALLBACK_BODIES: section.callback_bodies,
        RetentionDuty.PERSONAL_DATA: section.personal_data,
        RetentionDuty.SUSPENSE_DATA: section.personal_data,
        RetentionDuty.HOURLY_COUNTS: section.hourly_counts,
        RetentionDuty.BREAKER_CHANGES: section.hourly_counts,
        RetentionDuty.ARCHIVED_PAYMENTS: archive_after,
        RetentionDuty.ARCHIVED_HISTORY: archive_after,
        RetentionDuty.ARCHIVED_AUDIT: section.audit if section.archive_directory is not None else None,
    }
    return {
        duty: Instant(earlier(now, span) // DAY * DAY)
        for duty, span in spans.items()
        if span is not None and span < now
    }


async def find_aged(store: RetentionStore, section: RetentionSection, *, now: Instant) -> list[AgedDuty]:
    """Count what a run would remove."""
    return [
        AgedDuty(duty, before, await store.count_aged(duty, before)) for duty, before in cutoffs(section, now).items()
    ]


@define(eq=False)
class RetentionRun:
    """Removes what is too old, duty by duty; one run at a time works on a store."""

    store: RetentionStore
    section: RetentionSection
    pace: RetentionPace
    on_change: Callable[[RetentionDuty, int], object]
    """Is called after each step with how many rows it has changed."""

    async def run(self, now: Instant) -> RetentionReport:
        """Do every duty. An archive that can't be used stops only what is archived. Raises LeaseLost."""
        report = RetentionReport()
        due = cutoffs(self.section, now)
        for duty, before in due.items():
            if duty not in _ARCHIVED:
                report.changed[duty] = await self._age(duty, before)
        if self.section.archive_directory is not None and not _ARCHIVED.isdisjoint(due):
            archiver = Archiver(self.store, ArchiveDirectory(self.section.archive_directory), self.pace)
            try:
                async for duty, count in archiver.run(due, now):
                    report.changed[duty] = report.changed.get(duty, 0) + count
                    self.on_change(duty, count)
            except ArchiveUnusable as error:
                report.archive_fault = str(error)
        await self.store.save_run(now)
        return report

    async def _age(self, duty: RetentionDuty, before: Instant) -> int:
        """Walk over the rows of a duty from where the last run has come to. A later walk begins again at the first row
        that this one had to leave."""
        resume = await self.store.position(duty)
        step = RetentionStep(0, resume, is_last=False)
        changed = steps = 0
        has_skipped = False
        while not step.is_last:
            at = step.position
            step = await self.pace.step(partial(self.store.age, duty, before, at, limit=STEP_ROWS))
            changed, steps = changed + step.changed, steps + 1
            has_skipped = has_skipped or step.has_skipped
            resume = resume if has_skipped else step.position
            if step.changed:
                self.on_change(duty, step.changed)
            if step.is_last or steps % POSITION_SAVED_AFTER_STEPS == 0:
                await self.store.save_position(duty, resume)
        return changed

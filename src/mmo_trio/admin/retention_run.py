"""Removes what is too old from the store, in small steps that leave the store to others most of the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from attrs import Factory, define, frozen

from mmo_sansio.values.clock import DAY, Instant, earlier
from mmo_trio.admin.retention_pace import RetentionPace, StepSize
from mmo_trio.settings.sections import RetentionSection
from mmo_trio.storage.interface.retention import AgedRows, RetentionDuty, RetentionStep
from mmo_trio.storage.sql.retention import RetentionStore

STEP_ROWS = 50
"""Payments or other rows that the first step looks at."""

STEP_ROWS_MAX = 1_000

POSITION_SAVED_AFTER_STEPS = 100


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

    def rows(self) -> Mapping[str, int]:
        """Return how many rows have changed, by the names of the duties that had any."""
        return {duty.value: count for duty, count in self.changed.items() if count}


def cutoffs(section: RetentionSection, now: Instant) -> Mapping[RetentionDuty, Instant]:
    """Return before which time each duty's rows are too old; without those that are switched off. Whole days in UTC, so
    that a run of the same day finds nothing more."""
    spans = {
        RetentionDuty.CALLBACK_BODIES: section.callback_bodies,
        RetentionDuty.PERSONAL_DATA: section.personal_data,
        RetentionDuty.SUSPENSE_DATA: section.personal_data,
        RetentionDuty.HOURLY_COUNTS: section.hourly_counts,
        RetentionDuty.BREAKER_CHANGES: section.hourly_counts,
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
        """Do every duty. Raises LeaseLost."""
        report = RetentionReport()
        for duty, before in cutoffs(self.section, now).items():
            report.changed[duty] = await self._age(duty, before)
        await self.store.save_run(now)
        return report

    async def _age(self, duty: RetentionDuty, before: Instant) -> int:
        """Walk over the rows of a duty from where the last run has come to. A later walk begins again at the first row
        that this one had to leave."""
        resume = await self.store.position(duty)
        step = RetentionStep(0, resume, is_last=False)
        size = StepSize(STEP_ROWS, STEP_ROWS_MAX)
        changed = steps = 0
        has_skipped = False
        while not step.is_last:
            step = await self.pace.sized_step(size, partial(self._age_step, duty, before, step.position))
            changed, steps = changed + step.changed, steps + 1
            has_skipped = has_skipped or step.has_skipped
            resume = resume if has_skipped else step.position
            if step.changed:
                self.on_change(duty, step.changed)
            if step.is_last or steps % POSITION_SAVED_AFTER_STEPS == 0:
                await self.store.save_position(duty, resume)
        return changed

    async def _age_step(self, duty: RetentionDuty, before: Instant, position: str, limit: int) -> RetentionStep:
        return await self.store.age(duty, before, position, limit=limit)

"""Masks and removes what is too old, duty by duty, in small steps that take a small share of the
store's time, in one process at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from uuid import uuid4

import trio
from attrs import Factory, define, frozen

from mmo_sansio.values.clock import DAY, SECOND, Instant, Span, earlier
from mmo_trio.settings.sections import RetentionSection
from mmo_trio.storage.interface.retention import AgedRows, RetentionDuty, RetentionStep
from mmo_trio.storage.sql.retention import RetentionStore

# How long the others wait after a process that died while it worked at it; longer than any step.
LEASE: Span = Span(60 * SECOND)

# Seconds after which the lease is renewed, between two steps.
LEASE_RENEWED_AFTER_S = 15.0

# Seconds until it is looked again whether the store has time.
BUSY_PAUSE_S = 1.0

# Seconds that a step is to take: long enough that it does more than begin and commit on a disk that
# takes 10 ms for that, and so short that nobody waits for it.
STEP_S = 0.05

# Payments or other rows that the first step looks at.
STEP_ROWS = 50

# The most rows of a step, so that payments wait little even where a store turns slow within one.
STEP_ROWS_MAX = 1_000

# Rows of a step at least, however long they take: a database works for some milliseconds at them.
ROWS_MIN = 50

# A run that is killed repeats at most so many steps.
POSITION_SAVED_AFTER_STEPS = 100


class LeaseLost(Exception):
    """Says that another process has taken the lease."""


@frozen
class AgedDuty:
    """Says what of a duty is too old."""

    duty: RetentionDuty
    before: Instant
    found: AgedRows


def cutoffs(section: RetentionSection, now: Instant) -> Mapping[RetentionDuty, Instant]:
    """Return before which time each duty's rows are too old; without those that are switched off.
    Whole days in UTC, so that a run of the same day finds nothing more."""
    spans = {
        RetentionDuty.CALLBACK_BODIES: section.callback_bodies,
        RetentionDuty.PERSONAL_DATA: section.personal_data,
        RetentionDuty.SUSPENSE_DATA: section.personal_data,
        RetentionDuty.HOURLY_COUNTS: section.hourly_counts,
        RetentionDuty.BREAKER_CHANGES: section.hourly_counts,
        RetentionDuty.BALANCES: section.hourly_counts,
    }
    return {
        duty: Instant(earlier(now, span) // DAY * DAY)
        for duty, span in spans.items()
        if span is not None and span < now
    }


async def find_aged(
    store: RetentionStore, section: RetentionSection, *, now: Instant
) -> list[AgedDuty]:
    """Count what a run would remove."""
    return [
        AgedDuty(duty, before, await store.count_aged(duty, before))
        for duty, before in cutoffs(section, now).items()
    ]


def rows_by_name(changed: Mapping[RetentionDuty, int]) -> dict[str, int]:
    """Return how many rows have changed, by the names of the duties that had any."""
    return {duty.value: count for duty, count in changed.items() if count}


@define(eq=False)
class RetentionRun:
    """Removes what is too old, duty by duty; one run at a time works on a store."""

    store: RetentionStore
    section: RetentionSection
    pace: RetentionPace
    on_change: Callable[[RetentionDuty, int], object]
    """Is called after each step with how many rows it has changed."""

    async def run(self, now: Instant) -> Mapping[RetentionDuty, int]:
        """Do every duty; return how many rows each has removed or masked. Raises LeaseLost."""
        changed = {
            duty: await self._age(duty, before)
            for duty, before in cutoffs(self.section, now).items()
        }

        # Only a run that has done every duty counts: one that was killed is done again.
        await self.store.save_run(now)
        return changed

    async def _age(self, duty: RetentionDuty, before: Instant) -> int:
        """Walk over the rows of a duty from where the last run has come to. A later walk begins
        again at the first row that this one had to leave."""
        resume = await self.store.position(duty)
        step = RetentionStep(0, resume, is_last=False)
        size = StepSize()
        changed = 0
        steps = 0
        has_skipped = False
        while not step.is_last:
            step = await self.pace.step(size, duty, before, step.position)
            changed += step.changed
            steps += 1

            # From the first row that was left behind, so that the next walk comes to it.
            has_skipped = has_skipped or step.has_skipped
            if not has_skipped:
                resume = step.position
            if step.changed:
                self.on_change(duty, step.changed)

            if step.is_last or steps % POSITION_SAVED_AFTER_STEPS == 0:
                await self.store.save_position(duty, resume)

        return changed


@define(eq=False)
class RetentionPace:
    """Lets a run take its share of the time and no more."""

    store: RetentionStore
    share: float
    """Share of the time that steps may take; 1: all of it."""
    # `bool()` is False: never.
    is_busy: Callable[[], bool] = bool
    """Whether the store is needed for payments now."""
    holder: str = Factory(lambda: uuid4().hex)
    _renew_at: float = 0.0

    async def begin(self) -> bool:
        """Take the lease; return False while another process works at it."""
        # Before it is taken, so that it never counts as longer than it is.
        self._renew_at = trio.current_time() + LEASE_RENEWED_AFTER_S
        return await self.store.take_lease(self.holder, LEASE)

    async def step(
        self, size: StepSize, duty: RetentionDuty, before: Instant, position: str
    ) -> RetentionStep:
        """Do one step, with as many rows as the size says, once the store is not busy; adapt the
        size, and rest as much longer as the share says. Raises LeaseLost."""
        await self._renew()
        while self.is_busy():
            await trio.sleep(BUSY_PAUSE_S)
            await self._renew()

        # The step's own time, which a virtual clock of tests does not have.
        began = time.monotonic()
        result = await self.store.age(duty, before, position, limit=size.rows)
        took_s = time.monotonic() - began
        size.adapt(took_s)
        await trio.sleep(took_s * (1 / self.share - 1))
        return result

    async def _renew(self) -> None:
        if trio.current_time() >= self._renew_at and not await self.begin():
            raise LeaseLost("another process removes old rows by now")

    async def end(self) -> None:
        """Give the lease back."""
        await self.store.end_lease(self.holder)


@define(eq=False)
class StepSize:
    """Says how many rows a step handles: on a fast store more than on a slow one, so that each
    takes STEP_S."""

    rows: int = STEP_ROWS

    def adapt(self, took_s: float) -> None:
        """Follow a step that has taken so many seconds; at most twice or half as many rows are
        next."""
        # A clock may show no time at all for a short step.
        wanted = self.rows * STEP_S / max(took_s, 0.001)
        rows = round(min(max(wanted, self.rows / 2), self.rows * 2))
        self.rows = min(max(rows, ROWS_MIN), STEP_ROWS_MAX)

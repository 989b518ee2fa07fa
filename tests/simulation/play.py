"""Plays seeds, judges their worlds, and makes the plan of one that fails as small as it gets."""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

from attrs import evolve, frozen

from tests.simulation.judges import judge
from tests.simulation.world.plan import FaultKind, WorldPlan, draw_plan
from tests.simulation.world.world import run_world

PAYMENTS = 200
DAYS = 4.0
SEEDS_AT_ONCE = 8
"""Seeds that a process plays before it reports."""
TASKS_PER_PROCESS = 100
"""How often it does so before another process takes its place, so that a long run does not fill the
memory."""


@frozen
class Variant:
    """Names a world: the plan of a seed, or a smaller one of the same seed."""

    seed: int
    payments: int = PAYMENTS
    days: float = DAYS
    left_out: tuple[int, ...] = ()
    """The numbers of the faults that do not occur."""
    payments_kept: int | None = None
    """How many of the payments are made; None: all."""
    reversals: int = 0
    """How often staff ask for money back."""
    only: tuple[FaultKind, ...] = ()
    """The kinds of faults of which one meets each payment, and no others occur; empty: those that
    the seed decides."""
    operators: tuple[str, ...] = ()
    """The operators that there are, with all that can be done with each; empty: the three, with
    prompts and pay-outs."""

    def plan(self) -> WorldPlan:
        """Return the plan."""
        plan = draw_plan(
            self.seed, payments=self.payments, days=self.days, reversals=self.reversals
        )
        if self.operators:
            plan = plan.with_operators(self.operators)
        plan = (plan.with_each_payment_met(*self.only) if self.only else plan).without(
            self.left_out
        )
        return plan if self.payments_kept is None else plan.with_payments(self.payments_kept)

    def command(self) -> str:
        """Return the command that plays it again."""
        words = [f"python -m tests.simulation {self.seed}"]
        if (self.payments, self.days) != (PAYMENTS, DAYS):
            words.append(f"--payments {self.payments} --days {self.days:g}")
        if self.reversals:
            words.append(f"--reversals {self.reversals}")
        if self.operators:
            words.append(f"--operators {','.join(self.operators)}")
        if self.only:
            words.append(f"--only {','.join(self.only)}")
        if self.payments_kept is not None:
            words.append(f"--keep {self.payments_kept}")
        if self.left_out:
            words.append(f"--without {','.join(map(str, self.left_out))}")
        return " ".join(words)


@frozen
class Played:
    """Is what came of a world."""

    variant: Variant
    violations: tuple[str, ...]
    digest: str
    counts: Counter[str]
    seconds: float
    """How long it took by the real clock."""
    virtual_days: float

    def report(self) -> str:
        """Return what is wrong, and how to play it again."""
        lines = [
            f"seed {self.variant.seed}: {len(self.violations)} violations",
            *self.violations[:20],
        ]
        return "\n  ".join([*lines, f"Play it again:  {self.variant.command()}"])


def play(variant: Variant) -> Played:
    """Play this world to its end and judge it. An error of the world itself is a violation as
    well."""
    _freeze_modules()
    began, plan = time.perf_counter(), variant.plan()
    try:
        world = run_world(plan)
    except Exception as error:  # Whatever breaks a gateway is what is looked for.
        faults = tuple(_leaves(error))
        return Played(variant, faults, "", Counter(), time.perf_counter() - began, 0.0)
    assert world.books is not None
    return Played(
        variant,
        tuple(judge(world, world.books)),
        world.trace.digest(),
        world.trace.counts,
        time.perf_counter() - began,
        plan.lasts_s / 86_400,
    )


def play_all(variants: Iterable[Variant], *, processes: int | None = None) -> Iterator[Played]:
    """Play these worlds on all processors, or in so many processes, and yield what came of each in
    their order."""
    parts = _chunks(variants)
    first = list(itertools.islice(parts, 2))
    if len(first) < 2 or processes == 1:
        yield from map(play, (each for part in itertools.chain(first, parts) for each in part))
        return
    jobs = processes or os.cpu_count() or 1
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), max_tasks_per_child=TASKS_PER_PROCESS
    ) as pool:
        waiting: deque[Future[list[Played]]] = deque()
        for part in itertools.chain(first, parts):
            waiting.append(pool.submit(_play_some, part))
            if len(waiting) > 2 * jobs:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def shrink(failing: Variant, *, is_same: Callable[[Played], bool] | None = None) -> Variant:
    """Return the smallest plan of this seed that is found to fail in the same way: faults are left
    out in halves, then one by one, and payments are cut off the end."""
    judges = {each.partition(":")[0] for each in play(failing).violations}

    def fails(variant: Variant) -> bool:
        played = play(variant)
        return (
            is_same(played)
            if is_same
            else bool(judges & {each.partition(":")[0] for each in played.violations})
        )

    smallest = failing
    count = len(evolve(failing, left_out=()).plan().faults)
    size = max(1, (count - len(failing.left_out) + 1) // 2)
    while True:
        changed = False
        left = [nth for nth in range(count) if nth not in smallest.left_out]
        for start in range(0, len(left), size):
            fewer = tuple(sorted({*smallest.left_out, *left[start : start + size]}))
            candidate = evolve(smallest, left_out=fewer)
            if fails(candidate):
                smallest, changed = candidate, True
        if size == 1 and not changed:
            break
        size = max(1, size // 2)
    kept = smallest.payments_kept or smallest.payments
    step = kept // 2
    while step:
        candidate = evolve(smallest, payments_kept=kept - step)
        if kept - step > 0 and fails(candidate):
            smallest, kept = candidate, kept - step
        else:
            step //= 2
    return smallest


@cache
def _freeze_modules() -> None:
    """Let the garbage collector pass over all that was loaded before the first world: it stays for
    ever."""
    gc.freeze()


def _play_some(variants: Sequence[Variant]) -> list[Played]:
    return [play(each) for each in variants]


def _chunks(variants: Iterable[Variant]) -> Iterator[Sequence[Variant]]:
    """Yield them in parts, taking no more of them than are asked for."""
    left = iter(variants)
    while part := list(itertools.islice(left, SEEDS_AT_ONCE)):
        yield part


def _leaves(error: BaseException) -> Iterator[str]:
    """Yield the errors in a group of errors, with the place at which each was raised."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
        return
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" in {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    yield f"the world broke: {type(error).__name__}: {error}{where}"

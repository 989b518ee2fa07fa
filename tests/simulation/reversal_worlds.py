"""Plays worlds whose staff ask for much money back, while processes are killed, answers are lost,
results contradict each other and a backup is restored: no money goes back twice, and none is lost.

python -m tests.simulation.reversal_worlds 10000         worlds until so many were asked for
python -m tests.simulation.reversal_worlds 1 --first 7   the world of one seed

`--crowded` plays worlds with many times as many reversals, each of which takes little more time.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from itertools import chain, count
from multiprocessing import get_context
from random import Random
from typing import Final

from attrs import evolve, frozen

from tests.simulation.restored_worlds import DAYS, LEFT_OUT, play_restored
from tests.simulation.world.files import OPERATORS_MAX
from tests.simulation.world.plan import (
    AIMED_AFTER_S,
    FaultKind,
    PromptsConfirmed,
    WorldFault,
    WorldPlan,
    draw_plan,
)
from tests.simulation.world.world import SimulatedWorld

KINDS: Final = tuple(
    each for each in FaultKind if each not in LEFT_OUT or each is FaultKind.NOTIFICATIONS_CONTRADICT
)
AIMED: Final = (
    FaultKind.GATEWAY_KILLED,
    FaultKind.GATEWAY_SUSPENDED,
    FaultKind.OPERATOR_UNAVAILABLE,
    FaultKind.OPERATOR_LOSES_REQUESTS,
    FaultKind.OPERATOR_LOSES_ANSWERS,
    FaultKind.NOTIFICATIONS_LOST,
    FaultKind.NOTIFICATIONS_CONTRADICT,
    FaultKind.CONNECTIONS_BREAK,
    FaultKind.STORE_UNCERTAIN,
)
"""Kinds of faults that begin soon after staff have asked for money back."""
HAPPENING: Final = (
    *(
        "answer_lost",
        "notification_contradicts",
        "notification_lost",
        "notification_late",
        "request_lost",
    ),
    *("fault gateway_killed", "fault gateway_loses_power", "reversal_resolved", "store_restored"),
)
"""What of the traces is counted besides the reversals."""


@frozen
class Scale:
    """Says how much happens in a world."""

    payments: int
    visits: int
    """How often staff ask for the money of some payments back."""
    aimed_max: int
    """Fewer than so many faults of each kind are aimed at the reversals."""


SMALL: Final = Scale(payments=60, visits=40, aimed_max=5)
CROWDED: Final = Scale(payments=60, visits=400, aimed_max=8)


@frozen
class PlayedReversals:
    """Is what came of a world."""

    seed: int
    violations: tuple[str, ...]
    counts: Counter[str]
    """How many reversals were asked for, how they have ended, and what else has happened."""


def reversing_plan(seed: int, scale: Scale = SMALL) -> WorldPlan:
    """Draw the plan of a world with one gateway, its file, and all operators; M-Pesa has an API
    operator that reverses payments. Some faults aim at the reversals."""
    plan = draw_plan(seed, payments=scale.payments, days=DAYS, kinds=KINDS, reversals=scale.visits)
    aimed = _aimed_faults(plan, scale.aimed_max)
    faults = sorted((*plan.faults, *aimed), key=lambda fault: fault.at_s)
    return evolve(
        plan,
        operators=OPERATORS_MAX,
        prompts_confirmed=PromptsConfirmed.NOT,
        is_store_shared=False,
        gateways=1,
        faults=tuple(faults),
    )


def _aimed_faults(plan: WorldPlan, aimed_max: int) -> Iterator[WorldFault]:
    random = Random(f"{plan.seed}/reversals meet faults")
    for kind in AIMED:
        for _ in range(random.randrange(aimed_max)):
            at_s = random.choice(plan.reversals) + random.expovariate(1 / AIMED_AFTER_S)
            lasts_s = random.choice((3.0, 40.0, 300.0))
            yield WorldFault(kind, at_s, lasts_s, random.randrange(60), random.uniform(0.3, 1.0))


def play_reversals(seed: int, scale: Scale = SMALL) -> PlayedReversals:
    """Play the world of this seed, in which a backup is restored, and judge it."""
    world, _, violations = play_restored(seed, draw=partial(reversing_plan, scale=scale))
    return PlayedReversals(seed, tuple(violations), _counts(world))


def _counts(world: SimulatedWorld) -> Counter[str]:
    assert world.books is not None
    known = [each for found in world.books.ledger.reversals.values() for each in found]
    forgotten = [each for found in world.commits.forgotten_reversals.values() for each in found]
    counts = Counter({each: world.trace.counts[each] for each in HAPPENING})
    for each in chain(known, forgotten):
        counts["asked for"] += 1
        counts["sent"] += each.submissions > 0
        counts["sent again"] += each.submissions > 1
    for each in known:
        counts[str(each.state)] += 1
        counts["restored before it had ended"] += each.is_restored
        counts["ended by hand"] += each.ended_by is not None and each.submissions > 0
    counts["lost with the backup"] = len(forgotten)
    for operator in world.operators.values():
        counts[f"requests at {operator.name}"] = operator.reversal_requests.total()
        counts[f"gone back at {operator.name}"] = len(operator.sent_back)
    return counts


def play_until(
    wanted: int, *, first: int = 0, jobs: int = 1, scale: Scale = SMALL
) -> Iterator[PlayedReversals]:
    """Play the worlds of the seeds from this one on, so many at a time, until so many reversals
    were asked for."""
    asked_for, waiting = 0, deque[Future[PlayedReversals]]()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=50) as pool:
        for seed in count(first):
            waiting.append(pool.submit(play_reversals, seed, scale))
            if len(waiting) <= jobs:
                continue
            played = waiting.popleft().result()
            yield played
            asked_for += played.counts["asked for"]
            if asked_for >= wanted:
                pool.shutdown(cancel_futures=True)
                return


def main() -> int:
    """Play what the arguments say; return 1 when a world has a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.reversal_worlds")
    parser.add_argument("reversals", type=int, nargs="?", default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--crowded", action="store_true")
    arguments = parser.parse_args()
    counts, failed, worlds = Counter[str](), 0, 0
    scale = CROWDED if arguments.crowded else SMALL
    for played in play_until(
        arguments.reversals, first=arguments.first, jobs=arguments.jobs, scale=scale
    ):
        worlds, failed = worlds + 1, failed + bool(played.violations)
        counts += played.counts
        print(
            f"seed {played.seed}: {played.counts['asked for']} reversals",
            *played.violations,
            sep="\n  ",
            flush=True,
        )
    print(*(f"{number:7,} {what}" for what, number in sorted(counts.items())), sep="\n")
    print(f"{failed} of {worlds} worlds have violations.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

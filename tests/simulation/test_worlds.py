"""Worlds of whole gateways: what a seed decides is the same each time, and no judge finds a
violation."""

from __future__ import annotations

import pytest

from tests.simulation.play import Variant, play, play_all, shrink
from tests.simulation.world.plan import OF_STAFF, FaultKind
from tests.support.effort import by_effort

SEEDS = by_effort(5, 200)
PAYMENTS = 4
"""Payments of each: what a seed costs is mostly its faults."""
KILLED = "fault gateway_killed"


def test_no_judge_finds_a_violation() -> None:
    failed = [
        each.report()
        for each in play_all(Variant(seed, payments=PAYMENTS) for seed in range(SEEDS))
        if each.violations
    ]
    assert failed == []


def test_a_payment_is_disturbed_by_a_fault_that_occurs_later_than_planned() -> None:
    """A gateway is killed after some of its steps; at rest it makes none, so it dies when the next
    payment begins."""
    assert play(Variant(102, payments=20)).violations == ()


def test_a_payer_whom_the_operator_asks_already_is_refused() -> None:
    """Two payments of one number overlap, and M-Pesa refuses the second one."""
    assert play(Variant(22, payments=20)).violations == ()


def test_a_creation_whose_commit_comes_after_all_is_submitted() -> None:
    """The server carries it out seconds after its gateway has reported that nothing was sent."""
    variant = Variant(1, payments=24, only=(FaultKind.STORE_STALLS,))
    assert play(variant).violations == ()


@pytest.mark.parametrize("only", [(), (FaultKind.GATEWAY_SUSPENDED,)])
def test_a_process_counts_as_suspended_only_where_it_was(only: tuple[FaultKind, ...]) -> None:
    """A world that is at rest passes over hours at once, in which its processes would have run."""
    counts = play(Variant(15, payments=12, only=only)).counts
    assert (counts["log process_resumed"] > 0) == bool(only)
    assert counts["created"] == 12


@pytest.mark.long
def test_a_request_suspended_while_its_key_was_looked_up_creates_nothing() -> None:
    """Its merchant has repeated it elsewhere, and that payment has failed, so its reference could
    be used again."""
    without_staff = [
        nth for nth, each in enumerate(Variant(835).plan().faults) if each.kind not in OF_STAFF
    ]
    suspended = {without_staff[nth] for nth in (14, 15, 28, 29, 32, 33)}
    left_out = tuple(nth for nth in range(len(Variant(835).plan().faults)) if nth not in suspended)
    assert play(Variant(835, left_out=left_out)).violations == ()


def test_another_seed_has_another_digest() -> None:
    assert play(Variant(1, payments=1)).digest != play(Variant(3, payments=1)).digest


@pytest.mark.parametrize("left_out", [(), (0,)])
def test_a_variant_tells_how_to_play_it_again(left_out: tuple[int, ...]) -> None:
    variant = Variant(5, payments=20, left_out=left_out, payments_kept=7)
    assert "tests.simulation 5 --payments 20 --days 4 --keep 7" in variant.command()
    assert ("--without 0" in variant.command()) == bool(left_out)
    assert len(variant.plan().payments) == 7


def _with_few_faults(seed: int) -> Variant:
    """Return a small world with five faults of its seed, among them a gateway that is killed if
    there is one."""
    kinds = [each.kind for each in Variant(seed, payments=3).plan().faults]
    killed = [nth for nth, kind in enumerate(kinds) if kind is FaultKind.GATEWAY_KILLED][:1]
    kept = {*killed, *[nth for nth in range(len(kinds)) if nth not in killed][: 5 - len(killed)]}
    return Variant(
        seed, payments=3, left_out=tuple(nth for nth in range(len(kinds)) if nth not in kept)
    )


@pytest.mark.long
def test_a_failing_plan_is_made_smaller() -> None:
    """Here a world counts as failing when a gateway was killed in it at all."""
    failing = next(each for each in map(_with_few_faults, range(100)) if play(each).counts[KILLED])
    assert len(failing.plan().faults) == 5
    smallest = shrink(failing, is_same=lambda played: played.counts[KILLED] > 0)
    assert [each.kind for each in smallest.plan().faults] == ["gateway_killed"]
    assert len(smallest.plan().payments) == 1

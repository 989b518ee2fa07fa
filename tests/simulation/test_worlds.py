"""Worlds of whole gateways: what a seed decides is the same each time, and no judge finds a violation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mmo_trio.testing.world_plan import FaultKind
from tests.simulation.play import Variant, play, play_all, shrink

SEEDS = int(os.environ.get("MMO_TEST_SEEDS", "4"))
SMALL = Variant(3, payments=10, days=4.0)
ROOT = Path(__file__).parents[2]


def test_no_judge_finds_a_violation() -> None:
    failed = [
        each.report() for each in play_all(Variant(seed, payments=20) for seed in range(SEEDS)) if each.violations
    ]
    assert failed == []


def test_a_seed_has_the_same_digest_in_every_process() -> None:
    command = [sys.executable, "-m", "tests.simulation", "3", "--payments", "10"]
    done = [
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        for seed in ("1", "2")
    ]
    digests = [each.stdout.splitlines()[-2] for each in done]
    assert digests == [f"digest {play(SMALL).digest}"] * 2


def test_another_seed_has_another_digest() -> None:
    assert play(SMALL).digest != play(Variant(4, payments=10)).digest


@pytest.mark.parametrize("left_out", [(), (0,)])
def test_a_variant_tells_how_to_play_it_again(left_out: tuple[int, ...]) -> None:
    variant = Variant(5, payments=20, left_out=left_out, payments_kept=7)
    assert "tests.simulation 5 --payments 20 --days 4 --keep 7" in variant.command()
    assert ("--without 0" in variant.command()) == bool(left_out)
    assert len(variant.plan().payments) == 7


def test_a_failing_plan_is_made_smaller() -> None:
    """Here a world counts as failing when a gateway was killed in it at all."""
    failing = next(
        each
        for each in (Variant(seed, payments=2, days=3.3) for seed in range(100))
        if 2 < len(each.plan().faults) < 9
        and FaultKind.GATEWAY_KILLED in {fault.kind for fault in each.plan().faults}
        and play(each).counts["fault gateway_killed"]
    )
    smallest = shrink(failing, is_same=lambda played: played.counts["fault gateway_killed"] > 0)
    assert [each.kind for each in smallest.plan().faults] == ["gateway_killed"]
    assert len(smallest.plan().payments) == 1

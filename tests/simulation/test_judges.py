"""Judges allow for what no gateway can know."""

from __future__ import annotations

from tests.simulation.judges import can_be_asked_about_since_s, store_clock_error_max_s
from tests.simulation.world.commits import StoredStage
from tests.simulation.world.faults import FaultPeriod
from tests.simulation.world.plan import FaultKind


def test_each_standby_that_has_taken_over_may_have_another_clock() -> None:
    """In a world of four failovers the store was 0.28 s behind, and a payment was dated at the end
    of a list."""
    periods = [
        FaultPeriod(FaultKind.STORE_FAILS_OVER, "", at_s) for at_s in (5_445.0, 5_496.0, 62_384.0)
    ]
    assert store_clock_error_max_s(periods, 100.0) == 0.0
    assert store_clock_error_max_s(periods, 54_032.0) == 3.0


def test_other_faults_leave_the_clock_of_the_store_right() -> None:
    assert store_clock_error_max_s([FaultPeriod(FaultKind.STORE_FULL, "", 0.0)], 100.0) == 0.0


def test_a_prompt_whose_answer_was_lost_can_be_asked_about_since_a_late_notification() -> None:
    """M-Pesa knows a prompt by an id that only its answer and its notification tell."""
    stages = [
        StoredStage(29_320.5, "created", "CreatePayment"),
        StoredStage(29_322.3, "submitting", "ProviderUnreachable"),
        StoredStage(29_382.2, "submitting", "ProviderCannotTell"),
        StoredStage(69_322.6, "submitting", "ProviderHinted"),
        StoredStage(69_322.7, "succeeded", "ProviderSucceeded"),
    ]
    assert can_be_asked_about_since_s(stages) == 69_322.6


def test_a_payment_whose_operator_could_always_be_asked_counts_from_its_beginning() -> None:
    stages = [
        StoredStage(10.0, "created", "CreatePayment"),
        StoredStage(60.0, "awaiting_result", "ProviderHinted"),
        StoredStage(70.0, "succeeded", "ProviderSucceeded"),
    ]
    assert can_be_asked_about_since_s(stages) == 10.0

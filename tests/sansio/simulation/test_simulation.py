"""Hundreds of seeded worlds, in full effort thousands, keep every invariant, and what could happen
did happen in them."""

from __future__ import annotations

import pytest

from mmo_sansio.messages.inputs import (
    CallbackConcluded,
    CreatePayment,
    DepositNotified,
    UnmatchedNotified,
)
from mmo_sansio.payments.states import TRANSITION_INPUTS
from mmo_sansio.values.model import Stage
from tests.sansio.simulation.play import play, play_all, report
from tests.sansio.simulation.world import Simulation
from tests.support.effort import by_effort

SEEDS = by_effort(500, 3_000)
SEEN_MIN = by_effort(10, 100)
"""What happened less often than this in the whole run has not been tried."""

CELLS = {
    *(
        (stage, given)
        for stage in (*Stage, None)
        for given in (*TRANSITION_INPUTS, CallbackConcluded)
    ),
    *((None, given) for given in (CreatePayment, DepositNotified, UnmatchedNotified)),
}
FAULTS = {
    "answer lost",
    "arrived twice",
    "asked twice",
    "breaker open",
    "can't be asked",
    "callback failed",
    "clock set back",
    "came back",
    "clock set forward",
    "code asked for",
    "code given",
    "commit failed",
    "contradicted itself",
    "crash",
    "crash before sending",
    "crash between sending and recording",
    "denied what it has",
    "deposit told again",
    "deposit told otherwise",
    "handed out twice",
    "hinted",
    "notified again",
    "page abandoned",
    "page confirmed",
    "question lost",
    "request lost",
    "resolved by hand",
    "stopped by hand",
    "marked as restored",
    "reuse",
    "reuse at the edge of the window",
    "refused after the window",
    "taken again after a failure",
    "stray",
    "took back its never received",
    "walk finished",
    "woke early",
    "wrong currency",
}


@pytest.mark.spec("C12", "S1", "S2", "S3", "S4", "S5", "S6", "K1", "K3", "R7")
def test_every_seed_keeps_every_invariant(capsys: pytest.CaptureFixture[str]) -> None:
    tally = play_all(range(SEEDS))
    with capsys.disabled():
        print(f"\n{SEEDS} seeds:\n{report(tally)}")
    rare = {key: tally[key] for key in CELLS | FAULTS if tally[key] < SEEN_MIN}
    assert rare == {}


def test_a_seed_is_played_the_same_way_again() -> None:
    first, second = Simulation(7), Simulation(7)
    first.run()
    second.run()
    assert first.history == second.history
    assert first.ledger == second.ledger


def test_a_failing_seed_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Simulation) -> None:
        raise AssertionError("money was asked for twice")

    monkeypatch.setattr(Simulation, "heal", broken)
    with pytest.raises(AssertionError, match=r"^seed 7, after 2\d\d inputs: money"):
        play(7)

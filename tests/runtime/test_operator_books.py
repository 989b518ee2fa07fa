"""Each operator's books are the gateway's successes and its suspense book, to the unit, whatever is lost, late, told
twice or killed. `MMO_TEST_WORLDS` says how many worlds of 100 payments each operator gets; a world is its seed."""

from __future__ import annotations

import os
from collections import Counter
from itertools import count

import pytest
from operator_kinds import OPERATORS
from operator_statement import check
from operator_world import World

from mmo_sansio.providers.mtn_momo import adapter as mtn_adapter
from mmo_sansio.providers.mtn_momo.references import reference_id

WORLDS = int(os.environ.get("MMO_TEST_WORLDS", "2"))
PAYMENTS = 100
KILLS = 12
HAPPENS = (
    "AnswerAfter",
    "AnswerInstead",
    "LoseAnswer",
    "LoseRequest",
    "ProviderAccepted",
    "ProviderFailed",
    "ProviderNeverReceived",
    "ProviderSucceeded",
    "ProviderUnreachable",
    "callback lost",
    "callback told again",
    "decided after the expiry",
    "expired",
    "killed between record and request",
    "killed in a conversation",
    "never decided",
    "not connected",
    "request late",
    "request lost",
)
"""What has to have happened in some world, so that the worlds prove something."""


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.spec("S2", "S5", "S6")
def test_an_operators_books_are_the_gateways_to_the_unit(name: str) -> None:
    happened: Counter[str] = Counter()
    for seed in range(WORLDS):
        world = World(OPERATORS[name], seed)
        world.run(PAYMENTS, KILLS)
        check(world)
        happened += world.tally
    assert [each for each in HAPPENS if not happened[each]] == []


@pytest.mark.spec("S6")
def test_these_worlds_can_see_a_payment_that_is_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter that makes up a new X-Reference-Id each time: what is sent again is another payment."""
    numbers = count()
    monkeypatch.setattr(mtn_adapter, "reference_id", lambda _: reference_id(str(next(numbers))))
    world = World(OPERATORS["mtn"], seed=0)
    world.run(PAYMENTS, KILLS)
    with pytest.raises(AssertionError, match="was paid twice"):
        check(world)

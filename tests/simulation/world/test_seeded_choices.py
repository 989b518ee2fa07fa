"""One seed gives one sequence of what the operating system would have chosen."""

from __future__ import annotations

import os
import secrets
from random import Random
from uuid import uuid4

from mmo_sansio.testing import START
from mmo_trio.system.ids import PageTokenGenerator, ReferenceGenerator, request_id_generator
from tests.simulation.world.seeded_choices import SeededChoices, seeded_randomness

PINNED = 0.175579
"""What every version of Python draws first."""


def _generate(seed: int) -> list[object]:
    with seeded_randomness(Random(seed)):
        references = ReferenceGenerator(lambda: START)
        tokens = PageTokenGenerator(lambda: START)
        ids = request_id_generator()
        return [references.next(), references.next(), tokens.next(), ids(), uuid4(), os.urandom(8)]


def test_a_seed_decides_every_id() -> None:
    assert _generate(1) == _generate(1)
    assert _generate(1)[2:] != _generate(2)[2:]


def test_the_system_decides_again_afterwards() -> None:
    with seeded_randomness(Random(1)):
        seeded = secrets.token_bytes(16), os.urandom(16)
    assert (secrets.token_bytes(16), os.urandom(16)) != seeded


def test_a_party_draws_the_same_whoever_else_draws() -> None:
    alone, beside = SeededChoices(7), SeededChoices(7)
    beside.of("network").random()
    assert [alone.of("merchant").random() for _ in range(3)] == [
        beside.of("merchant").random() for _ in range(3)
    ]
    assert SeededChoices(7).of("merchant").random() != SeededChoices(8).of("merchant").random()
    assert round(SeededChoices(1).of("network").random(), 6) == PINNED

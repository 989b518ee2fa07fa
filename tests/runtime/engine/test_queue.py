"""Which inputs may be under way beside each other: what touches the same keeps its order, whatever
ends when."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    Input,
    TransactionWoke,
    UnmatchedNotified,
)
from mmo_sansio.payments.decide import reads
from mmo_sansio.resilience.circuit_breaker import INITIAL_SNAPSHOT
from mmo_sansio.values.clock import MonotonicInstant
from mmo_trio.engine.engine import SCAN_MAX, InputQueue, PendingInput, conflict_keys
from tests.conformance.inputs import DELIVERED, creation, reference, succeeded


def arrival(nth: int, keys: frozenset[Hashable]) -> PendingInput:
    """The nth that came, which tells by when it was received, and what it touches."""
    came = PendingInput(UnmatchedNotified("sandbox", "?"), MonotonicInstant(nth))
    came.keys = keys
    return came


def touching(*every: str) -> Sequence[PendingInput]:
    return [arrival(nth, frozenset(keys)) for nth, keys in enumerate(every)]


def waiting_for(waiting: Sequence[PendingInput]) -> InputQueue:
    queue = InputQueue()
    for each in waiting:
        queue.add(each)
    return queue


def numbers(taken: Sequence[PendingInput]) -> list[int]:
    return [each.received_at for each in taken]


def test_when_nothing_is_under_way_the_first_so_many_are_taken() -> None:
    queue = waiting_for(touching("a", "a", "b", "a"))
    assert numbers(queue.take_batch(3)) == [0, 1, 2]
    assert len(queue) == 1


def test_what_touches_the_same_waits_and_the_rest_goes_past() -> None:
    queue = waiting_for(touching("a", "b", "a", "c"))
    first = queue.take_batch(1)
    assert numbers(queue.take_batch(9)) == [1, 3]
    queue.finish(first)
    assert numbers(queue.take_batch(9)) == [2]


def test_nothing_overtakes_what_waits_before_it() -> None:
    """The third shares a key only with the second, which waits for the first."""
    queue = waiting_for(touching("a", "ab", "b", "c"))
    queue.take_batch(1)
    assert numbers(queue.take_batch(9)) == [3]
    assert numbers(queue.drain()) == [1, 2]


def test_no_more_is_looked_at_than_pays() -> None:
    queue = waiting_for(touching("a", *["a"] * SCAN_MAX, "b"))
    queue.take_batch(1)
    assert not queue.take_batch(9)
    assert len(queue) == SCAN_MAX + 1


@settings(max_examples=3 * settings().max_examples)
@given(
    every=st.lists(st.frozensets(st.sampled_from("abcdefgh"), max_size=3), max_size=40),
    most=st.integers(1, 8),
    at_once=st.integers(1, 4),
    chance=st.randoms(use_true_random=False),
)
def test_each_key_sees_its_inputs_in_the_order_of_their_arrival(
    every: list[frozenset[Hashable]], most: int, at_once: int, chance: Random
) -> None:
    waiting = [arrival(nth, keys) for nth, keys in enumerate(every)]
    queue, coming = InputQueue(), list(waiting)
    under_way: list[Sequence[PendingInput]] = []
    ended: list[PendingInput] = []
    while len(ended) < len(waiting):
        if coming and chance.randrange(2):
            queue.add(coming.pop(0))
        elif len(under_way) < at_once and (taken := queue.take_batch(most)):
            touched = {key for each in under_way for other in each for key in other.keys}
            assert touched.isdisjoint(key for each in taken for key in each.keys)
            under_way.append(taken)
        elif under_way:
            taken = under_way.pop(chance.randrange(len(under_way)))
            queue.finish(taken)
            ended += taken
        assert bool(under_way) or not len(queue) or len(under_way) < at_once
    for key in "abcdefgh":
        seen = [each.received_at for each in ended if key in each.keys]
        assert seen == sorted(seen)


def keys(given: Input) -> frozenset[Hashable]:
    return conflict_keys(given, reads(given))


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        (BeginSubmission(reference(1)), succeeded(1), True),
        (TransactionWoke(reference(1)), CallbackConcluded(reference(1), DELIVERED), True),
        (creation(1, merchant_reference="x"), creation(2, merchant_reference="x"), True),
        (
            creation(1, merchant_reference="x"),
            creation(2, merchant_reference="x", brand_id="b"),
            False,
        ),
        (succeeded(1), succeeded(2), False),
        (UnmatchedNotified("sandbox", "?"), UnmatchedNotified("sandbox", "?"), False),
        (
            CallbackConcluded(reference(1), DELIVERED),
            CallbackConcluded(reference(2), DELIVERED),
            False,
        ),
    ],
)
def test_inputs_share_a_key_when_they_are_about_the_same(
    one: Input, other: Input, share: bool
) -> None:
    assert bool(keys(one) & keys(other)) is share


@pytest.mark.spec("K5")
def test_outcomes_that_bring_a_breaker_keep_their_order_whatever_they_are_about() -> None:
    """The breaker that is kept last is the one that counts."""
    one, other = (
        CallbackConcluded(reference(n), DELIVERED, fence=1, breaker=INITIAL_SNAPSHOT)
        for n in (1, 2)
    )
    assert keys(one) & keys(other)

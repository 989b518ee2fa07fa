"""Who may deliver next, and that nobody is kept from it by others (K6)."""

from __future__ import annotations

import random
from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.resilience.fair_queue import (
    DELIVERY_SLOTS,
    DELIVERY_SLOTS_PER_BRAND,
    FairQueue,
    fair_share,
)


def start_all(turns: FairQueue[str]) -> list[str]:
    """Everything that may start now, in order."""
    started = []
    while (item := turns.next()) is not None:
        started.append(item)
    return started


@pytest.mark.spec("K6")
@pytest.mark.parametrize(
    ("free", "share"),
    [(2048, 16), (2033, 16), (2000, 15), (1536, 6), (1025, 2), (1024, 1), (64, 1), (1, 1), (0, 0)],
)
def test_the_share_of_a_merchant_shrinks_as_places_fill_up(free: int, share: int) -> None:
    assert fair_share(free) == share


@pytest.mark.spec("K6")
def test_the_share_never_grows_while_places_fill_up() -> None:
    shares = [fair_share(free) for free in range(DELIVERY_SLOTS + 1)]
    assert shares == sorted(shares)
    assert all(share <= free for free, share in enumerate(shares))


@pytest.mark.spec("K6")
def test_one_merchant_alone_has_its_sixteen() -> None:
    turns = FairQueue[str](waiting_max=1000)
    for number in range(100):
        turns.add("greedy", str(number))
    assert start_all(turns) == [str(number) for number in range(DELIVERY_SLOTS_PER_BRAND)]


@pytest.mark.spec("K6")
@pytest.mark.parametrize("come", ["one after the other", "at once"])
def test_a_thousand_greedy_hanging_merchants_leave_places_for_newcomers(come: str) -> None:
    turns = FairQueue[str](waiting_max=10_000_000)
    for number in range(1000):
        for _ in range(50):
            turns.add(f"greedy {number}", "hangs")
        if come == "one after the other":
            start_all(turns)
    start_all(turns)
    assert turns.active < DELIVERY_SLOTS
    turns.add("newcomer", "mine")
    assert start_all(turns) == ["mine"]


@pytest.mark.spec("K6")
def test_two_thousand_greedy_hanging_merchants_have_one_place_each_before_any_has_two() -> None:
    turns = FairQueue[str](waiting_max=10_000_000)
    merchants = [f"greedy {number}" for number in range(2000)]
    for merchant in merchants:
        for _ in range(50):
            turns.add(merchant, merchant)
    assert start_all(turns) == merchants
    newcomers = [f"newcomer {number}" for number in range(DELIVERY_SLOTS - 2000)]
    for newcomer in newcomers:
        turns.add(newcomer, newcomer)
    assert start_all(turns) == newcomers
    turns.add("one too many", "mine")
    assert start_all(turns) == []
    turns.release("greedy 0")
    assert start_all(turns) == ["mine"]


@pytest.mark.spec("K6")
def test_merchants_take_turns() -> None:
    turns = FairQueue[str](waiting_max=100, slots=1, slots_per_brand=1)
    for item in ["a1", "a2", "a3", "b1", "c1", "c2"]:
        turns.add(item[0], item)
    order = []
    while (started := turns.next()) is not None:
        order.append(started)
        turns.release(started[0])
    assert order == ["a1", "b1", "c1", "a2", "c2", "a3"]


@pytest.mark.spec("K6")
def test_no_merchant_fills_the_waiting_room_up_for_others() -> None:
    turns = FairQueue[str](waiting_max=100)
    taken = Counter[str]()
    for merchant in ["a", "b", "c"]:
        while turns.has_room_for(merchant):
            turns.add(merchant, merchant)
            taken[merchant] += 1
    assert taken == {"a": 50, "b": 25, "c": 13}
    assert turns.has_room_for("newcomer")


@pytest.mark.spec("K6")
@given(
    st.integers(0, 2**32),
    st.integers(1, 12),
    st.integers(1, 4),
    st.lists(st.sampled_from(["add", "add", "start", "leave"]), max_size=120),
)
def test_places_go_to_whoever_has_the_fewest_in_the_order_of_their_own(
    seed: int, places: int, per_merchant: int, steps: list[str]
) -> None:
    chance = random.Random(seed)
    turns = FairQueue[tuple[str, int]](waiting_max=1000, slots=places, slots_per_brand=per_merchant)
    waiting: dict[str, deque[int]] = {merchant: deque() for merchant in "abcd"}
    under_way = Counter[str]()
    for number, step in enumerate(steps):
        merchant = chance.choice("abcd")
        if step == "add":
            turns.add(merchant, (merchant, number))
            waiting[merchant].append(number)
        elif step == "leave" and under_way[merchant]:
            turns.release(merchant)
            under_way[merchant] -= 1
        elif step == "start":
            share = fair_share(
                places - under_way.total(), slots=places, slots_per_brand=per_merchant
            )
            least = min((under_way[each] for each in "abcd" if waiting[each]), default=share)
            item = turns.next()
            assert (item is not None) == (least < share)
            if item is not None:
                assert under_way[item[0]] == least
                assert waiting[item[0]].popleft() == item[1]
                under_way[item[0]] += 1
        assert turns.active == under_way.total() <= places
        assert turns.waiting == sum(map(len, waiting.values()))

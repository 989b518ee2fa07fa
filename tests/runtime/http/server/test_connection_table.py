"""Counting connections, and asking the idle ones to leave when it gets crowded."""

from __future__ import annotations

import math

from attrs import define

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.http.server.connection_table import ConnectionTable

LIMITS = ListenerLimits(
    connections=8, connections_per_address=3, idle_timeout_s=30, short_idle_timeout_s=5
)


@define(eq=False)
class Guest:
    """A connection that only remembers when it was asked to leave."""

    client: str = "a"
    idle_since: float = math.inf
    leaves_at: float = math.inf

    def close_at(self, deadline: float) -> None:
        self.leaves_at = deadline


def test_there_is_room_up_to_each_limit_and_again_when_somebody_leaves() -> None:
    census = ConnectionTable(LIMITS)
    guests = [Guest("a") for _ in range(3)]
    for guest in guests:
        assert census.has_room_for("a")
        census.add(guest)
    assert not census.has_room_for("a")
    assert census.has_room_for("b")
    for _ in range(5):
        census.add(Guest("b"))
    assert len(census) == 8
    assert not census.has_room_for("c")
    census.remove(guests[0])
    assert census.has_room_for("c")
    assert census.has_room_for("a")


def test_a_unix_socket_has_no_address_to_count_by() -> None:
    census = ConnectionTable(LIMITS)
    for _ in range(7):
        census.add(Guest(""))
    assert census.has_room_for("")


def test_when_it_gets_crowded_the_idle_are_granted_less() -> None:
    census = ConnectionTable(LIMITS)
    idle, busy = Guest("a", idle_since=100), Guest("b")
    for guest in (idle, busy, *(Guest(str(number)) for number in range(4))):
        census.add(guest)
    assert (census.idle_timeout_s, idle.leaves_at) == (30, math.inf)
    last = Guest("z")
    census.add(last)
    assert (census.idle_timeout_s, idle.leaves_at, busy.leaves_at) == (5, 105, math.inf)
    for guest in (last, busy):
        census.remove(guest)
    census.add(Guest("y"))
    assert census.idle_timeout_s == 30


def test_without_descriptors_the_idle_are_granted_less_until_somebody_gets_in() -> None:
    census = ConnectionTable(LIMITS)
    idle = Guest("a", idle_since=100)
    census.add(idle)
    census.shorten_idle_timeout()
    assert (census.idle_timeout_s, idle.leaves_at) == (5, 105)
    census.add(Guest("b"))
    assert census.idle_timeout_s == 30


def test_sending_the_idle_away_leaves_the_busy_alone() -> None:
    census = ConnectionTable(LIMITS)
    idle, busy = Guest("a", idle_since=100), Guest("b")
    census.add(idle)
    census.add(busy)
    census.close_idle_at(deadline=120)
    assert (idle.leaves_at, busy.leaves_at) == (120, math.inf)
    assert census.idle_deadline == 120

"""Counting connections, and asking the idle ones to leave when it gets crowded."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from attrs import define, evolve

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.http.server.connection_limits import ConnectionTable

LIMITS = ListenerLimits(
    connections=8, connections_per_address=3, idle_timeout_s=30, short_idle_timeout_s=5
)


@define(eq=False)
class Guest:
    """A connection that only remembers when it was asked to leave."""

    client: str = "a"
    idle_since: float = math.inf
    waiting_since: float = math.inf
    leaves_at: float = math.inf

    def break_off(self) -> None:
        self.leaves_at = 0

    def close_at(self, deadline: float) -> None:
        self.leaves_at = deadline


def has_room_for(table: ConnectionTable, client: str) -> bool:
    """Whether one more connection from this address is within both limits."""
    return not table.is_full and table.has_share_left(client)


def test_there_is_room_up_to_each_limit_and_again_when_somebody_leaves() -> None:
    table = ConnectionTable(LIMITS)
    guests = [Guest("a") for _ in range(3)]
    for guest in guests:
        assert has_room_for(table, "a")
        table.add(guest)
    assert not has_room_for(table, "a")
    assert has_room_for(table, "b")
    for _ in range(5):
        table.add(Guest("b"))
    assert len(table) == 8
    assert not has_room_for(table, "c")
    table.remove(guests[0])
    assert has_room_for(table, "c")
    assert has_room_for(table, "a")


def test_a_unix_socket_has_no_address_to_count_by() -> None:
    table = ConnectionTable(LIMITS)
    for _ in range(7):
        table.add(Guest(""))
    assert has_room_for(table, "")


def test_when_it_gets_crowded_the_idle_are_granted_less() -> None:
    table = ConnectionTable(LIMITS)
    idle, busy = Guest("a", idle_since=100), Guest("b")
    for guest in (idle, busy, *(Guest(str(number)) for number in range(4))):
        table.add(guest)
    assert (table.idle_timeout_s, idle.leaves_at) == (30, math.inf)
    last = Guest("z")
    table.add(last)
    assert (table.idle_timeout_s, idle.leaves_at, busy.leaves_at) == (5, 105, math.inf)
    for guest in (last, busy):
        table.remove(guest)
    table.add(Guest("y"))
    assert table.idle_timeout_s == 30


def test_without_descriptors_the_idle_are_granted_less_until_somebody_gets_in() -> None:
    table = ConnectionTable(LIMITS)
    idle = Guest("a", idle_since=100)
    table.add(idle)
    table.shorten_idle_timeout()
    assert (table.idle_timeout_s, idle.leaves_at) == (5, 105)
    table.add(Guest("b"))
    assert table.idle_timeout_s == 30


def test_sending_the_idle_away_leaves_the_busy_alone() -> None:
    table = ConnectionTable(LIMITS)
    idle, busy = Guest("a", idle_since=100), Guest("b")
    table.add(idle)
    table.add(busy)
    table.close_idle_at(deadline=120)
    assert (idle.leaves_at, busy.leaves_at) == (120, math.inf)
    assert table.idle_deadline == 120


def test_who_has_waited_longest_of_those_who_hold_most_makes_room() -> None:
    table = ConnectionTable(LIMITS)
    oldest_of_few, busy = Guest("a", waiting_since=1), Guest("b")
    older, newer = Guest("b", waiting_since=2), Guest("b", waiting_since=3)
    for guest in (oldest_of_few, newer, busy, older):
        table.add(guest)
    for leaving in (older, newer, oldest_of_few):
        assert table.make_room()
        assert leaving.leaves_at == 0
        table.remove(leaving)
    assert not table.make_room(), "nobody who has sent a request is ended"
    assert len(table) == 1


def test_a_full_listener_looks_through_its_connections_once_for_many_newcomers() -> None:
    table, asked = ConnectionTable(evolve(LIMITS, connections=300)), Counter[str]()

    class Waiting(Guest):
        def __getattribute__(self, name: str) -> Any:
            asked[name] += 1
            return super().__getattribute__(name)

    for number in range(300):
        table.add(Waiting(f"10.0.{number}.1", waiting_since=number))
    asked.clear()
    for number in range(300):
        assert table.make_room()
        table.add(Waiting(f"10.1.{number}.1", waiting_since=1_000 + number))

    assert asked["waiting_since"] < 300 * 50


def test_who_sends_a_request_after_all_is_not_ended_to_make_room() -> None:
    table = ConnectionTable(evolve(LIMITS, connections=4))
    guests = [Guest(f"10.0.{number}.1", waiting_since=number) for number in range(4)]
    for guest in guests:
        table.add(guest)
    assert table.make_room()
    guests[1].waiting_since = math.inf
    assert table.make_room()
    assert [each.leaves_at for each in guests] == [0, math.inf, 0, math.inf]


def test_the_addresses_of_one_ipv6_subscriber_count_as_one() -> None:
    table = ConnectionTable(LIMITS)
    guests = [Guest(f"2001:db8:1:2:{number}::1") for number in range(1, 4)]
    for guest in guests:
        assert has_room_for(table, guest.client)
        table.add(guest)
    assert not has_room_for(table, "2001:db8:1:2::ffff")
    assert has_room_for(table, "2001:db8:1:3::1")
    table.remove(guests[0])
    assert has_room_for(table, "2001:db8:1:2::ffff")

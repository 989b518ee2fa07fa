"""The gap closer brings each result that callbacks did not bring, once, and asks gently: against
the real rules of the gateway, in virtual time, with programs that are killed."""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx
import pytest
from attrs import Factory, define, field

from mmo_merchant import (
    GapCloser,
    GapRules,
    MerchantClient,
    SqliteInbox,
    TransactionObject,
    receive_callback,
)
from mmo_sansio.api.outgoing import callback_request
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import ProviderReport
from mmo_sansio.testing import FakeProvider, World, accepts, fails, succeeds
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Instant, Span, elapsed, later, to_datetime
from mmo_sansio.values.model import Transaction
from tests.support.effort import by_effort
from tests.support.simulated_api import BASE_URL, KEY, SimulatedApi

SEEDS = by_effort(12, 200)
ADVICE = timedelta(minutes=2)
"""The specification: wait at least 2 minutes between polls."""


T = TypeVar("T", bound=Callable[..., object])


class Killed(BaseException):
    """The merchant's program was killed at this point."""


@define
class SlowProvider(FakeProvider):
    """A provider that decides each payment when it likes."""

    chance: random.Random = field(kw_only=True)
    decides_at: dict[str, Instant] = Factory(dict)
    clock: list[World] = Factory(list)

    def submit(self, transaction: Transaction) -> ProviderReport:
        delay_s = self.chance.choice([0, 1, 60, 20 * 60, 90 * 60])
        self.decides_at[transaction.reference] = later(
            transaction.order.created_at, Span(delay_s * SECOND)
        )
        return self.poll(transaction, now=self.clock[0].now)

    def poll(self, transaction: Transaction, *, now: Instant) -> ProviderReport:
        if now < self.decides_at[transaction.reference]:
            return accepts(transaction)
        return (fails if transaction.reference[-1] in "37" else succeeds)(transaction)


@define(eq=False)
class Network(httpx.BaseTransport):
    """The way from the merchant's program to the gateway, which may fail; it notes who was asked
    about when."""

    api: SimulatedApi
    chance: random.Random
    deadliness: float = 0.0
    """How likely the program is killed before or after a request."""
    loss: float = 0.0
    """How likely an answer is lost."""
    has_date: bool = True
    asked: defaultdict[str, list[datetime]] = Factory(lambda: defaultdict(list))
    listings: list[tuple[datetime, str, str]] = Factory(list)
    """When each listing began, and its window."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.kill_perhaps()
        now, path = to_datetime(self.api.world.now), request.url.path
        if path.endswith("/records") and "page" not in request.url.params:
            self.listings.append((now, request.url.params["from"], request.url.params["to"]))
        headers = tuple((name.lower(), value) for name, value in request.headers.raw)
        answer = self.api.answer(
            HttpRequest(request.method, str(request.url).encode(), headers, request.read())
        )
        self._note(path, answer.body, now)
        self.kill_perhaps()
        if self.chance.random() < self.loss:
            raise httpx.ReadTimeout("nothing came", request=request)
        date = [(b"Date", f"{now:%a, %d %b %Y %H:%M:%S GMT}".encode())] if self.has_date else []
        return httpx.Response(answer.status, headers=[*answer.headers, *date], content=answer.body)

    def _note(self, path: str, body: bytes, now: datetime) -> None:
        found = json.loads(body)
        rows = found.get("data", [found] if "gatewayReference" in found else [])
        for row in rows:
            self.asked[row["gatewayReference"]].append(now)

    def kill_perhaps(self) -> None:
        if self.chance.random() < self.deadliness:
            raise Killed


def _mortal(call: T) -> T:
    """Return a method of an inbox whose program may be killed before and after it."""

    def surrounded(inbox: MortalInbox, *arguments: Any, **options: Any) -> Any:
        inbox.network.kill_perhaps()
        result = call(inbox, *arguments, **options)
        inbox.network.kill_perhaps()
        return result

    return cast(T, surrounded)


class MortalInbox(SqliteInbox):
    """An inbox whose program may be killed before and after each of its transactions."""

    network: Network

    def _connect(self) -> sqlite3.Connection:
        connection = super()._connect()
        connection.execute("PRAGMA synchronous = OFF")  # The machine itself does not stop.
        return connection

    @contextmanager
    def take(self, gateway_reference: str) -> Iterator[sqlite3.Connection | None]:
        self.network.kill_perhaps()
        with super().take(gateway_reference) as connection:
            yield connection
            self.network.kill_perhaps()
        self.network.kill_perhaps()

    save_progress = _mortal(SqliteInbox.save_progress)
    begin_look_up = _mortal(SqliteInbox.begin_look_up)
    save_watched = _mortal(SqliteInbox.save_watched)


@define(eq=False, slots=False)
class Shop:
    """A merchant: its database, and the program that is started again after each kill."""

    api: SimulatedApi
    network: Network
    path: Path
    skew: timedelta = timedelta(0)
    """How far its clock is ahead of the gateway's."""
    rules: GapRules = Factory(GapRules)
    kills: int = 0
    delivered: int = 0
    """How many of the gateway's callbacks were sent to it, in vain or not."""
    is_up: bool = True

    def __attrs_post_init__(self) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute("CREATE TABLE handled (reference TEXT, status TEXT)")
        self.start()

    def start(self) -> None:
        """Start the program on its database."""
        self.inbox = MortalInbox(self.path)
        self.inbox.network = self.network
        self.closer = self.another_closer(rules=self.rules)

    def another_closer(self, **members: Any) -> GapCloser[sqlite3.Connection]:
        """Return the program once more, on the same database."""
        client = MerchantClient(BASE_URL, KEY, http=httpx.Client(transport=self.network))
        given = {"handle": self.handle, "now": self.now, **members}
        return GapCloser(client, self.inbox, given.pop("handle"), **given)

    def now(self) -> datetime:
        """Return the time that its clock shows."""
        return to_datetime(self.api.world.now) + self.skew

    def handle(self, result: TransactionObject, connection: sqlite3.Connection) -> None:
        """Do the merchant's own work."""
        if self.network.deadliness and self.network.chance.random() < 0.05:
            raise RuntimeError("The handler's own fault.")
        connection.execute(
            "INSERT INTO handled VALUES (?, ?)", (result.gateway_reference, result.status)
        )

    def work(self) -> None:
        """Receive the callbacks that were sent, and close the gaps that are due, with a new start
        after each kill."""
        while True:
            try:
                self._receive()
                if self.is_up:
                    self.closer.close_due()
                return
            except Killed:
                self.kills += 1
                self.start()

    def _receive(self) -> None:
        for transaction in self.api.world.callbacks[self.delivered :]:
            self.delivered += 1
            request = callback_request(transaction, KEY.encode())
            headers = {name.decode(): value.decode() for name, value in request.headers}
            if self.is_up and self.network.chance.random() < 0.8:
                with suppress(RuntimeError):
                    receive_callback(
                        headers, request.body, keys=[KEY], inbox=self.inbox, handle=self.handle
                    )

    def handled(self) -> list[tuple[str, str]]:
        """Return what the handler was given, as its own table has it."""
        with sqlite3.connect(self.path) as connection:
            return connection.execute(
                "SELECT reference, status FROM handled ORDER BY reference"
            ).fetchall()


def a_shop(path: Path, seed: int = 0, *, deadliness: float = 0.0, **members: object) -> Shop:
    """A shop and its gateway; everything that happens follows from the seed."""
    chance = random.Random(seed)
    provider = SlowProvider(chance=chance)
    api = SimulatedApi(World(provider))
    provider.clock.append(api.world)
    network = Network(api, chance, deadliness)
    shop = Shop(api, network, path / f"shop-{seed}.db")
    for name, value in members.items():
        setattr(shop, name, value)
    shop.start()
    return shop


def too_early(shop: Shop) -> list[str]:
    """List the payments that were asked about again before the advised time was over."""
    found = [
        f"{reference}: {later_on - earlier}"
        for reference, times in shop.network.asked.items()
        for earlier, later_on in itertools.pairwise(times)
        if later_on - earlier < ADVICE
    ]
    listings = itertools.pairwise(shop.network.listings)
    return found + [f"{a[1:]} {b[1:]}" for a, b in listings if b[1] < a[2] and b[0] - a[0] < ADVICE]


def play(path: Path, seed: int) -> Shop:
    """Two hours of payments, an hour of which the shop is down, with kills at any point; then it
    catches up."""
    chance = random.Random(f"play {seed}")
    has_date = chance.random() < 0.5
    skews = [timedelta(0), timedelta(minutes=-3), timedelta(minutes=40 if has_date else 5)]
    rules = GapRules(
        list_every=chance.choice([timedelta(minutes=2), timedelta(minutes=5)]),
        window_max=chance.choice([timedelta(days=1), timedelta(minutes=30)]),
        page_size=chance.choice([2, 500]),
    )
    shop = a_shop(path, seed, deadliness=0.04, skew=chance.choice(skews), rules=rules)
    shop.network.has_date, shop.network.loss = has_date, 0.05
    world, begin = shop.api.world, shop.api.world.now
    orders = sorted(chance.randint(0, 2 * HOUR) for _ in range(12))
    down_from = chance.randint(0, HOUR)
    listed_at: dict[str, Instant] = {}
    while elapsed(begin, world.now) < 6 * HOUR:
        at = elapsed(begin, world.now)
        while orders and orders[0] <= at:
            orders.pop(0)
            number = len(orders)
            reference = f"01K5TESTTESTTEST00000000{number:02}"
            world.create(reference, merchant_reference=f"order-{number}")
            shop.api.unlisted.add(reference)
            delay = Span(chance.choice([0, 30 * SECOND, 4 * MINUTE]))
            listed_at[reference] = later(world.now, delay)
        shop.api.unlisted -= {each for each, listed in listed_at.items() if listed <= world.now}
        shop.is_up = not down_from <= at < down_from + HOUR
        shop.work()
        world.advance(Span(chance.choice([SECOND, 20 * SECOND, MINUTE, 5 * MINUTE])))
    return shop


@pytest.mark.spec("K3", "K6", "L4", "R7")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_result_is_handled_once_whatever_is_lost_and_killed(tmp_path: Path, seed: int) -> None:
    shop = play(tmp_path, seed)
    ended = sorted((each.reference, each.status.value) for each in shop.api.payments)
    assert len(ended) == 12
    assert {status for _, status in ended} <= {"success", "failed"}
    assert shop.handled() == ended
    assert too_early(shop) == []
    assert shop.kills > 0


@pytest.mark.spec("L4")
def test_results_are_found_soon_and_a_shop_at_rest_asks_every_five_minutes(tmp_path: Path) -> None:
    shop = a_shop(tmp_path)
    shop.network.chance = random.Random(1)
    shop.is_up = True
    world = shop.api.world
    world.create()
    world.settle()
    world.advance(Span(3 * HOUR))
    begin = world.now
    shop.delivered = len(world.callbacks)
    while elapsed(begin, world.now) < HOUR:
        shop.work()
        world.advance(Span(10 * SECOND))
    assert len(shop.handled()) == 1
    assert len(shop.network.asked[shop.api.payments[0].reference]) == 1
    assert 10 <= len(shop.network.listings) <= 14


def test_two_programs_on_one_inbox_ask_as_often_as_one(tmp_path: Path) -> None:
    one = a_shop(tmp_path)
    world = one.api.world
    for number in range(6):
        world.create(f"01K5TESTTESTTEST0000000{number:03}", merchant_reference=f"order-{number}")
    world.settle()
    other = one.another_closer()
    for _ in range(1_000):
        one.closer.step()
        other.step()
        world.advance(Span(20 * SECOND))
    assert len(one.handled()) == 6
    assert too_early(one) == []


def test_the_first_start_goes_back_as_far_as_it_is_told(tmp_path: Path) -> None:
    shop = a_shop(tmp_path)
    world = shop.api.world
    world.create()
    world.run()
    world.advance(Span(10 * 24 * HOUR))
    shop.closer.close_due()
    assert shop.handled() == [], "older than a pending payment may be"
    second = a_shop(tmp_path, seed=1)
    second.network.api = shop.api
    second.api = shop.api
    closer = second.another_closer(since=shop.now() - timedelta(days=11))
    assert closer.close_due() > 0
    assert len(second.handled()) == 1


def test_a_fault_of_the_handler_brings_the_result_again(tmp_path: Path) -> None:
    shop = a_shop(tmp_path)
    world = shop.api.world
    world.create()
    world.run()
    faults = [RuntimeError("The handler's own fault.")]

    def handle(result: TransactionObject, connection: sqlite3.Connection) -> None:
        if faults:
            raise faults.pop()
        shop.handle(result, connection)

    closer = shop.another_closer(handle=handle)
    closer.close_due()
    assert (faults, shop.handled()) == ([], [])
    world.advance(Span(20 * MINUTE))
    closer.close_due()
    assert len(shop.handled()) == 1

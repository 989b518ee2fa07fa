"""What was paid to an account is listed by one process at a time, from where the last list ended
(clauses S4, S5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any, cast

import pytest
import trio
from attrs import Factory, define, frozen
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import UnmatchedNotified
from mmo_sansio.providers.common.interface import DepositListing, DepositReport, ExchangeFailed
from mmo_sansio.testing import KES, a_brand, a_party, numbered_reference
from mmo_sansio.values.clock import HOUR, MINUTE, Instant, Moment, Span, elapsed, later
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.workers.providers.deposits import (
    LIST_INTERVAL,
    LISTED_AFTER,
    LISTED_FOR,
    LISTING_OVERLAP,
    DepositLister,
)
from mmo_trio.workers.providers.open_accounts import OpenAccount
from tests.simulation.stores.shared_server import SimulatedServer
from tests.simulation.stores.shared_store import open_shared_store
from tests.simulation.stores.simulated_run import quiet_server
from tests.support.engine_double import EngineDouble, now
from tests.support.provider_double import ScriptedProvider

INTERVAL_S = LIST_INTERVAL / 1_000_000
AHEAD = Span(3 * HOUR)
"""How far the wall clock is ahead of the gateway's own time."""


@define
class ListedProvider(ScriptedProvider):
    """Lists these deposits."""

    deposits: Sequence[DepositReport | UnmatchedNotified] = ()
    asked: list[tuple[Instant, Instant]] = Factory(list)
    """The periods that were asked about, as wall times."""

    def list_deposits(self, begin: Instant, end: Instant) -> DepositListing:
        self.asked.append((begin, end))
        answer = yield HttpRequest("POST", b"/list")
        assert answer.status == 200
        return self.deposits


@frozen
class ListedAccount:
    """As much of an open account as the lister uses."""

    provider: ListedProvider
    account: Any


@define
class Listings:
    """Processes with one account, on one store."""

    provider: ListedProvider = Factory(ListedProvider)
    engine: EngineDouble = Factory(EngineDouble)
    server: SimulatedServer = Factory(quiet_server)
    fails: bool = False
    _numbers: Iterator[int] = Factory(count)

    async def ask(self, request: HttpRequest) -> HttpResponse:
        await trio.lowlevel.checkpoint()
        if self.fails:
            raise ExchangeFailed("no answer", may_have_arrived=True)
        return HttpResponse(200)

    @property
    def receipts(self) -> Sequence[str | None]:
        """The receipts of the deposits that were booked."""
        return [
            each.progress.provider_reference
            for each in self.engine.gateway.ledger.transactions.values()
        ]

    @asynccontextmanager
    async def process(self) -> AsyncIterator[None]:
        async with (
            open_shared_store(self.server, f"gateway {next(self._numbers)}") as store,
            trio.open_nursery() as nursery,
        ):
            await store.admin.save_brands([a_brand()])
            account = cast(OpenAccount, ListedAccount(self.provider, self))
            submit, fresh = self.engine.submit, iter(range(100, 10_000))
            next_reference = partial(next, map(numbered_reference, fresh))
            lister = DepositLister(
                store, submit, [account], lambda: Moment(now(), later(now(), AHEAD)), next_reference
            )
            nursery.start_soon(lister.run)
            yield
            nursery.cancel_scope.cancel()


def a_report(receipt: str) -> DepositReport:
    return DepositReport("test", receipt, "174379", "acme-77", KES(75), a_party())


@pytest.mark.spec("S4")
async def test_what_is_listed_is_booked_once(autojump_clock: MockClock) -> None:
    listings = Listings()
    listings.provider.deposits = (
        a_report("R1"),
        UnmatchedNotified("test", "a row that nobody can read"),
    )
    async with listings.process():
        await trio.sleep(1)
        assert (
            listings.provider.asked == []
        )  # What was paid before the first look is somebody else's.
        await trio.sleep(3 * INTERVAL_S)
    assert len(listings.provider.asked) == 3
    assert listings.receipts == ["R1"]
    assert {each.reason for each in listings.engine.gateway.suspense} == {"unreadable"}


async def test_each_list_begins_a_while_before_the_end_of_the_last_one(
    autojump_clock: MockClock,
) -> None:
    listings = Listings()
    began = now()
    async with listings.process():
        await trio.sleep(30 * INTERVAL_S + 2)
    last_begin, last_end = listings.provider.asked[-1]
    assert {begin for begin, _ in listings.provider.asked[:12]} == {later(began, AHEAD)}
    assert elapsed(last_begin, last_end) == LISTING_OVERLAP + LIST_INTERVAL
    assert elapsed(last_end, later(now(), AHEAD)) - LISTED_AFTER < Span(MINUTE)


@pytest.mark.spec("S5")
@pytest.mark.parametrize("is_the_store", [False, True])
async def test_what_could_not_be_listed_is_listed_later(
    autojump_clock: MockClock, is_the_store: bool
) -> None:
    listings = Listings()
    listings.provider.deposits = (a_report("R1"),)
    began = now()
    async with listings.process():
        if is_the_store:
            listings.engine.errors = [StoreUnavailable("down")] * 20
        else:
            listings.fails = True
        await trio.sleep(20 * INTERVAL_S)
        listings.fails, failed = False, len(listings.provider.asked)
        assert listings.receipts == []
        await trio.sleep(2 * INTERVAL_S)
    assert listings.receipts == ["R1"]
    assert {begin for begin, _ in listings.provider.asked[: failed + 1]} == {later(began, AHEAD)}


async def test_no_more_is_asked_for_than_the_provider_keeps(autojump_clock: MockClock) -> None:
    listings = Listings(fails=True)
    async with listings.process():
        await trio.sleep(2 * INTERVAL_S)
        autojump_clock.jump(60 * 3600)
        await trio.sleep(2 * INTERVAL_S)
    begin, end = listings.provider.asked[-1]
    assert elapsed(begin, end) == Span(LISTED_FOR - LISTED_AFTER)


async def test_of_several_processes_one_lists(autojump_clock: MockClock) -> None:
    listings = Listings()
    async with listings.process(), listings.process(), listings.process():
        await trio.sleep(10 * INTERVAL_S + 2)
    assert 9 <= len(listings.provider.asked) <= 10
    async with listings.process():  # One that starts goes on.
        await trio.sleep(1)
        await trio.sleep(2 * INTERVAL_S)
    assert 10 <= len(listings.provider.asked) <= 13
    assert listings.provider.asked[-1][0] == listings.provider.asked[0][0]

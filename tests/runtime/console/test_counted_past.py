"""What was counted in hours that are over is read once, and the last hours each time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from attrs import Factory, define, evolve

from mmo_sansio.values.clock import DAY, HOUR, Instant, Span, earlier, later
from mmo_sansio.values.model import Status, Type
from mmo_trio.console import overview
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.counted_past import CountedPast
from mmo_trio.storage.interface.admin_types import (
    CountDimension,
    CountQuery,
    PaymentCell,
    PaymentCount,
)
from mmo_trio.storage.interface.store import StoreCorrupt, StoreUnusable
from tests.support.console_browser import ConsoleBrowser, add_users
from tests.support.sandbox_gateway import Serve
from tests.support.time_limits import HANGS_AFTER_S

NOW = Instant(20_000 * DAY)
LAST_DAY = CountQuery(HOUR, earlier(NOW, DAY), NOW)


@define
class CountingStore:
    """Answers each question with one row, and says what was asked."""

    asked: list[CountQuery] = Factory(list)

    async def count_payments(
        self, query: CountQuery, *, by: CountDimension | None
    ) -> list[PaymentCount]:
        self.asked.append(query)
        return [PaymentCount(str(query.begin), Status.SUCCESS, 1, 1)]

    async def payment_cells(self, query: CountQuery) -> list[PaymentCell]:
        self.asked.append(query)
        return [
            PaymentCell(
                query.begin, "m", name, False, Status.SUCCESS, 1, Type.PAYIN, "KES", None, 1, 5
            )
            for name in ("momo", "airtel")
        ]


def counting(now: Callable[[], Instant], **members: Any) -> tuple[CountingStore, CountedPast]:
    store = CountingStore()
    return store, CountedPast(store, now, **members)  # type: ignore[arg-type]


async def test_only_hours_that_may_change_are_read_again() -> None:
    store, counted = counting(lambda: NOW)
    first = await counted.count_payments(LAST_DAY, by=None)
    assert len(store.asked) == len(first) == 24
    store.asked.clear()
    assert await counted.count_payments(LAST_DAY, by=None) == first
    assert [each.begin for each in store.asked] == [earlier(NOW, HOUR)]


async def test_what_is_counted_by_brand_is_read_at_once_and_the_last_hour_again() -> None:
    store, counted = counting(lambda: NOW)
    settled, open_hour = earlier(NOW, DAY), earlier(NOW, HOUR)
    await counted.count_payments(LAST_DAY, by=CountDimension.BRAND)
    asked = [(each.begin, each.end) for each in store.asked]
    assert asked == [(settled, open_hour), (open_hour, NOW)]
    store.asked.clear()
    await counted.count_payments(LAST_DAY, by=CountDimension.BRAND)
    assert [(each.begin, each.end) for each in store.asked] == [(open_hour, NOW)]


async def test_what_concerns_one_operator_is_read_for_all_of_them_and_kept() -> None:
    store, counted = counting(lambda: NOW)
    for name in ("momo", "momo", "airtel"):
        only = CountQuery(HOUR, earlier(NOW, DAY), NOW, (CountDimension.PROVIDER, name))
        assert len(await counted.count_payments(only, by=None)) == 24
    assert len(store.asked) == 24 + 1 + 1


async def test_cells_that_were_read_ahead_are_not_read_for_a_selection() -> None:
    store, counted = counting(lambda: later(NOW, DAY))
    await counted.read_cells(LAST_DAY)
    store.asked.clear()
    only = evolve(LAST_DAY, only=(CountDimension.METHOD, "m"), is_simulated=False)
    by_provider = await counted.sum_payments(only, by=CountDimension.PROVIDER)
    assert {(row.key, row.count, row.minor) for row in by_provider} == {
        ("momo", 24, 120),
        ("airtel", 24, 120),
    }
    assert not store.asked


async def test_what_concerns_one_brand_is_read_at_once_and_not_kept() -> None:
    store, counted = counting(lambda: NOW)
    only = CountQuery(HOUR, earlier(NOW, DAY), NOW, (CountDimension.BRAND, "acme"))
    await counted.count_payments(only, by=None)
    await counted.count_payments(only, by=None)
    assert store.asked == [only, only]


async def test_the_memory_is_bounded() -> None:
    store, counted = counting(lambda: later(NOW, DAY), rows_kept_max=5)
    await counted.count_payments(LAST_DAY, by=None)
    store.asked.clear()
    await counted.count_payments(CountQuery(HOUR, earlier(NOW, Span(5 * HOUR)), NOW), by=None)
    assert not store.asked
    await counted.count_payments(LAST_DAY, by=None)
    assert store.asked


async def test_the_first_page_after_a_start_finds_all_that_is_over_read(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, is_ready, read_ahead = list[object](), trio.Event(), overview.read_ahead
    keep = CountedPast._keep

    async def read(context: ConsoleContext) -> None:
        await read_ahead(context)
        is_ready.set()

    def note(counted: CountedPast, key: object, rows: list[PaymentCount]) -> None:
        kept.append(key)
        keep(counted, key, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(overview, "read_ahead", read)
    monkeypatch.setattr(CountedPast, "_keep", note)
    async with serve() as running:
        await add_users(running.directory, vera="viewer")
        with trio.fail_after(HANGS_AFTER_S):
            await is_ready.wait()
        assert kept
        kept.clear()
        vera = ConsoleBrowser(running.ready.console)
        await vera.sign_in("vera")
        for path in ("/", "/?view=month", "/?by=method", "/?by=provider"):
            assert (await vera.get(path)).status == 200
        assert not kept


@pytest.mark.parametrize("error", [StoreCorrupt("a row"), StoreUnusable("a right"), KeyError("a")])
async def test_a_page_that_cannot_be_read_ahead_ends_no_payments(
    error: Exception, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[float] = []

    async def fail(_: object) -> None:
        reads.append(trio.current_time())
        raise error

    monkeypatch.setattr(overview, "read_ahead", fail)
    context: Any = SimpleNamespace(wall_time=lambda: NOW)
    with trio.move_on_after(1.5 * 3_600):
        await overview.keep_ready(context)
    assert len(reads) == 2


async def test_what_was_read_while_the_clock_was_ahead_is_read_again_once_it_is_right() -> None:
    times = [later(NOW, DAY), NOW, NOW]
    store, counted = counting(lambda: times.pop(0))
    await counted.count_payments(LAST_DAY, by=None)
    store.asked.clear()
    await counted.count_payments(LAST_DAY, by=None)
    assert len(store.asked) == 24
    store.asked.clear()
    await counted.count_payments(LAST_DAY, by=None)
    assert [each.begin for each in store.asked] == [earlier(NOW, HOUR)]

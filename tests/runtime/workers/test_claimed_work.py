"""Questions about payments that have ended outlive the processes that were to ask them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderHinted
from mmo_sansio.messages.intents import PollEnded
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.testing import REFERENCE, START, a_transaction, ledger_with, numbered_reference
from mmo_sansio.values.clock import SECOND, Span, later
from mmo_sansio.values.model import Source, Stage
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.storage.sqlite.store import SqliteStore
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.providers.account import SendRequest
from mmo_trio.workers.providers.worker import ProviderWorker
from mmo_trio.workers.scheduler import SCAN_INTERVAL_S, Scheduler
from tests.runtime.workers.providers.test_worker import PlainProvider
from tests.runtime.workers.test_dispatcher import DispatcherWorld
from tests.support.operator_course import VirtualClock as OperatorClock
from tests.support.operator_course import moment
from tests.support.sqlite_store import StoreFile
from tests.support.stored_ledger import store_ledger


@asynccontextmanager
async def a_process(
    file: StoreFile, exchange: SendRequest, *, scan_interval_s: float = SCAN_INTERVAL_S
) -> AsyncIterator[tuple[SqliteStore, Engine]]:
    """Runs what asks the operator "test" while the block lasts; then it is gone at once."""
    async with file.open() as store, trio.open_nursery() as nursery:
        outbox, clock = Outbox(), OperatorClock()
        engine = Engine(store, clock, outbox)
        worker = ProviderWorker(
            engine.submit,
            {"test": PlainProvider()},
            lambda _: exchange,
            lambda _: exchange,
            moment,
        )
        idle: Any = DispatcherWorld(room=Counter(acme=1_000))
        dispatcher = Dispatcher(store, worker, idle, idle)
        outbox.subscribe(dispatcher.dispatch)
        scheduler = Scheduler(
            store,
            engine.enqueue,
            dispatcher.dispatch,
            dispatcher.has_room,
            clock.own_time,
            scan_interval_s=scan_interval_s,
        )
        await nursery.start(engine.run)
        await nursery.start(partial(worker.run, drain=trio.Event()))
        await nursery.start(scheduler.run)
        yield store, engine
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S3", "S5")
async def test_after_a_restart_every_payment_that_has_expired_unasked_is_asked(
    autojump_clock: MockClock,
) -> None:
    """The morning after an outage: the first process lives for two seconds, and asks about 20 of
    100."""
    payments = [numbered_reference(number) for number in range(100)]
    overdue, expired = later(START, Span(SECOND)), later(START, Span(2 * SECOND))
    pending = (
        a_transaction(
            Stage.AWAITING_RESULT,
            gateway_reference=each,
            merchant_reference=each,
            wake_at=overdue,
            expires_at=expired,
        )
        for each in payments
    )
    file = StoreFile()
    async with file.open() as store:
        await store_ledger(store, ledger_with(*pending))
    asked: list[list[str]] = []

    async def answers(request: HttpRequest) -> HttpResponse:
        await trio.lowlevel.checkpoint()
        asked[-1].append(request.target.decode())
        return HttpResponse(200)

    await trio.sleep(10)
    for lasts_s in (2, 60):
        asked.append([])
        async with a_process(file, answers):
            await trio.sleep(lasts_s)
    assert 0 < len(asked[0]) < len(payments)
    assert sorted({*asked[0], *asked[1]}) == payments
    async with file.open() as store:
        left = await store.claim_abandoned(limit=1_000)
    assert [each for each in left if isinstance(each.intent, PollEnded)] == []


@pytest.mark.spec("S3", "S5")
async def test_restarts_move_neither_the_end_of_the_questions_nor_what_caused_them(
    autojump_clock: MockClock,
) -> None:
    """The operator never answers; each process lives for 20 hours, the last one until the entry."""
    file, told_at = StoreFile(), trio.current_time()
    ended = a_transaction(Stage.FAILED, completion_source=Source.POLL)
    async with file.open() as store:
        await store_ledger(store, ledger_with(ended))

    async def is_away(request: HttpRequest) -> HttpResponse:
        await trio.lowlevel.checkpoint()
        raise ExchangeFailed("no answer", may_have_arrived=True)

    hints = [ProviderHinted(REFERENCE, "test", each) for each in ("PROCESSING", "COMPLETED")]
    for process in range(4):
        async with a_process(file, is_away, scan_interval_s=600) as (store, engine):
            for hint in hints[process : process + 1]:
                await engine.submit(hint)
            if process < 3:
                await trio.sleep(20 * 3_600)
                assert await store.admin.suspense() == []
            while process == 3 and not await store.admin.suspense():
                await trio.sleep(600)
                assert trio.current_time() < told_at + 3.1 * 86_400
    async with file.open() as store:
        (entry,) = await store.admin.suspense()
        assert json.loads(entry.content)["told"] == "PROCESSING\nCOMPLETED"
    assert trio.current_time() >= told_at + 3 * 86_400

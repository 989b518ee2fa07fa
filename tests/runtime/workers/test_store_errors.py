"""Whatever a store raises, the tasks that use it again and again go on, and with them the process
(P5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio
from attrs import Factory, define, evolve
from structlog.testing import capture_logs
from trio.testing import MockClock

from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.resilience.circuit_breaker import BreakerSettings
from mmo_sansio.testing import a_transaction
from mmo_sansio.values.clock import SECOND, Instant
from mmo_sansio.values.model import BrandLimits, Stage
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.api.request_limits import COUNT_TTL, RequestRates
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.metrics.process_files import WRITE_INTERVAL_S, ProcessMetricsFiles
from mmo_trio.metrics.prometheus import BACKLOG_TTL_S, BacklogCache
from mmo_trio.storage.interface.admin_types import AuditKey
from mmo_trio.storage.interface.store import (
    OutcomeUnknown,
    StoreCorrupt,
    StoreUnavailable,
    StoreUnusable,
    WorkItem,
)
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.system.clock import GatewayClock
from mmo_trio.workers.channel_owner import ChannelOwner, OwnedChannels
from mmo_trio.workers.clock_monitor import ClockMonitor
from mmo_trio.workers.configuration_watch import ConfigurationWatch
from mmo_trio.workers.deliveries import CallbackWorker
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.housekeeping import AUDIT_HEAD_INTERVAL_S, AuditHeadLogger
from mmo_trio.workers.providers.deposits import DepositClaimWorker
from mmo_trio.workers.scheduler import Scheduler
from tests.conformance.inputs import brand
from tests.runtime.workers.test_dispatcher import DispatcherWorld
from tests.support.callback_work import monotonic_of_trio

# isort: split
import psycopg

Task: TypeAlias = Callable[[], Awaitable[object]]

ERRORS = [
    StoreUnavailable("gone"),
    OutcomeUnknown("gone"),
    StoreUnusable("permission denied for table suspense"),
    StoreCorrupt("invalid page"),
    psycopg.errors.FeatureNotSupported("0A000"),
    KeyError("254700000000"),
]


CALLS = 6


@define(eq=False)
class FailingStore:
    """Raises the same error from every method; it is its own admin API and its own channels."""

    error: Exception
    calls: int = 0
    is_enough: trio.Event = Factory(trio.Event)
    """Set once so many calls have failed that the task must have repeated them."""

    @property
    def admin(self) -> FailingStore:
        return self

    @property
    def ownership(self) -> FailingStore:
        return self

    def __getattr__(self, name: str) -> Callable[..., Awaitable[None]]:
        async def fail(*_: object, **__: object) -> None:
            await trio.lowlevel.checkpoint()
            self.calls += 1
            if self.calls == CALLS:
                self.is_enough.set()
            raise self.error

        return fail


def never(*_: object, **__: object) -> Any:
    """Stand for what is not reached."""
    raise AssertionError


def callback_worker() -> CallbackWorker:
    time = GatewayClock()
    return CallbackWorker(
        deliver=never,
        find_key=never,
        record_outcome=never,
        own_time=time.own_time,
        monotonic=time.monotonic,
        breaker=BreakerSettings(),
    )


def scheduler(store: Any) -> Task:
    return Scheduler(
        store,
        enqueue=never,
        dispatch=never,
        has_room=lambda: True,
        own_time=GatewayClock().own_time,
    ).run


def channel_owner(store: Any) -> Task:
    owned = OwnedChannels(monotonic_of_trio)
    owner = ChannelOwner(store, callback_worker(), owned)
    return partial(owner.run, drain=trio.Event(), callbacks_ended=trio.Event())


def dispatcher(store: Any) -> Task:
    """One whose worker has no room, so that it looks at its waiting work again and again."""
    full = DispatcherWorld()
    found = Dispatcher(store, full, full, full)  # type: ignore[arg-type]
    payment = a_transaction(Stage.SUCCEEDED)
    found.dispatch(WorkItem(DeliverCallback(payment.reference, 0), payment))
    return found.run


def configuration_watch(store: Any) -> Task:
    return ConfigurationWatch(store, KnownConfiguration(), monotonic_of_trio).run


def deposit_claims(store: Any) -> Task:
    worker = DepositClaimWorker(store, never, {}, never, GatewayClock().moment)
    return partial(worker.run, drain=trio.Event())


def clock_monitor(store: Any) -> Task:
    return ClockMonitor(GatewayClock(), store).run


def audit_log(store: Any) -> Task:
    return AuditHeadLogger(AuditLog(store, AuditKey("k1", bytes(32)), lambda: Instant(1))).run


def backlog(store: Any) -> Task:
    cache = BacklogCache(store, GatewayClock().own_time)

    async def read_repeatedly() -> None:
        while True:
            assert await cache.backlog() is None
            await trio.sleep(BACKLOG_TTL_S)

    return read_repeatedly


def request_rates(store: Any) -> Task:
    rates = RequestRates(store, monotonic_of_trio)
    limited = evolve(brand(), limits=BrandLimits(requests_per_second=1))

    async def check_repeatedly() -> None:
        while True:
            await rates.check(limited)
            await trio.sleep(COUNT_TTL / SECOND)

    return check_repeatedly


TASKS = [
    scheduler,
    channel_owner,
    dispatcher,
    configuration_watch,
    deposit_claims,
    clock_monitor,
    audit_log,
    backlog,
    request_rates,
]


@pytest.mark.spec("P5")
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("create_task", TASKS, ids=lambda create: create.__name__)
async def test_a_task_goes_on_whatever_the_store_raises(
    create_task: Callable[[Any], Task], error: Exception, autojump_clock: MockClock
) -> None:
    store = FailingStore(error)
    with capture_logs() as lines, trio.fail_after(8 * AUDIT_HEAD_INTERVAL_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(create_task(store))
            await store.is_enough.wait()
            nursery.cancel_scope.cancel()
    marks = {each.get("once_a_second", each.get("once_a_minute")) for each in lines}
    assert marks == {True}, "it fills the log"
    assert "254700000000" not in repr(lines)


async def test_metrics_are_written_again_after_an_error(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    errors, is_rendered = [KeyError("x")], trio.Event()

    async def render() -> bytes:
        await trio.lowlevel.checkpoint()
        if errors:
            raise errors.pop()
        is_rendered.set()
        return b""

    with trio.fail_after(3 * WRITE_INTERVAL_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ProcessMetricsFiles(tmp_path, "worker-1").run, render)
            await is_rendered.wait()
            nursery.cancel_scope.cancel()


async def test_a_backlog_that_cannot_be_read_leaves_its_series_out_until_it_can(
    database: str,
) -> None:
    async with open_postgres(database, serving=True) as store:
        cache = BacklogCache(store, GatewayClock().own_time)
        with psycopg.connect(database, autocommit=True) as staff:
            rename = b"ALTER TABLE suspense RENAME TO suspense_elsewhere"
            await trio.to_thread.run_sync(
                staff.execute, rename
            )  # It may wait for the store's own maintenance.
            assert await cache.backlog() is None
            staff.execute("ALTER TABLE suspense_elsewhere RENAME TO suspense")
        assert await BacklogCache(store, GatewayClock().own_time).backlog() is not None

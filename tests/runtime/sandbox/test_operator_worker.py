"""The simulated operator sends results in time, in order, and until they are stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import outcome
import pytest
import trio
from attrs import Factory, define
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.intents import PollEnded, PollProvider, SubmitToProvider
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_sansio.providers.sandbox.journal import (
    SandboxAcknowledgement,
    SandboxResult,
    SandboxSubmission,
)
from mmo_sansio.testing import REFERENCE, a_create_payment, numbered_reference
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Moment, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Stage
from mmo_trio.engine.engine import PendingInput
from mmo_trio.sandbox.operator_worker import (
    OperatorJournal,
    SandboxOperatorWorker,
    read_operator_journal,
)
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.system.clock import boot_time
from mmo_trio.workers.providers.worker import ProviderWorker
from tests.support.engine_double import EngineDouble, now

PAYMENTS = b"https://sandbox.invalid/payments"


@define
class SandboxWorld:
    """A gateway in memory, its provider worker, and the simulated operator."""

    path: Path
    engine: EngineDouble = Factory(EngineDouble)
    advanced: Span = Span(0)
    notification_errors: list[Exception] = Factory(list)
    """Raised by the next notifications, one each."""
    notified: list[str] = Factory(list)
    """The payments that were notified, in order."""
    provider: SandboxProvider = Factory(lambda: SandboxProvider("test", "Test Money"))
    sandbox: SandboxOperatorWorker = Factory(
        lambda self: SandboxOperatorWorker(
            OperatorJournal(self.path), self.now, self.provider.read_notification, self.enqueue
        ),
        takes_self=True,
    )
    worker: ProviderWorker = Factory(
        lambda self: ProviderWorker(
            self.engine.submit,
            {"test": self.provider},
            lambda name: self.sandbox.exchange,
            lambda name: self.sandbox.exchange,
            lambda: Moment.at(self.now()),
        ),
        takes_self=True,
    )

    def now(self) -> Instant:
        return later(now(), self.advanced)

    def enqueue(self, report: Input) -> PendingInput:
        pending = PendingInput(report, boot_time())
        if self.notification_errors:
            pending.complete(outcome.Error(self.notification_errors.pop(0)))
        else:
            self.notified.append(getattr(report, "gateway_reference", "?"))
            pending.complete(outcome.Value(self.engine.gateway.receive(report, now=now())))
        return pending

    async def create(self, subject: str = REFERENCE, *, scenario: str | None = None) -> None:
        created = a_create_payment(subject, merchant_reference=subject, scenario=scenario)
        await self.engine.submit(created)
        await self.worker.wait_idle()

    def stage(self, subject: str = REFERENCE) -> Stage:
        return self.engine.transaction(subject).progress.stage

    def entries(self) -> list[type[object]]:
        return [type(each) for each in read_operator_journal(self.path)]


@asynccontextmanager
async def running(world: SandboxWorld) -> AsyncIterator[SandboxWorld]:
    with trio.fail_after(7 * 86_400):
        async with trio.open_nursery() as nursery:
            taken = SubmitToProvider | PollProvider | PollEnded
            world.engine.dispatch = lambda work: (
                world.worker.try_enqueue(work) if isinstance(work.intent, taken) else None
            )
            await nursery.start(partial(world.worker.run, drain=trio.Event()))
            await nursery.start(world.sandbox.run)
            yield world
            nursery.cancel_scope.cancel()


@pytest.fixture
def world(tmp_path: Path) -> SandboxWorld:
    return SandboxWorld(tmp_path / "journal.ndjson")


@pytest.mark.spec("S2")
async def test_a_payment_succeeds_after_its_time(
    autojump_clock: MockClock, world: SandboxWorld
) -> None:
    async with running(world):
        await world.create()
        assert world.entries() == [SandboxSubmission]
        await trio.sleep(0.19)
        assert world.stage() is Stage.AWAITING_RESULT
        await trio.sleep(0.02)
        assert world.stage() is Stage.SUCCEEDED
        assert world.entries() == [SandboxSubmission, SandboxResult, SandboxAcknowledgement]


@pytest.mark.spec("S2")
async def test_results_are_notified_in_the_order_of_the_submissions(
    autojump_clock: MockClock, world: SandboxWorld
) -> None:
    references = [numbered_reference(number) for number in range(700)]
    async with running(world):
        for each in references:
            await world.create(each)
        await trio.sleep(1)
        assert world.notified == references


@pytest.mark.spec("S2", "P5")
async def test_a_result_is_notified_until_the_gateway_has_stored_it(
    autojump_clock: MockClock, world: SandboxWorld
) -> None:
    world.notification_errors = [StoreUnavailable("busy") for _ in range(5)]
    async with running(world):
        await world.create()
        await trio.sleep(10)
        assert world.stage() is Stage.SUCCEEDED
        assert world.entries() == [SandboxSubmission, SandboxResult, SandboxAcknowledgement]


@pytest.mark.spec("S2")
async def test_an_error_in_one_notification_affects_no_other(
    autojump_clock: MockClock, world: SandboxWorld
) -> None:
    world.notification_errors = [ZeroDivisionError()]
    async with running(world):
        await world.create(numbered_reference(1))
        await world.create(numbered_reference(2))
        await trio.sleep(1)
        await world.sandbox.wait_idle(world.now())
        assert world.stage(numbered_reference(1)) is Stage.AWAITING_RESULT
        assert world.stage(numbered_reference(2)) is Stage.SUCCEEDED


@pytest.mark.spec("S2")
async def test_after_a_restart_the_missing_notifications_are_sent(
    autojump_clock: MockClock, world: SandboxWorld
) -> None:
    async with running(world):
        await world.create()
        await world.create(numbered_reference(2), scenario="phone")
    restarted = SandboxWorld(world.path, engine=world.engine)
    async with running(restarted):
        await trio.sleep(1)
        assert restarted.stage() is Stage.SUCCEEDED
        assert [each.reference for each in restarted.sandbox.prompts()] == [numbered_reference(2)]
    assert world.entries().count(SandboxSubmission) == 2


@pytest.mark.spec("S2")
async def test_the_virtual_phone_decides_at_once(
    autojump_clock: MockClock, world: SandboxWorld
) -> None:
    async with running(world):
        await world.create(numbered_reference(1), scenario="phone")
        await world.create(numbered_reference(2), scenario="phone")
        await trio.sleep(60)
        assert world.sandbox.approve(numbered_reference(1))
        assert world.sandbox.decline(numbered_reference(2))
        assert not world.sandbox.decline(numbered_reference(2))
        await world.sandbox.wait_idle(world.now())
        assert world.stage(numbered_reference(1)) is Stage.SUCCEEDED
        declined = world.engine.transaction(numbered_reference(2)).progress
        assert declined.error_code is ErrorCode.USER_CANCELLED


@pytest.mark.spec("S2")
async def test_after_a_clock_advance_due_results_are_notified_before_wait_idle_returns(
    autojump_clock: MockClock, world: SandboxWorld
) -> None:
    async with running(world):
        await world.create(scenario="slow")
        due = world.sandbox.next_due()
        assert due is not None
        before = trio.current_time()
        world.advanced = Span(due - world.now())
        await world.sandbox.wait_idle(world.now())
        assert world.stage() is Stage.SUCCEEDED
        assert world.sandbox.next_due() is None
        assert trio.current_time() == before


@pytest.mark.spec("S6")
async def test_no_response_is_sent_that_is_not_in_the_journal(
    autojump_clock: MockClock, world: SandboxWorld
) -> None:
    async with running(world):
        world.sandbox.journal.close()
        with pytest.raises(ExchangeFailed) as failure:
            await world.sandbox.exchange(HttpRequest("POST", PAYMENTS, (), a_submission()))
        assert failure.value.may_have_arrived
        world.sandbox.journal = OperatorJournal(world.path)  # It is closed once more at the end.


def a_submission() -> bytes:
    return (
        b'{"reference":"R","type":"payin","amount":{"value":"1.00","currency":"KES"},'
        b'"msisdn":"254700000200","expiresInUs":%d,"scenario":"success"}' % (10**6 * clock.SECOND)
    )

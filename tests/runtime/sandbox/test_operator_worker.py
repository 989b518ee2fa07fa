"""The sandbox operator in our process: results told in time, in order and until they are kept; and its clock."""

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
from mmo_sansio.messages.intents import PollProvider, SubmitToProvider
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_sansio.providers.sandbox.journal import (
    SandboxAcknowledgement,
    SandboxResult,
    SandboxSubmission,
)
from mmo_sansio.testing import REFERENCE, a_create_payment, numbered_reference
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Stage
from mmo_trio.engine.engine import PendingInput
from mmo_trio.sandbox.operator_journal import OperatorJournal, read_operator_journal
from mmo_trio.sandbox.operator_worker import SandboxOperatorWorker
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.workers.providers.worker import ProviderWorker
from tests.support.engine_double import EngineDouble, now

PAYMENTS = b"https://sandbox.invalid/payments"


@define
class Shop:
    """A gateway in memory, its provider worker, and the sandbox behind it."""

    path: Path
    engine: EngineDouble = Factory(EngineDouble)
    advanced: Span = Span(0)
    troubles: list[Exception] = Factory(list)
    """Raised by the next notifications, one each."""
    told: list[str] = Factory(list)
    """The payments that were told about, in order."""
    provider: SandboxProvider = Factory(lambda: SandboxProvider("test", "Test Money"))
    sandbox: SandboxOperatorWorker = Factory(
        lambda self: SandboxOperatorWorker(OperatorJournal(self.path), self.now, self.notify),
        takes_self=True,
    )
    worker: ProviderWorker = Factory(
        lambda self: ProviderWorker(
            self.engine.submit,
            {"test": self.provider},
            lambda name: self.sandbox.exchange,
            self.now,
        ),
        takes_self=True,
    )

    def now(self) -> Instant:
        return later(now(), self.advanced)

    def notify(self, request: HttpRequest) -> PendingInput:
        report = self.provider.read_notification(request)
        call = PendingInput(report)
        if self.troubles:
            call.complete(outcome.Error(self.troubles.pop(0)))
        else:
            self.told.append(getattr(report, "gateway_reference", "?"))
            call.complete(outcome.Value(self.engine.gateway.receive(report, now=now())))
        return call

    async def create(self, subject: str = REFERENCE, *, scenario: str | None = None) -> None:
        created = a_create_payment(subject, merchant_reference=subject, scenario=scenario)
        await self.engine.submit(created)
        await self.worker.wait_idle()

    def stage(self, subject: str = REFERENCE) -> Stage:
        return self.engine.transaction(subject).progress.stage

    def entries(self) -> list[type[object]]:
        return [type(each) for each in read_operator_journal(self.path)]


@asynccontextmanager
async def open_for_business(shop: Shop) -> AsyncIterator[Shop]:
    with trio.fail_after(7 * 86_400):
        async with trio.open_nursery() as nursery:
            shop.engine.dispatch = lambda work: (
                shop.worker.try_enqueue(work)
                if isinstance(work.intent, SubmitToProvider | PollProvider)
                else None
            )
            await nursery.start(partial(shop.worker.run, drain=trio.Event()))
            await nursery.start(shop.sandbox.run)
            yield shop
            nursery.cancel_scope.cancel()


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "book.ndjson")


@pytest.mark.spec("S2")
async def test_a_payment_succeeds_after_its_time(autojump_clock: MockClock, shop: Shop) -> None:
    async with open_for_business(shop):
        await shop.create()
        assert shop.entries() == [SandboxSubmission]
        await trio.sleep(0.19)
        assert shop.stage() is Stage.AWAITING_RESULT
        await trio.sleep(0.02)
        assert shop.stage() is Stage.SUCCEEDED
        assert shop.entries() == [SandboxSubmission, SandboxResult, SandboxAcknowledgement]


@pytest.mark.spec("S2")
async def test_many_results_at_once_are_told_in_the_order_of_their_submission(
    autojump_clock: MockClock, shop: Shop
) -> None:
    references = [numbered_reference(number) for number in range(700)]
    async with open_for_business(shop):
        for each in references:
            await shop.create(each)
        await trio.sleep(1)
        assert shop.told == references


@pytest.mark.spec("S2", "P5")
async def test_a_result_is_told_until_the_gateway_has_it(
    autojump_clock: MockClock, shop: Shop
) -> None:
    shop.troubles = [StoreUnavailable("busy") for _ in range(5)]
    async with open_for_business(shop):
        await shop.create()
        await trio.sleep(10)
        assert shop.stage() is Stage.SUCCEEDED
        assert shop.entries() == [SandboxSubmission, SandboxResult, SandboxAcknowledgement]


@pytest.mark.spec("S2")
async def test_a_fault_in_one_notification_harms_no_other(
    autojump_clock: MockClock, shop: Shop
) -> None:
    shop.troubles = [ZeroDivisionError()]
    async with open_for_business(shop):
        await shop.create(numbered_reference(1))
        await shop.create(numbered_reference(2))
        await trio.sleep(1)
        await shop.sandbox.wait_idle(shop.now())
        assert shop.stage(numbered_reference(1)) is Stage.AWAITING_RESULT
        assert shop.stage(numbered_reference(2)) is Stage.SUCCEEDED


@pytest.mark.spec("S2")
async def test_after_a_restart_what_was_not_told_is_told(
    autojump_clock: MockClock, shop: Shop
) -> None:
    async with open_for_business(shop):
        await shop.create()
        await shop.create(numbered_reference(2), scenario="phone")
    again = Shop(shop.path, engine=shop.engine)
    async with open_for_business(again):
        await trio.sleep(1)
        assert again.stage() is Stage.SUCCEEDED
        assert [each.reference for each in again.sandbox.prompts()] == [numbered_reference(2)]
    assert shop.entries().count(SandboxSubmission) == 2


@pytest.mark.spec("S2")
async def test_the_virtual_phone_decides_at_once(autojump_clock: MockClock, shop: Shop) -> None:
    async with open_for_business(shop):
        await shop.create(numbered_reference(1), scenario="phone")
        await shop.create(numbered_reference(2), scenario="phone")
        await trio.sleep(60)
        assert shop.sandbox.approve(numbered_reference(1))
        assert shop.sandbox.decline(numbered_reference(2))
        assert not shop.sandbox.decline(numbered_reference(2))
        await shop.sandbox.wait_idle(shop.now())
        assert shop.stage(numbered_reference(1)) is Stage.SUCCEEDED
        refused = shop.engine.transaction(numbered_reference(2)).progress
        assert refused.error_code is ErrorCode.USER_CANCELLED


@pytest.mark.spec("S2")
async def test_when_the_clock_is_moved_what_is_due_is_told_before_wait_idle_returns(
    autojump_clock: MockClock, shop: Shop
) -> None:
    async with open_for_business(shop):
        await shop.create(scenario="slow")
        due = shop.sandbox.next_due()
        assert due is not None
        before = trio.current_time()
        shop.advanced = Span(due - shop.now())
        await shop.sandbox.wait_idle(shop.now())
        assert shop.stage() is Stage.SUCCEEDED
        assert shop.sandbox.next_due() is None
        assert trio.current_time() == before


@pytest.mark.spec("S6")
async def test_no_answer_leaves_that_is_not_in_the_book(
    autojump_clock: MockClock, shop: Shop
) -> None:
    async with open_for_business(shop):
        shop.sandbox.journal.close()
        with pytest.raises(ExchangeFailed) as failure:
            await shop.sandbox.exchange(HttpRequest("POST", PAYMENTS, (), a_submission()))
        assert failure.value.may_have_arrived
        shop.sandbox.journal = OperatorJournal(shop.path)  # So that the end finds an open one.


def a_submission() -> bytes:
    return (
        b'{"reference":"R","type":"payin","amount":{"value":"1.00","currency":"KES"},'
        b'"msisdn":"254700000200","expiresAtUs":%d,"scenario":"success"}' % (10**6 * clock.SECOND)
    )

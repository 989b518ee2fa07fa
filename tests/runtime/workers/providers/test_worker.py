"""The provider worker: what is on record is sent, once, in time; and what was learnt isn't lost."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from attrs import Factory, define
from trio.testing import MockClock, wait_all_tasks_blocked

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderNeverReceived,
    ProviderSucceeded,
    ProviderUnreachable,
    UnmatchedNotified,
)
from mmo_sansio.messages.intents import PollProvider, SubmitToProvider
from mmo_sansio.payments.rules.timers import SUBMISSION_TIMEOUT
from mmo_sansio.providers.common.interface import Conversation, ExchangeFailed, SignIn
from mmo_sansio.providers.common.operations import (
    PAYIN_RESUBMISSION_PERIOD,
    PAYOUT_RESUBMISSION_PERIOD,
    OperationKey,
    ProviderOperation,
)
from mmo_sansio.testing import (
    REFERENCE,
    a_brand,
    a_create_payment,
    a_method,
    a_resolution,
    a_wake,
    numbered_reference,
)
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation as Asked
from mmo_sansio.values.model import Source, Stage, Transaction
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, WorkItem
from mmo_trio.workers.providers.conversation import CONVERSATION_TIMEOUT_S, SendRequest
from mmo_trio.workers.providers.worker import SUBMISSION_RETRY_DELAY_MAX_S, ProviderWorker
from tests.support.engine_double import EngineDouble, now


@define
class PlainProvider:
    """One request for each conversation; its answer's status is its result."""

    name: str = "test"
    title: str = "Test Money"
    is_broken: bool = False
    operations: Mapping[OperationKey, ProviderOperation] = Factory(dict)

    def scope_of(self, request: HttpRequest) -> None:
        return None

    def sign_in(self, scope: str, *, now: Instant) -> SignIn:
        raise AssertionError(scope)

    def rejects_token(self, response: HttpResponse) -> bool:
        return response.status == 401

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        return HttpResponse(200)

    def submit(self, transaction: Transaction, *, now: Instant) -> Conversation:
        if self.is_broken:
            raise ZeroDivisionError
        return (yield from self._talk("POST", transaction))

    def poll(self, transaction: Transaction, *, now: Instant) -> Conversation:
        return (yield from self._talk("GET", transaction))

    def read_notification(self, request: HttpRequest) -> UnmatchedNotified:
        return UnmatchedNotified(self.name, "")

    def _talk(self, method: str, transaction: Transaction) -> Conversation:
        subject = transaction.reference
        try:
            answer = yield HttpRequest(method, subject.encode())
        except ExchangeFailed as failure:
            if failure.may_have_arrived:
                return ProviderUnreachable(subject, self.name, failure.reason)
            return ProviderNeverReceived(subject, self.name, transaction.progress.version)
        match answer.status:
            case 200:
                return ProviderSucceeded(subject, self.name, Source.POLL)
            case 202:
                return ProviderAccepted(subject, self.name, Source.POLL)
            case _:
                return ProviderNeverReceived(subject, self.name, transaction.progress.version)


async def succeeds(request: HttpRequest) -> HttpResponse:
    await trio.sleep(1)
    return HttpResponse(200)


async def hangs(request: HttpRequest) -> HttpResponse:
    await trio.sleep_forever()
    raise AssertionError("unreachable")


async def is_refused(request: HttpRequest) -> HttpResponse:
    await trio.lowlevel.checkpoint()
    raise ExchangeFailed("connection refused", may_have_arrived=False)


@define
class Bench:
    """A worker between an engine and a provider, and what it has sent."""

    engine: EngineDouble = Factory(EngineDouble)
    answers: list[SendRequest] = Factory(lambda: [succeeds])
    """One for each request; the last one for ever."""
    provider: PlainProvider = Factory(PlainProvider)
    sent: list[tuple[float, str]] = Factory(list)
    """When each request left, and its method."""
    stages: list[Stage] = Factory(list)
    """Where the payment stood when each request left."""
    drain: trio.Event = Factory(trio.Event)
    conversations_max: int = 256
    waiting_max: int = 10_000
    worker: ProviderWorker = Factory(
        lambda self: ProviderWorker(
            self.engine.submit,
            {"test": self.provider, "slow": PlainProvider("slow")},
            lambda name: hangs if name == "slow" else self.exchange,
            now,
            self.conversations_max,
            self.waiting_max,
        ),
        takes_self=True,
    )

    async def exchange(self, request: HttpRequest) -> HttpResponse:
        self.sent.append((trio.current_time(), request.method))
        self.stages.append(self.engine.transaction(request.target.decode()).progress.stage)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)

    async def create(
        self,
        number: int | None = None,
        *,
        provider: str = "test",
        operation: Asked = Asked.DIRECT_PAYIN,
    ) -> WorkItem:
        subject = REFERENCE if number is None else numbered_reference(number)
        brand = a_brand(methods=(a_method(provider=provider),))
        created = a_create_payment(
            subject, brand=brand, merchant_reference=subject, operation=operation
        )
        await self.engine.submit(created)
        return self.engine.work(SubmitToProvider(subject))

    def worker_takes(self, work: WorkItem) -> None:
        if isinstance(work.intent, SubmitToProvider | PollProvider):
            self.worker.try_enqueue(work)

    @property
    def stage(self) -> Stage:
        return self.engine.transaction().progress.stage

    @property
    def methods(self) -> list[str]:
        return [method for _, method in self.sent]


@asynccontextmanager
async def at_work(bench: Bench) -> AsyncIterator[Bench]:
    with trio.fail_after(7 * 86_400):
        async with trio.open_nursery() as nursery:
            bench.engine.dispatch = bench.worker_takes
            await nursery.start(partial(bench.worker.run, drain=bench.drain, grace_s=5))
            yield bench
            nursery.cancel_scope.cancel()


@pytest.mark.spec("S6")
async def test_a_request_leaves_only_after_it_is_on_record(autojump_clock: MockClock) -> None:
    async with at_work(Bench()) as bench:
        await bench.create()
        await bench.worker.wait_idle()
        assert (bench.stages, bench.stage) == ([Stage.SUBMITTING], Stage.SUCCEEDED)


@pytest.mark.spec("S6")
async def test_a_submission_that_was_handed_over_twice_is_sent_once(
    autojump_clock: MockClock,
) -> None:
    async with at_work(Bench()) as bench:
        work = await bench.create()
        assert bench.worker.try_enqueue(work)
        await bench.worker.wait_idle()
        bench.worker.try_enqueue(work)
        await bench.worker.wait_idle()
        assert bench.methods == ["POST"]
        assert bench.worker.statistics().submissions == 1


@pytest.mark.spec("S6")
async def test_a_payment_that_has_ended_is_not_sent(autojump_clock: MockClock) -> None:
    bench = Bench()
    work = await bench.create()
    async with at_work(bench):
        await bench.engine.submit(a_resolution(error_code="user_cancelled"))
        bench.worker.try_enqueue(work)
        await bench.worker.wait_idle()
        assert bench.sent == []


@pytest.mark.spec("S6")
async def test_it_is_not_asked_about_while_it_is_being_submitted(autojump_clock: MockClock) -> None:
    async with at_work(Bench()) as bench:
        await bench.create()
        await trio.sleep(0.5)
        bench.worker.try_enqueue(bench.engine.work(PollProvider(REFERENCE)))
        await bench.worker.wait_idle()
        assert bench.methods == ["POST"]


@pytest.mark.spec("S6")
async def test_without_an_answer_in_time_it_is_asked_about_and_not_sent_again(
    autojump_clock: MockClock,
) -> None:
    async with at_work(Bench(answers=[hangs, succeeds])) as bench:
        await bench.create()
        await bench.worker.wait_idle()
        assert (trio.current_time(), bench.stage) == (CONVERSATION_TIMEOUT_S, Stage.SUBMITTING)
        await trio.sleep(2)
        await bench.engine.submit(a_wake())
        await bench.worker.wait_idle()
        assert (bench.methods, bench.stage) == (["POST", "GET"], Stage.SUCCEEDED)
        assert bench.worker.statistics().unreachable == 1


@pytest.mark.spec("S6", "E1")
@pytest.mark.parametrize(
    ("operation", "until"),
    [
        (Asked.DIRECT_PAYIN, PAYIN_RESUBMISSION_PERIOD),
        (Asked.DIRECT_PAYOUT, PAYOUT_RESUBMISSION_PERIOD),
    ],
)
async def test_what_never_leaves_is_submitted_again_for_so_long_and_then_fails(
    autojump_clock: MockClock, operation: Asked, until: Span
) -> None:
    async with at_work(Bench(answers=[is_refused])) as bench:
        await bench.create(operation=operation)
        await trio.sleep(until / clock.SECOND - 1)
        assert bench.stage in (Stage.CREATED, Stage.SUBMITTING)
        times = [at for at, _ in bench.sent]
        intervals = [later - sooner for sooner, later in itertools.pairwise(times)]
        assert intervals == sorted(intervals)
        assert max(intervals) <= SUBMISSION_RETRY_DELAY_MAX_S
        await trio.sleep(SUBMISSION_RETRY_DELAY_MAX_S + 2)
        assert len(bench.sent) == len(times)
        progress = bench.engine.transaction().progress
        assert (progress.stage, progress.error_code) == (
            Stage.FAILED,
            ErrorCode.PROVIDER_UNAVAILABLE,
        )


@pytest.mark.spec("S6")
async def test_a_process_that_was_stopped_does_not_send_what_is_out_of_date(
    autojump_clock: MockClock,
) -> None:
    engine = EngineDouble(delays_s=[0, CONVERSATION_TIMEOUT_S + 5])
    async with at_work(Bench(engine=engine)) as bench:
        await bench.create()
        await trio.sleep(CONVERSATION_TIMEOUT_S + 5)
        assert bench.sent == []
        await bench.worker.wait_idle()
        assert (bench.methods, bench.stage) == (["POST"], Stage.SUCCEEDED)


@pytest.mark.spec("S6", "P5")
@pytest.mark.parametrize("trouble", [StoreUnavailable, OutcomeUnknown])
async def test_a_result_is_told_until_it_is_stored(
    autojump_clock: MockClock, trouble: type[Exception]
) -> None:
    async with at_work(Bench()) as bench:
        await bench.create()
        await trio.sleep(0.5)
        bench.engine.troubles += [trouble("the disk is full") for _ in range(20)]
        await bench.worker.wait_idle()
        assert (bench.methods, bench.stage) == (["POST"], Stage.SUCCEEDED)


@pytest.mark.spec("S6", "P5")
async def test_a_submission_waits_for_a_store_that_cannot_serve(autojump_clock: MockClock) -> None:
    bench = Bench()
    work = await bench.create()
    async with at_work(bench):
        bench.engine.troubles += [StoreUnavailable("no") for _ in range(20)]
        bench.worker.try_enqueue(work)
        await bench.worker.wait_idle()
        assert (bench.methods, bench.stage) == (["POST"], Stage.SUCCEEDED)


@pytest.mark.spec("S6")
async def test_what_certainly_did_not_arrive_is_sent_again_at_growing_intervals(
    autojump_clock: MockClock,
) -> None:
    answers: list[SendRequest] = [is_refused, is_refused, is_refused, is_refused, succeeds]
    async with at_work(Bench(answers=answers)) as bench:
        await bench.create()
        await bench.worker.wait_idle()
        times = [at for at, _ in bench.sent]
        assert times == pytest.approx([0, 0.5, 1.5, 3.5, 7.5])
        assert bench.stage is Stage.SUCCEEDED


@pytest.mark.spec("S6")
async def test_what_the_provider_never_received_is_submitted_again(
    autojump_clock: MockClock,
) -> None:
    async def knows_nothing(request: HttpRequest) -> HttpResponse:
        await trio.lowlevel.checkpoint()
        return HttpResponse(404)

    async with at_work(Bench(answers=[hangs, knows_nothing, succeeds])) as bench:
        await bench.create()
        await trio.sleep(CONVERSATION_TIMEOUT_S + 2)
        await bench.engine.submit(a_wake())
        await bench.worker.wait_idle()
        assert (bench.methods, bench.stage) == (["POST", "GET", "POST"], Stage.SUCCEEDED)


async def test_a_provider_that_was_removed_leaves_its_payments_pending(
    autojump_clock: MockClock,
) -> None:
    async with at_work(Bench()) as bench:
        await bench.create(provider="gone")
        await bench.worker.wait_idle()
        assert bench.stage is Stage.CREATED


@pytest.mark.spec("S6")
async def test_a_fault_in_one_conversation_harms_no_other(autojump_clock: MockClock) -> None:
    async with at_work(Bench(provider=PlainProvider(is_broken=True))) as bench:
        await bench.create()
        await bench.worker.wait_idle()
        assert (bench.sent, bench.stage) == ([], Stage.SUBMITTING)
        bench.provider.is_broken = False
        await bench.create(2)
        await bench.worker.wait_idle()
        assert bench.engine.transaction(numbered_reference(2)).progress.stage is Stage.SUCCEEDED


async def test_a_slow_provider_delays_no_other(autojump_clock: MockClock) -> None:
    async with at_work(Bench(conversations_max=1)) as bench:
        for number in range(1, 4):
            await bench.create(number, provider="slow")
        await bench.create()
        await trio.sleep(2)
        assert bench.stage is Stage.SUCCEEDED
        statistics = bench.worker.statistics()
        assert (statistics.active, statistics.waiting) == (1, 2)


async def test_without_room_questions_are_dropped_and_submissions_given_back(
    autojump_clock: MockClock,
) -> None:
    async with at_work(Bench(conversations_max=1, waiting_max=1)) as bench:
        works = [await bench.create(number) for number in range(3)]
        assert not bench.worker.has_room()
        assert not bench.worker.try_enqueue(works[2])
        question = PollProvider(numbered_reference(2))
        assert bench.worker.try_enqueue(bench.engine.work(question))
        assert bench.worker.statistics().dropped_polls == 1
        await bench.worker.wait_idle()
        assert bench.worker.has_room()
        assert bench.worker.try_enqueue(works[2])
        await bench.worker.wait_idle()
        assert len(bench.sent) == 3


async def drained(bench: Bench) -> None:
    """Set the worker to drain, and wait for its end."""
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            bench.engine.dispatch = bench.worker_takes
            await nursery.start(partial(bench.worker.run, drain=bench.drain, grace_s=5))
            for number in range(3):
                await bench.create(number)
            await wait_all_tasks_blocked()
            bench.drain.set()


@pytest.mark.spec("S6")
async def test_draining_lets_conversations_finish_and_begins_none(
    autojump_clock: MockClock,
) -> None:
    bench = Bench(conversations_max=2, answers=[succeeds, hangs])
    await drained(bench)
    assert trio.current_time() == 5
    stages = {bench.engine.transaction(numbered_reference(n)).progress.stage for n in range(3)}
    assert stages == {Stage.SUCCEEDED, Stage.SUBMITTING, Stage.CREATED}


async def test_draining_ends_as_soon_as_conversations_have(autojump_clock: MockClock) -> None:
    bench = Bench(conversations_max=3, answers=[is_refused, succeeds])
    await drained(bench)
    assert trio.current_time() == 1
    assert len(bench.sent) == 3


def test_a_conversation_ends_before_the_law_loses_patience() -> None:
    assert CONVERSATION_TIMEOUT_S * clock.SECOND < SUBMISSION_TIMEOUT

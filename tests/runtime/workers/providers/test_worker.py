"""The provider worker sends recorded submissions once and in time, and loses no report."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest
import trio
from attrs import Factory, asdict, define, evolve
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    Input,
    ProviderAccepted,
    ProviderNeverReceived,
    ProviderSucceeded,
    ProviderUnreachable,
    UnmatchedNotified,
)
from mmo_sansio.messages.intents import IntentKind, PollEnded, PollProvider, SubmitToProvider
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.evidence import SUBMISSION_TIMEOUT
from mmo_sansio.payments.rules.timers import POLL_INTERVAL_MIN
from mmo_sansio.providers.common.interface import Conversation, ExchangeFailed, SignIn
from mmo_sansio.providers.common.operations import (
    DIRECT_PAYIN,
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
    failed,
    hinted,
    numbered_reference,
)
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Moment, Span
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation, Source, Stage, Transaction, Type
from mmo_trio.engine.engine import DecisionFailed
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, WorkItem
from mmo_trio.workers.providers import worker as worker_module
from mmo_trio.workers.providers.account import SendRequest
from mmo_trio.workers.providers.kept_hints import HintFile
from mmo_trio.workers.providers.worker import (
    CONVERSATION_TIMEOUT_S,
    ENDED_POLL_INTERVAL_S,
    ENDED_POLL_PAUSE_S,
    SUBMISSION_RETRY_DELAY_MAX_S,
    TRIES_IN_PLACE,
    ProviderWorker,
)
from tests.runtime.workers.providers.test_kept_hints import call_at_once
from tests.support.engine_double import EngineDouble, moment, now

OFFERED = ProviderOperation(
    is_idempotent=False,
    can_be_polled=True,
    not_found_is_final_after=None,
    poll_intervals=(POLL_INTERVAL_MIN,),
)
EVERYTHING: Mapping[OperationKey, ProviderOperation] = MappingProxyType(
    {(each.type, each.flow): OFFERED for each in Operation}
)


@define
class PlainProvider:
    """Sends one request in each conversation; the answer's status is the result."""

    name: str = "test"
    title: str = "Test Money"
    is_broken: bool = False
    hints: list[str | None] = Factory(list)
    """The hint of each poll about a payment that had ended."""
    known_as: list[str | None] = Factory(list)
    """The id of each such poll."""
    operations: Mapping[OperationKey, ProviderOperation] = EVERYTHING

    def scope_of(self, request: HttpRequest) -> None:
        return None

    def sign_in(self, scope: str, *, now: Moment) -> SignIn:
        raise AssertionError(scope)

    def rejects_token(self, response: HttpResponse) -> bool:
        return response.status == 401

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        return HttpResponse(200)

    def submit(self, transaction: Transaction, *, now: Moment) -> Conversation:
        if self.is_broken:
            raise ZeroDivisionError
        return (yield from self._talk("POST", transaction))

    def poll(self, transaction: Transaction, *, now: Moment) -> Conversation:
        if transaction.progress.stage.is_terminal:
            self.hints.append(transaction.progress.hint)
            self.known_as.append(transaction.progress.provider_reference)
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
            case 204:
                return ProviderUnreachable(
                    subject, self.name, "It tells by a callback.", is_answered_later=True
                )
            case _:
                return ProviderNeverReceived(subject, self.name, transaction.progress.version)


async def succeeds(request: HttpRequest) -> HttpResponse:
    await trio.sleep(1)
    return HttpResponse(200)


async def has_it(request: HttpRequest) -> HttpResponse:
    await trio.lowlevel.checkpoint()
    return HttpResponse(202)


async def hangs(request: HttpRequest) -> HttpResponse:
    await trio.sleep_forever()
    raise AssertionError("unreachable")


async def is_refused(request: HttpRequest) -> HttpResponse:
    await trio.lowlevel.checkpoint()
    raise ExchangeFailed("connection refused", may_have_arrived=False)


@define
class WorkerHarness:
    """Runs a worker between an engine and a provider and records its requests."""

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
    held: dict[tuple[str, Type], trio.Event] = Factory(dict)
    simulated: tuple[str, ...] = ()
    """The providers whose accounts are simulated now; no payment was accepted so."""
    worker: ProviderWorker = Factory(
        lambda self: ProviderWorker(
            self.engine.submit,
            {"test": self.provider, "slow": PlainProvider("slow")},
            lambda name: hangs if name == "slow" else self.exchange,
            lambda name: hangs if name == "slow" else self.exchange,
            moment,
            self.conversations_max,
            self.waiting_max,
            hold_of=lambda *key: self.held.get(key),
            simulated_providers=frozenset(self.simulated),
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
        operation: Operation = Operation.DIRECT_PAYIN,
        simulated: Sequence[str] = (),
    ) -> WorkItem:
        subject = REFERENCE if number is None else numbered_reference(number)
        brand = a_brand(methods=(a_method(provider=provider),))
        created = a_create_payment(
            subject, brand=brand, merchant_reference=subject, operation=operation
        )
        await self.engine.submit(evolve(created, simulated_providers=frozenset(simulated)))
        return self.engine.work(SubmitToProvider(subject))

    def worker_takes(self, work: WorkItem) -> None:
        if isinstance(work.intent, SubmitToProvider | PollProvider | PollEnded):
            self.worker.try_enqueue(work)

    @property
    def stage(self) -> Stage:
        return self.engine.transaction().progress.stage

    @property
    def methods(self) -> list[str]:
        return [method for _, method in self.sent]


@asynccontextmanager
async def at_work(harness: WorkerHarness) -> AsyncIterator[WorkerHarness]:
    with trio.fail_after(7 * 86_400):
        async with trio.open_nursery() as nursery:
            harness.engine.dispatch = harness.worker_takes
            await nursery.start(partial(harness.worker.run, drain=harness.drain, grace_s=5))
            yield harness
            nursery.cancel_scope.cancel()


@pytest.mark.spec("S6")
async def test_a_request_leaves_only_after_it_is_on_record(autojump_clock: MockClock) -> None:
    async with at_work(WorkerHarness()) as harness:
        await harness.create()
        await harness.worker.wait_idle()
        assert (harness.stages, harness.stage) == ([Stage.SUBMITTING], Stage.SUCCEEDED)


@pytest.mark.spec("S6")
async def test_a_submission_that_was_handed_over_twice_is_sent_once(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness()) as harness:
        work = await harness.create()
        assert harness.worker.try_enqueue(work)
        await harness.worker.wait_idle()
        harness.worker.try_enqueue(work)
        await harness.worker.wait_idle()
        assert harness.methods == ["POST"]
        assert harness.worker.counts["test"].submissions == 1


@pytest.mark.spec("S6")
async def test_a_payment_that_has_ended_is_not_sent(autojump_clock: MockClock) -> None:
    harness = WorkerHarness()
    work = await harness.create()
    async with at_work(harness):
        await harness.engine.submit(a_resolution(error_code="user_cancelled"))
        harness.worker.try_enqueue(work)
        await harness.worker.wait_idle()
        assert harness.sent == []


@pytest.mark.spec("S6", "E1")
async def test_a_payment_for_money_is_not_sent_to_an_account_that_became_a_simulation(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(simulated=("test",))) as harness:
        await harness.create()
        await harness.worker.wait_idle()
        progress = harness.engine.transaction().progress
        assert (harness.sent, progress.stage) == ([], Stage.FAILED)
        assert progress.error_code is ErrorCode.PROVIDER_UNAVAILABLE


@pytest.mark.spec("S6")
async def test_a_simulation_is_not_asked_about_a_payment_that_was_sent_for_money(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(simulated=("test",))) as harness:
        harness.engine.dispatch = lambda _: None
        await harness.create()
        await harness.engine.submit(BeginSubmission(REFERENCE))
        harness.engine.dispatch = harness.worker_takes
        await harness.engine.submit(a_wake())
        await trio.sleep(60)
        await harness.engine.submit(a_wake())
        await harness.worker.wait_idle()
        assert (harness.sent, harness.stage) == ([], Stage.SUBMITTING)
        assert harness.worker.counts["test"].reports["unreachable"] > 0


@pytest.mark.spec("S5")
async def test_what_was_sent_by_an_account_that_only_seemed_simulated_is_asked_about(
    autojump_clock: MockClock,
) -> None:
    """As one behind a proxy does, until `production` says what it is."""
    async with at_work(WorkerHarness(answers=[succeeds])) as harness:
        harness.engine.dispatch = lambda _: None
        await harness.create(simulated=("test",))
        await harness.engine.submit(BeginSubmission(REFERENCE))
        harness.engine.dispatch = harness.worker_takes
        await harness.engine.submit(a_wake())
        await trio.sleep(60)
        await harness.engine.submit(a_wake())
        await harness.worker.wait_idle()
        assert harness.stage is Stage.SUCCEEDED


@pytest.mark.parametrize("simulated", [(), ("test",)])
async def test_a_line_about_a_payment_by_which_no_money_moves_says_so(
    autojump_clock: MockClock, simulated: Sequence[str]
) -> None:
    with capture_logs() as lines:
        async with at_work(WorkerHarness(answers=[hangs], simulated=tuple(simulated))) as harness:
            await harness.create(simulated=simulated)
            await harness.worker.wait_idle()
    (line,) = (each for each in lines if each["event"] == "provider_unreachable")
    assert line.get("simulated") is (True if simulated else None)


@pytest.mark.spec("S6")
async def test_it_is_not_asked_about_while_it_is_being_submitted(autojump_clock: MockClock) -> None:
    async with at_work(WorkerHarness()) as harness:
        await harness.create()
        await trio.sleep(0.5)
        harness.worker.try_enqueue(harness.engine.work(PollProvider(REFERENCE)))
        await harness.worker.wait_idle()
        assert harness.methods == ["POST"]


@pytest.mark.spec("S6")
async def test_without_an_answer_in_time_it_is_asked_about_and_not_sent_again(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(answers=[hangs, succeeds])) as harness:
        await harness.create()
        await harness.worker.wait_idle()
        assert (trio.current_time(), harness.stage) == (CONVERSATION_TIMEOUT_S, Stage.SUBMITTING)
        await trio.sleep(2)
        await harness.engine.submit(a_wake())
        await harness.worker.wait_idle()
        assert (harness.methods, harness.stage) == (["POST", "GET"], Stage.SUCCEEDED)
        assert harness.worker.counts["test"].reports["unreachable"] == 1


async def test_a_question_that_is_answered_by_a_callback_is_no_warning(
    autojump_clock: MockClock,
) -> None:
    async def takes_question(request: HttpRequest) -> HttpResponse:
        await trio.lowlevel.checkpoint()
        return HttpResponse(204)

    with capture_logs() as logs:
        async with at_work(WorkerHarness(answers=[has_it, takes_question, hangs])) as harness:
            await harness.create()
            await harness.worker.wait_idle()
            for asked in ("in the usual way", "in vain"):
                harness.worker.try_enqueue(harness.engine.work(PollProvider(REFERENCE)))
                await harness.worker.wait_idle()
                warned = [log for log in logs if log["event"] == "provider_unreachable"]
                assert len(warned) == (asked == "in vain")


@pytest.mark.spec("S6", "E1")
@pytest.mark.parametrize(
    ("operation", "until"),
    [
        (Operation.DIRECT_PAYIN, PAYIN_RESUBMISSION_PERIOD),
        (Operation.DIRECT_PAYOUT, PAYOUT_RESUBMISSION_PERIOD),
    ],
)
async def test_what_never_leaves_is_submitted_again_for_so_long_and_then_fails(
    autojump_clock: MockClock, operation: Operation, until: Span
) -> None:
    async with at_work(WorkerHarness(answers=[is_refused])) as harness:
        await harness.create(operation=operation)
        await trio.sleep(until / clock.SECOND - 1)
        assert harness.stage in (Stage.CREATED, Stage.SUBMITTING)
        times = [at for at, _ in harness.sent]
        intervals = [later - sooner for sooner, later in itertools.pairwise(times)]
        assert intervals == sorted(intervals)
        assert max(intervals) <= SUBMISSION_RETRY_DELAY_MAX_S
        await trio.sleep(SUBMISSION_RETRY_DELAY_MAX_S + 2)
        assert len(harness.sent) == len(times)
        progress = harness.engine.transaction().progress
        assert (progress.stage, progress.error_code) == (
            Stage.FAILED,
            ErrorCode.PROVIDER_UNAVAILABLE,
        )


@pytest.mark.spec("S6")
async def test_a_process_that_was_stopped_does_not_send_what_is_out_of_date(
    autojump_clock: MockClock,
) -> None:
    engine = EngineDouble(delays_s=[0, CONVERSATION_TIMEOUT_S + 5])
    async with at_work(WorkerHarness(engine=engine)) as harness:
        await harness.create()
        await trio.sleep(CONVERSATION_TIMEOUT_S + 5)
        assert harness.sent == []
        await harness.worker.wait_idle()
        assert (harness.methods, harness.stage) == (["POST"], Stage.SUCCEEDED)


@pytest.mark.spec("S6", "P5")
@pytest.mark.parametrize("trouble", [StoreUnavailable, OutcomeUnknown])
async def test_a_result_is_told_until_it_is_stored(
    autojump_clock: MockClock, trouble: type[Exception]
) -> None:
    async with at_work(WorkerHarness()) as harness:
        await harness.create()
        await trio.sleep(0.5)
        harness.engine.errors += [trouble("the disk is full") for _ in range(20)]
        await harness.worker.wait_idle()
        assert (harness.methods, harness.stage) == (["POST"], Stage.SUCCEEDED)


@pytest.mark.spec("P5")
async def test_a_hint_is_kept_until_the_store_has_it_as_long_as_there_is_room(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "KEPT_HINTS_MAX", 1)
    async with at_work(WorkerHarness()) as harness:
        harness.engine.errors = [StoreUnavailable("away")] * 3
        assert await harness.worker.try_keep(hinted())
        assert not await harness.worker.try_keep(hinted())
        await trio.sleep(60)
        assert (harness.engine.errors, harness.worker.kept_hints) == ([], 0)
        assert [each.reason for each in harness.engine.gateway.suspense] == ["unknown_transaction"]
        harness.drain.set()
        await trio.sleep(1)
        assert not await harness.worker.try_keep(hinted())


@pytest.mark.spec("P5")
async def test_a_kept_hint_is_recorded_by_the_next_process_when_this_one_stops_before(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    file, at_the_end = tmp_path / "gateway.db.hints", hinted("01K5TESTTESTTESTTESTTEST09")
    async with at_work(WorkerHarness()) as harness:
        harness.worker.hint_file = HintFile(file, call_at_once)
        harness.engine.errors = [StoreUnavailable("away")] * 100
        assert await harness.worker.try_keep(hinted())
        harness.drain.set()
        await trio.sleep(10)
        assert await harness.worker.try_keep(at_the_end)
        assert harness.engine.gateway.suspense == []
    following = WorkerHarness()
    following.worker.hint_file = HintFile(file, call_at_once)
    async with at_work(following) as harness:
        await trio.sleep(10)
        assert sorted(each.gateway_reference or "" for each in harness.engine.gateway.suspense) == [
            REFERENCE,
            at_the_end.gateway_reference,
        ]
        assert not file.exists()


@pytest.mark.spec("P5")
async def test_a_hint_that_the_store_has_leaves_nothing_on_disk_where_no_file_was_before(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    file = tmp_path / "gateway.db.hints"
    harness = WorkerHarness()
    harness.worker.hint_file = HintFile(file, call_at_once)
    async with at_work(harness):
        harness.engine.errors = [StoreUnavailable("away")] * 3
        assert await harness.worker.try_keep(hinted())
        assert file.exists()
        await trio.sleep(60)
        assert not file.exists()


@pytest.mark.spec("S6", "P5")
async def test_a_submission_waits_for_a_store_that_cannot_serve(autojump_clock: MockClock) -> None:
    harness = WorkerHarness()
    work = await harness.create()
    async with at_work(harness):
        harness.engine.errors += [StoreUnavailable("no") for _ in range(20)]
        harness.worker.try_enqueue(work)
        await harness.worker.wait_idle()
        assert (harness.methods, harness.stage) == (["POST"], Stage.SUCCEEDED)


@pytest.mark.spec("S6")
async def test_what_certainly_did_not_arrive_is_sent_again_at_growing_intervals(
    autojump_clock: MockClock,
) -> None:
    answers: list[SendRequest] = [is_refused, is_refused, is_refused, is_refused, succeeds]
    async with at_work(WorkerHarness(answers=answers)) as harness:
        await harness.create()
        await harness.worker.wait_idle()
        times = [at for at, _ in harness.sent]
        assert times == pytest.approx([0, 0.5, 1.5, 3.5, 7.5])
        assert harness.stage is Stage.SUCCEEDED


@pytest.mark.spec("S6")
async def test_what_the_provider_never_received_is_submitted_again(
    autojump_clock: MockClock,
) -> None:
    async def knows_nothing(request: HttpRequest) -> HttpResponse:
        await trio.lowlevel.checkpoint()
        return HttpResponse(404)

    async with at_work(WorkerHarness(answers=[hangs, knows_nothing, succeeds])) as harness:
        await harness.create()
        await trio.sleep(CONVERSATION_TIMEOUT_S + 2)
        await harness.engine.submit(a_wake())
        await harness.worker.wait_idle()
        assert (harness.methods, harness.stage) == (["POST", "GET", "POST"], Stage.SUCCEEDED)


@pytest.mark.spec("S6")
async def test_a_payment_that_another_process_has_submitted_again_is_polled_at_once(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(answers=[is_refused, succeeds])) as harness:
        await harness.create()
        await wait_all_tasks_blocked()
        await harness.engine.submit(BeginSubmission(REFERENCE))
        harness.worker_takes(harness.engine.work(PollProvider(REFERENCE)))
        await wait_all_tasks_blocked()
        assert harness.methods == ["POST", "GET"]
        await harness.worker.wait_idle()
        await trio.sleep(SUBMISSION_RETRY_DELAY_MAX_S)
        assert (harness.methods, harness.stage) == (["POST", "GET"], Stage.SUCCEEDED)


async def test_hints_about_a_payment_that_has_ended_cause_one_poll_in_two_seconds(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(answers=[succeeds])) as harness:
        await harness.create()
        await harness.worker.wait_idle()
        assert harness.stage is Stage.SUCCEEDED
        began, harness.sent = trio.current_time(), []
        for number in range(40):
            harness.worker_takes(harness.engine.work(PollEnded(REFERENCE, now(), f"hint {number}")))
            await trio.sleep(0.1)
        await trio.sleep(60)
        assert [round(at - began, 3) for at, _ in harness.sent] == [0, 2, 4]
        assert harness.provider.hints == ["hint 0", "hint 19", "hint 39"]


async def test_a_payment_that_has_ended_is_polled_by_the_id_that_came_too_late(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(answers=[succeeds, has_it])) as harness:
        await harness.create()
        await harness.worker.wait_idle()
        harness.worker_takes(
            harness.engine.work(PollEnded(REFERENCE, now(), provider_reference="ws_CO_1"))
        )
        await trio.sleep(60)
        assert (harness.methods, harness.provider.known_as) == (["POST", "GET"], ["ws_CO_1"])


@pytest.mark.spec("S3", "S5")
async def test_payments_that_have_ended_are_polled_one_at_a_time_and_hold_back_no_other(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(waiting_max=5)) as harness:
        ended = [numbered_reference(number) for number in range(8)]
        for number in range(len(ended)):
            await harness.create(number)
            await harness.worker.wait_idle()
        harness.answers, harness.sent, began = [has_it], [], trio.current_time()
        for reference in ended:
            harness.worker_takes(harness.engine.work(PollEnded(reference, now())))
        assert harness.worker.waiting == 5
        await harness.create(len(ended))
        await trio.sleep(60)
        polled = [round(at - began, 3) for at, method in harness.sent if method == "GET"]
        assert polled == [pytest.approx(number * ENDED_POLL_PAUSE_S) for number in range(5)]
        assert [at - began for at, method in harness.sent if method == "POST"] == [0]


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "error",
    [OutcomeUnknown("lost"), DecisionFailed("lost")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize(
    "operation", [each for each in Operation if each is not Operation.WEB_PAYIN]
)
async def test_a_submission_whose_record_was_in_doubt_is_sent_once(
    operation: Operation, error: Exception, autojump_clock: MockClock
) -> None:
    async with at_work(WorkerHarness()) as harness:
        work = await harness.create(operation=operation)
        harness.engine.doubts = [error]
        harness.engine.inputs.clear()
        harness.worker.try_enqueue(work)
        await harness.worker.wait_idle()
        assert [name for _, name in harness.engine.inputs][:2] == [
            "BeginSubmission",
            "BeginSubmission",
        ]
        assert (harness.methods, harness.stage) == (["POST"], Stage.SUCCEEDED)
        assert harness.engine.transaction().progress.submissions == 1


@pytest.mark.spec("S6")
async def test_a_submission_in_doubt_for_too_long_is_reported_as_never_sent_and_begun_again(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness()) as harness:
        work = await harness.create()
        harness.engine.doubts = [OutcomeUnknown("lost")]
        harness.worker.try_enqueue(work)
        await trio.sleep(0.1)
        harness.engine.errors = [StoreUnavailable("away")] * 6
        await harness.worker.wait_idle()
        assert (harness.methods, harness.stage) == (["POST"], Stage.SUCCEEDED)
        assert harness.engine.transaction().progress.submissions == 2
        assert harness.sent[0][0] > CONVERSATION_TIMEOUT_S


@pytest.mark.spec("S6")
async def test_a_submission_in_doubt_is_not_sent_once_another_process_has_polled_and_submitted(
    autojump_clock: MockClock,
) -> None:
    """The other one was told that nothing had arrived, and has sent the payment itself."""
    async with at_work(WorkerHarness()) as harness:
        work = await harness.create()
        harness.engine.doubts = [OutcomeUnknown("lost")]
        harness.worker.try_enqueue(work)
        await trio.sleep(0.1)
        harness.engine.errors = [StoreUnavailable("away")] * 9
        await trio.sleep(SUBMISSION_TIMEOUT / clock.SECOND)
        gateway = harness.engine.gateway
        gateway.receive(a_wake(), now=now())
        version = harness.engine.transaction().progress.version
        gateway.receive(ProviderNeverReceived(REFERENCE, "test", version), now=now())
        gateway.receive(BeginSubmission(REFERENCE, attempt="of the other process"), now=now())
        gateway.take_intents()
        await harness.worker.wait_idle()
        assert (harness.methods, harness.stage) == ([], Stage.SUBMITTING)


@pytest.mark.spec("S3", "S5")
async def test_a_payment_that_ends_during_its_conversation_is_polled_after_it(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(answers=[hangs, succeeds])) as harness:
        harness.worker_takes(await harness.create())
        await trio.sleep(1)
        await harness.engine.submit(failed())
        harness.worker_takes(harness.engine.work(PollEnded(REFERENCE, now())))
        await trio.sleep(60)
        assert (harness.methods, harness.stage) == (["POST", "GET"], Stage.FAILED)


@pytest.mark.spec("S3", "S5")
async def test_the_poll_of_a_payment_that_has_ended_is_open_until_its_report_is_recorded(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(answers=[succeeds, hangs, succeeds])) as harness:
        await harness.create()
        await harness.worker.wait_idle()
        poll, intents = PollEnded(REFERENCE, now()), harness.engine.gateway.ledger.intents
        intents[REFERENCE, IntentKind.POLL] = poll
        harness.worker_takes(harness.engine.work(poll))
        await trio.sleep(CONVERSATION_TIMEOUT_S - 1)
        harness.worker_takes(harness.engine.work(poll))
        await trio.sleep(1.5)
        assert (REFERENCE, IntentKind.POLL) in intents, "another one has come meanwhile"
        await trio.sleep(CONVERSATION_TIMEOUT_S)
        assert (REFERENCE, IntentKind.POLL) not in intents
        assert harness.methods == ["POST", "GET", "GET"]


@pytest.mark.spec("S5")
async def test_what_another_process_was_told_about_an_ended_payment_is_asked_with_too(
    autojump_clock: MockClock,
) -> None:
    """Its row knows all hints; this process got the latest only."""
    async with at_work(WorkerHarness(answers=[has_it, succeeds])) as harness:
        await is_told_of_the_end(harness, "COMPLETED")
        intents = harness.engine.gateway.ledger.intents
        intents[REFERENCE, IntentKind.POLL] = PollEnded(REFERENCE, now(), "PAID\nCOMPLETED")
        await trio.sleep(60)
        assert harness.provider.hints == ["COMPLETED", "PAID\nCOMPLETED"]
        assert (REFERENCE, IntentKind.POLL) not in intents


async def is_away(request: HttpRequest) -> HttpResponse:
    await trio.lowlevel.checkpoint()
    raise ExchangeFailed("no answer", may_have_arrived=True)


async def is_told_of_the_end(harness: WorkerHarness, hint: str | None) -> None:
    """The payment has failed; then its provider names it."""
    await harness.create()
    await harness.worker.wait_idle()
    await harness.engine.submit(a_resolution(error_code="user_cancelled"))
    harness.sent = []
    poll = PollEnded(REFERENCE, now(), hint)
    harness.engine.gateway.ledger.intents[REFERENCE, IntentKind.POLL] = poll
    harness.worker_takes(harness.engine.work(poll))


@pytest.mark.spec("S3", "S5")
@pytest.mark.parametrize(
    ("hint", "has_no_result"),
    [(None, is_away), ("COMPLETED", is_away), ("COMPLETED", has_it), ("COMPLETED", is_refused)],
)
async def test_the_poll_of_a_payment_that_has_ended_is_repeated_until_the_provider_answers_it(
    autojump_clock: MockClock, hint: str | None, has_no_result: SendRequest
) -> None:
    answers = [has_it, *[has_no_result] * 9, succeeds]
    async with at_work(WorkerHarness(answers=answers)) as harness:
        await is_told_of_the_end(harness, hint)
        await trio.sleep(86_400)
        intervals = [later - sooner for (sooner, _), (later, _) in itertools.pairwise(harness.sent)]
        assert [round(each) for each in intervals[:8]] == [
            *(30, 60, 120, 240, 480, 960, 1920, 3600)
        ]
        assert len(harness.sent) == 10
        assert set(harness.provider.hints) == {hint}
        [entry] = harness.engine.gateway.suspense
        assert entry.reason is SuspenseReason.CONFLICTING_RESULT
        assert (REFERENCE, IntentKind.POLL) not in harness.engine.gateway.ledger.intents


@pytest.mark.spec("S3", "S5")
async def test_a_payment_that_has_ended_and_is_never_answered_for_is_left_to_staff_with_its_hints(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(answers=[has_it, is_away])) as harness:
        await is_told_of_the_end(harness, "PROCESSING")
        await trio.sleep(3600)
        harness.worker_takes(harness.engine.work(PollEnded(REFERENCE, now(), "COMPLETED")))
        await trio.sleep(2 * 86_400)
        assert harness.engine.gateway.suspense == []
        await trio.sleep(86_400)
        [entry] = harness.engine.gateway.suspense
        assert entry.reason is SuspenseReason.UNANSWERED_QUESTION
        assert json.loads(entry.content)["told"] == "PROCESSING\nCOMPLETED"
        assert (REFERENCE, IntentKind.POLL) not in harness.engine.gateway.ledger.intents
        asked = len(harness.sent)
        await trio.sleep(86_400)
        assert len(harness.sent) == asked


@pytest.mark.spec("S3", "S5")
async def test_a_question_without_an_answer_is_open_for_the_next_process(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(answers=[has_it, is_away])) as harness:
        await is_told_of_the_end(harness, "COMPLETED")
        await trio.sleep(100)
        harness.drain.set()
        await trio.sleep(4 * 86_400)
        assert (REFERENCE, IntentKind.POLL) in harness.engine.gateway.ledger.intents
        assert harness.engine.gateway.suspense == []


@pytest.mark.spec("S6")
async def test_an_input_that_cannot_be_decided_is_repeated_and_holds_up_no_other(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(conversations_max=1)) as harness:
        submit = harness.engine.submit

        async def is_poisoned(input_: Input) -> Reply:
            if (
                isinstance(input_, BeginSubmission)
                and input_.gateway_reference == REFERENCE
                and trio.current_time() < 60
            ):
                raise DecisionFailed("the store failed")
            return await submit(input_)

        harness.worker.submit = is_poisoned
        await harness.create()
        await harness.create(2)
        await trio.sleep(50)
        assert harness.engine.transaction(numbered_reference(2)).progress.stage is Stage.SUCCEEDED
        assert harness.stage is Stage.CREATED
        await trio.sleep(100)
        assert harness.engine.transaction().progress.stage is Stage.SUCCEEDED
        assert len(harness.sent) == 2


@pytest.mark.spec("S6")
async def test_a_report_that_cannot_be_decided_is_kept_while_its_payment_is_polled(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(answers=[has_it, succeeds])) as harness:
        submit, tries = harness.engine.submit, list[float]()

        async def is_poisoned(input_: Input) -> Reply:
            if isinstance(input_, ProviderAccepted) and trio.current_time() < 9e3:
                tries.append(trio.current_time())
                raise DecisionFailed("the store failed")
            return await submit(input_)

        harness.worker.submit = is_poisoned
        await harness.create()
        await harness.worker.wait_idle()
        assert len(tries) >= TRIES_IN_PLACE
        await trio.sleep(SUBMISSION_TIMEOUT / clock.SECOND)
        await harness.engine.submit(a_wake())
        await harness.worker.wait_idle()
        assert (harness.methods, harness.stage) == (["POST", "GET"], Stage.SUCCEEDED)
        await trio.sleep(10_000)
        assert harness.engine.inputs[-1][1] == "ProviderAccepted", (
            "it was repeated until it was decided"
        )


async def test_nothing_is_remembered_of_a_payment_that_ended_between_two_submissions(
    autojump_clock: MockClock,
) -> None:
    async def keeps_nothing(request: HttpRequest) -> HttpResponse:
        await harness.engine.submit(a_resolution(error_code=ErrorCode.USER_CANCELLED))
        return await is_refused(request)

    async with at_work(WorkerHarness(answers=[keeps_nothing])) as harness:
        await harness.create()
        await harness.worker.wait_idle()
        kept = asdict(harness.worker, recurse=False)
        assert REFERENCE not in repr(
            {name: kept[name] for name in kept if isinstance(kept[name], dict)}
        )


async def test_a_provider_that_was_removed_leaves_its_payments_pending(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness()) as harness:
        await harness.create(provider="gone")
        await harness.worker.wait_idle()
        assert harness.stage is Stage.CREATED


@pytest.mark.spec("S6")
async def test_a_fault_in_one_conversation_harms_no_other(autojump_clock: MockClock) -> None:
    async with at_work(WorkerHarness(provider=PlainProvider(is_broken=True))) as harness:
        await harness.create()
        await harness.worker.wait_idle()
        assert (harness.sent, harness.stage) == ([], Stage.SUBMITTING)
        harness.provider.is_broken = False
        await harness.create(2)
        await harness.worker.wait_idle()
        assert harness.engine.transaction(numbered_reference(2)).progress.stage is Stage.SUCCEEDED


async def test_a_slow_provider_delays_no_other(autojump_clock: MockClock) -> None:
    async with at_work(WorkerHarness(conversations_max=1)) as harness:
        for number in range(1, 4):
            await harness.create(number, provider="slow")
        await harness.create()
        await trio.sleep(2)
        assert harness.stage is Stage.SUCCEEDED
        assert (harness.worker.active, harness.worker.waiting) == (1, 2)


async def test_without_room_questions_are_dropped_and_submissions_given_back(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(conversations_max=1, waiting_max=1)) as harness:
        works = [await harness.create(number) for number in range(3)]
        assert not harness.worker.try_enqueue(works[2])
        question = PollProvider(numbered_reference(2))
        assert harness.worker.try_enqueue(harness.engine.work(question))
        assert harness.worker.dropped_polls == 1
        await harness.worker.wait_idle()
        assert harness.worker.try_enqueue(works[2])
        await harness.worker.wait_idle()
        assert len(harness.sent) == 3


async def drained(harness: WorkerHarness) -> None:
    """Set the worker to drain, and wait for its end."""
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            harness.engine.dispatch = harness.worker_takes
            await nursery.start(partial(harness.worker.run, drain=harness.drain, grace_s=5))
            for number in range(3):
                await harness.create(number)
            await wait_all_tasks_blocked()
            harness.drain.set()


@pytest.mark.spec("S6")
async def test_draining_lets_conversations_finish_and_begins_none(
    autojump_clock: MockClock,
) -> None:
    harness = WorkerHarness(conversations_max=2, answers=[succeeds, hangs])
    await drained(harness)
    assert trio.current_time() == 5
    stages = {harness.engine.transaction(numbered_reference(n)).progress.stage for n in range(3)}
    assert stages == {Stage.SUCCEEDED, Stage.SUBMITTING, Stage.CREATED}


async def test_draining_ends_as_soon_as_conversations_have(autojump_clock: MockClock) -> None:
    harness = WorkerHarness(conversations_max=3, answers=[is_refused, succeeds])
    await drained(harness)
    assert trio.current_time() == 1
    assert len(harness.sent) == 3


def test_an_ended_payment_is_polled_no_more_often_than_a_pending_one() -> None:
    assert POLL_INTERVAL_MIN == ENDED_POLL_INTERVAL_S * clock.SECOND


def test_a_conversation_ends_before_the_law_loses_patience() -> None:
    assert CONVERSATION_TIMEOUT_S * clock.SECOND < SUBMISSION_TIMEOUT


PAYINS = ("test", Type.PAYIN)


@pytest.mark.spec("S6")
async def test_what_the_provider_can_not_process_waits_unrecorded_and_is_sent_at_once_when_it_can(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(held={PAYINS: trio.Event()})) as harness:
        work = await harness.create()
        assert not harness.worker.try_reserve(
            "other", "test", (Type.PAYIN, work.transaction.order.flow)
        )
        await trio.sleep(290)
        assert (harness.sent, harness.stage) == ([], Stage.CREATED)
        await harness.worker.wait_idle()
        harness.held.pop(PAYINS).set()
        released_at = trio.current_time()
        await harness.worker.wait_idle()
        assert (harness.sent, harness.stage) == ([(released_at, "POST")], Stage.SUCCEEDED)


@pytest.mark.spec("S6")
async def test_only_that_type_of_payment_and_no_poll_waits(autojump_clock: MockClock) -> None:
    async with at_work(WorkerHarness(held={PAYINS: trio.Event()}, answers=[has_it])) as harness:
        await harness.create(1, operation=Operation.DIRECT_PAYOUT)
        await trio.sleep(1)
        assert harness.methods == ["POST"]
        harness.held[PAYINS[0], Type.PAYOUT] = trio.Event()
        harness.worker.try_enqueue(harness.engine.work(PollProvider(numbered_reference(1))))
        await trio.sleep(1)
        assert harness.methods == ["POST", "GET"]


@pytest.mark.spec("S6")
async def test_a_hold_that_begins_while_a_payment_waits_for_a_conversation_holds_it(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(conversations_max=1)) as harness:
        await harness.create(1)
        await harness.create(2)
        await trio.sleep(0.5)
        harness.held[PAYINS] = trio.Event()
        await trio.sleep(60)
        assert len(harness.sent) == 1
        harness.held.pop(PAYINS).set()
        await trio.sleep(2)
        assert len(harness.sent) == 2


@pytest.mark.spec("S6")
async def test_one_of_many_that_are_held_is_tried_and_the_others_wait_for_it(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(held={PAYINS: trio.Event()})) as harness:
        trials = [True]

        async def begin_trial(*key: object) -> bool:
            await trio.lowlevel.checkpoint()
            assert key == PAYINS
            return trials.pop() if trials else False

        for number in range(5):
            await harness.create(number)
        await trio.sleep(1)
        harness.worker.begin_trial = begin_trial
        before, harness.held[PAYINS] = harness.held[PAYINS], trio.Event()
        before.set()
        await trio.sleep(60)
        assert harness.methods == ["POST"]
        harness.held.pop(PAYINS).set()
        await trio.sleep(1)
        assert harness.methods == ["POST"] * 5


@pytest.mark.spec("E1", "S6")
async def test_what_is_held_until_it_is_too_late_fails_and_is_not_sent(
    autojump_clock: MockClock,
) -> None:
    async with at_work(WorkerHarness(held={PAYINS: trio.Event()})) as harness:
        await harness.create()
        await trio.sleep(PAYIN_RESUBMISSION_PERIOD / clock.SECOND + 31)
        progress = harness.engine.transaction().progress
        assert (harness.sent, progress.stage) == ([], Stage.FAILED)
        assert progress.error_code is ErrorCode.PROVIDER_UNAVAILABLE


@pytest.mark.spec("E1", "S6")
async def test_what_is_held_fails_once_staff_close_the_provider(autojump_clock: MockClock) -> None:
    async with at_work(WorkerHarness(held={PAYINS: trio.Event()})) as harness:
        await harness.create()
        await trio.sleep(1)
        harness.worker.is_closed = lambda _: True
        await trio.sleep(31)
        assert (harness.sent, harness.stage) == ([], Stage.FAILED)


@pytest.mark.spec("S6")
async def test_an_operation_that_the_account_does_not_offer_is_never_sent(
    autojump_clock: MockClock,
) -> None:
    provider = PlainProvider(operations={DIRECT_PAYIN: OFFERED})
    async with at_work(WorkerHarness(provider=provider)) as harness:
        harness.worker_takes(await harness.create(operation=Operation.DIRECT_PAYOUT))
        await harness.worker.wait_idle()
        transaction = harness.engine.transaction()
    assert harness.methods == []
    assert transaction.progress.stage is Stage.FAILED
    assert transaction.progress.error_code is ErrorCode.MERCHANT_MISCONFIGURED

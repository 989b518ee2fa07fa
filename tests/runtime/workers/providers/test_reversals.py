"""The worker of reversals sends each once, asks after it, and lets none hold up another (S6)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from attrs import Factory, define, evolve
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Reply, ReversalApplied
from mmo_sansio.messages.reversals import RequestReversal, ReversalFailed, ReversalWoke
from mmo_sansio.providers.common.interface import (
    ExchangeFailed,
    ReversalConversation,
    ReversalReports,
)
from mmo_sansio.providers.common.operations import DIRECT_PAYIN, OperationKey, ReversalOperation
from mmo_sansio.testing import (
    KES,
    REFERENCE,
    a_begin_submission,
    a_brand,
    a_create_payment,
    a_method,
    numbered_reference,
    succeeded,
)
from mmo_sansio.values.clock import MINUTE, Moment, Span
from mmo_sansio.values.model import Transaction
from mmo_sansio.values.reversals import Reversal, ReversalState
from mmo_trio.engine.engine import submit_once
from mmo_trio.storage.interface.store import OutcomeUnknown
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.reversals import CONVERSATIONS_MAX, ReversalWorker
from mmo_trio.workers.providers.worker import ProviderWorker
from tests.support.provider_double import ScriptedProvider
from tests.support.sqlite_store import StoreFile, TrioClock

INTERVAL = Span(3 * MINUTE)


@define
class ReversingProvider(ScriptedProvider):
    """Answers with the status of what it is sent: 202 accepted, 200 done, 404 never received."""

    can_be_polled: bool = True
    can_be_partial: bool = True

    @property
    def reversal_operations(self) -> Mapping[OperationKey, ReversalOperation]:
        return {
            DIRECT_PAYIN: ReversalOperation(
                True, self.can_be_polled, Span(0), [INTERVAL], self.can_be_partial
            )
        }

    def reverse(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment
    ) -> ReversalConversation:
        about = ReversalReports(reversal, self.name)
        try:
            answer = yield HttpRequest("POST", reversal.id.encode())
        except ExchangeFailed as failure:
            return about.unanswered(failure)
        return about.accepted("R-1") if answer.status == 202 else about.failed("No.", "E1")

    def poll_reversal(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment
    ) -> ReversalConversation:
        about = ReversalReports(reversal, self.name)
        answer = yield HttpRequest("GET", reversal.id.encode())
        return about.succeeded("R-1") if answer.status == 200 else about.never_received()


@define
class Harness:
    """A worker on a real store, and what the operator got."""

    store: Store
    provider: ReversingProvider = Factory(ReversingProvider)
    answers: dict[str, list[int | Exception]] = Factory(dict)
    """The next answers by method; without one 202 and 200."""
    sent: list[tuple[str, str]] = Factory(list)
    closed: set[str] = Factory(set)
    held: set[str] = Factory(set)
    trials: list[str] = Factory(list)
    """The providers of which one reversal is to be tried."""
    simulated: Sequence[str] = ()
    """The providers whose accounts are simulated now; no payment was accepted so."""
    doubts: int = 0
    """How many of the next commits of a worker have an unknown outcome."""
    noted: list[tuple[ReversalFailed, Reply]] = Factory(list)
    """The failures that were passed on, and what was decided about them."""
    drain: trio.Event = Factory(trio.Event)
    clock: TrioClock = Factory(TrioClock)

    async def submit(self, input_: Input) -> Reply:
        reply = await submit_once(self.store, input_, self.clock)
        if self.doubts and isinstance(input_, ReversalWoke):
            self.doubts -= 1
            raise OutcomeUnknown("the connection broke")
        return reply

    async def exchange(self, request: HttpRequest) -> HttpResponse:
        self.sent.append((request.method, request.target.decode()))
        await trio.sleep(0.1)
        answers = self.answers.get(request.method)
        answer = answers.pop(0) if answers else {"POST": 202, "GET": 200}[request.method]
        if isinstance(answer, Exception):
            raise answer
        return HttpResponse(answer)

    def worker(self) -> ReversalWorker:
        providers = ProviderWorker(
            self.submit,
            {"test": self.provider},
            lambda _: self.exchange,
            lambda _: self.exchange,
            self.clock.moment,
            is_closed=self.closed.__contains__,
            simulated_providers=frozenset(self.simulated),
        )
        return ReversalWorker(
            self.store,
            providers,
            lambda report, reply: self.noted.append((report, reply)),
            self.held.__contains__,
            self.begin_trial,
        )

    async def begin_trial(self, provider: str) -> bool:
        if provider not in self.trials:
            return False
        self.trials.remove(provider)
        return True

    async def ask(self, minor: int | None = None) -> str:
        amount = None if minor is None else KES(minor)
        asked = RequestReversal(
            REFERENCE, "acme", amount, "Paid twice.", "amina", needs_approval=False
        )
        reply = await submit_once(self.store, asked, self.clock)
        assert isinstance(reply, ReversalApplied)
        return reply.reversal.id

    async def reversals(self) -> Sequence[Reversal]:
        return await self.store.reversals(REFERENCE)

    async def states(self) -> list[ReversalState]:
        return [each.state for each in await self.reversals()]

    @property
    def posts(self) -> list[str]:
        return [target for method, target in self.sent if method == "POST"]


@asynccontextmanager
async def at_work(**members: Any) -> AsyncIterator[Harness]:
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        await store.admin.save_brands([a_brand()])
        harness = Harness(store, **members)
        for each in (a_create_payment(), a_begin_submission(), succeeded()):
            await submit_once(store, each, harness.clock)
        await nursery.start(partial(harness.worker().run, drain=harness.drain))
        yield harness
        nursery.cancel_scope.cancel()


@pytest.mark.spec("S6")
async def test_it_is_sent_once_and_asked_after_at_the_operators_pace(
    autojump_clock: MockClock,
) -> None:
    async with at_work() as harness:
        id = await harness.ask()
        await trio.sleep(5)
        assert harness.sent == [("POST", id)]
        assert await harness.states() == [ReversalState.SENT]
        await trio.sleep(INTERVAL / 1_000_000)
        assert harness.sent == [("POST", id), ("GET", id)]
        assert await harness.states() == [ReversalState.SUCCEEDED]


async def test_a_failure_is_passed_on_to_those_who_watch_the_float(
    autojump_clock: MockClock,
) -> None:
    async with at_work(answers={"POST": [400]}) as harness:
        id = await harness.ask()
        await trio.sleep(5)
        [(report, reply)] = harness.noted
        assert report.reversal == id
        assert isinstance(reply, ReversalApplied)
        assert reply.reversal.state is ReversalState.FAILED


async def test_no_simulation_moves_money_back(autojump_clock: MockClock) -> None:
    async with at_work(simulated=["test"]) as harness:
        await harness.ask()
        await trio.sleep(5)
        assert (harness.sent, await harness.states()) == ([], [ReversalState.FAILED])


@pytest.mark.spec("S6")
async def test_a_report_names_what_it_answers(autojump_clock: MockClock) -> None:
    """Also where its adapter does not."""
    async with at_work(answers={"POST": [ValueError("a fault of ours")]}) as harness:
        await harness.ask()
        await trio.sleep(5)
        [reversal] = await harness.reversals()
        assert (reversal.state, reversal.sent_version) == (ReversalState.UNKNOWN, 2)


@pytest.mark.spec("S6")
async def test_a_lost_answer_is_asked_after(autojump_clock: MockClock) -> None:
    lost = ExchangeFailed("lost", may_have_arrived=True)
    async with at_work(answers={"POST": [lost]}) as harness:
        id = await harness.ask()
        await trio.sleep(3_600)
        assert (harness.posts, await harness.states()) == ([id], [ReversalState.SUCCEEDED])


@pytest.mark.spec("S6")
async def test_what_certainly_did_not_leave_is_sent_later(autojump_clock: MockClock) -> None:
    unsent = ExchangeFailed("no connection", may_have_arrived=False)
    async with at_work(answers={"POST": [unsent, unsent]}) as harness:
        id = await harness.ask()
        await trio.sleep(3_600)
        assert (harness.posts, await harness.states()) == ([id] * 3, [ReversalState.SUCCEEDED])


@pytest.mark.spec("S6")
async def test_where_it_is_unknown_whether_it_is_on_record_as_sent_the_attempt_learns_that(
    autojump_clock: MockClock,
) -> None:
    async with at_work(doubts=3) as harness:
        id = await harness.ask()
        await trio.sleep(15)
        assert (harness.posts, await harness.states()) == ([id], [ReversalState.SENT])


@pytest.mark.spec("S6")
async def test_where_that_takes_too_long_nothing_leaves_before_it_is_certain_that_nothing_did(
    autojump_clock: MockClock,
) -> None:
    async with at_work(doubts=7, answers={"GET": [404]}) as harness:
        await harness.ask()
        await trio.sleep(3_600)
        assert len(harness.posts) == 1
        assert await harness.states() == [ReversalState.SUCCEEDED]


@pytest.mark.spec("S6")
async def test_two_processes_send_it_once(autojump_clock: MockClock) -> None:
    async with at_work() as harness, trio.open_nursery() as nursery:
        await nursery.start(partial(harness.worker().run, drain=harness.drain))
        id = await harness.ask()
        await trio.sleep(3_600)
        assert (harness.sent, await harness.states()) == (
            [("POST", id), ("GET", id)],
            [ReversalState.SUCCEEDED],
        )
        nursery.cancel_scope.cancel()


async def test_nothing_is_sent_to_a_provider_that_is_closed(autojump_clock: MockClock) -> None:
    async with at_work(closed={"test"}) as harness:
        await harness.ask()
        await trio.sleep(60)
        assert harness.sent == []
        harness.closed.clear()
        await trio.sleep(5)
        assert len(harness.sent) == 1


async def test_nothing_is_sent_while_the_provider_takes_no_reversals(
    autojump_clock: MockClock,
) -> None:
    async with at_work(held={"test"}) as harness:
        await harness.ask()
        await trio.sleep(60)
        assert harness.sent == []
        harness.held.clear()
        await trio.sleep(5)
        assert len(harness.sent) == 1


@pytest.mark.spec("S6")
async def test_one_reversal_is_tried_while_the_others_are_held(autojump_clock: MockClock) -> None:
    async with at_work(held={"test"}) as harness:
        for _ in range(3):
            await harness.ask(50)
        await trio.sleep(5)
        harness.trials.append("test")
        await trio.sleep(5)
        assert len(harness.posts) == 1
        harness.held.clear()
        await trio.sleep(5)
        assert len(harness.posts) == 3


async def test_many_that_may_not_be_sent_hold_up_none_of_another_provider(
    autojump_clock: MockClock,
) -> None:
    async with at_work(closed={"other"}) as harness:
        brand = a_brand(methods=(a_method(provider="other"),))
        for number in range(3 * CONVERSATIONS_MAX):
            paid = numbered_reference(number)
            asked = RequestReversal(
                paid, "acme", None, "Paid twice.", "amina", needs_approval=False
            )
            created = a_create_payment(paid, brand=brand, merchant_reference=paid)
            for each in (
                created,
                a_begin_submission(paid),
                evolve(succeeded(paid), provider="other"),
                asked,
            ):
                await submit_once(harness.store, each, harness.clock)
        id = await harness.ask()
        await trio.sleep(10)
        assert harness.posts == [id]


async def test_a_part_is_not_sent_to_an_operator_that_takes_none(autojump_clock: MockClock) -> None:
    async with at_work(provider=ReversingProvider(can_be_partial=False)) as harness:
        await harness.ask(100)
        await trio.sleep(5)
        (refused,) = await harness.reversals()
        assert (harness.sent, refused.state) == ([], ReversalState.FAILED)
        assert "all of a payment or nothing" in refused.remark
        await harness.ask()
        await trio.sleep(5)
        assert len(harness.sent) == 1


async def test_where_no_account_takes_reversals_it_fails_unsent(autojump_clock: MockClock) -> None:
    async with at_work(provider=ScriptedProvider()) as harness:
        await harness.ask()
        await trio.sleep(5)
        assert (harness.sent, await harness.states()) == ([], [ReversalState.FAILED])


@pytest.mark.spec("S6")
async def test_where_it_cannot_be_asked_after_it_waits_for_a_notification_or_a_person(
    autojump_clock: MockClock,
) -> None:
    lost = ExchangeFailed("lost", may_have_arrived=True)
    async with at_work(
        provider=ReversingProvider(can_be_polled=False), answers={"POST": [lost]}
    ) as harness:
        id = await harness.ask()
        await trio.sleep(3_600)
        autojump_clock.jump(23 * 3_600)
        await trio.sleep(60)
        (waiting,) = await harness.reversals()
        assert (harness.sent, waiting.state, waiting.wake_at) == (
            [("POST", id)],
            ReversalState.UNKNOWN,
            None,
        )


async def test_a_fault_of_the_adapter_is_an_unknown_outcome(autojump_clock: MockClock) -> None:
    async with at_work(answers={"POST": [TypeError("a fault")]}) as harness:
        await harness.ask()
        await trio.sleep(5)
        (waiting,) = await harness.reversals()
        assert (waiting.state, waiting.remark) == (
            ReversalState.UNKNOWN,
            "A fault of ours: TypeError.",
        )


async def test_what_is_under_way_ends_before_the_process(autojump_clock: MockClock) -> None:
    async with at_work() as harness:
        await harness.ask()
        await trio.sleep(1.05)
        harness.drain.set()
        await trio.sleep(1)
        assert await harness.states() == [ReversalState.SENT]
        (sent,) = await harness.reversals()
        assert sent.is_accepted

"""An operator that is told that its payer has come back (as bKash's *execute*), and where payers
are sent."""

from __future__ import annotations

import pytest
import trio
from attrs import Factory, define
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderAccepted, ProviderSucceeded
from mmo_sansio.messages.intents import PollEnded, PollProvider
from mmo_sansio.providers.common.interface import Conversation, ExchangeFailed
from mmo_sansio.testing import REFERENCE, a_confirmation, a_resolution, a_return, a_wake
from mmo_sansio.values.clock import DAY, SECOND, Moment
from mmo_sansio.values.model import Operation, Source, Stage, Transaction
from mmo_sansio.values.payer_actions import OpenUrl
from tests.runtime.workers.providers.test_worker import PlainProvider, WorkerHarness, at_work
from tests.support.engine_double import EngineDouble, now

EXPIRES_AFTER_S = 3 * DAY / SECOND
URL = "https://pay.example/c/1"


@define
class CommittingProvider(PlainProvider):
    """Has a page for its payers, and moves the money by a request of ours after that."""

    url: str = URL
    payer_hosts: tuple[str, ...] = ("pay.example",)
    paid: set[str] = Factory(set)

    def submit(self, transaction: Transaction, *, now: Moment) -> Conversation:
        yield HttpRequest("POST", transaction.reference.encode())
        return self._with_page(transaction)

    def poll(self, transaction: Transaction, *, now: Moment) -> Conversation:
        yield HttpRequest("GET", transaction.reference.encode())
        return self._with_page(transaction)

    def commit(self, transaction: Transaction, *, now: Moment) -> Conversation:
        try:
            yield HttpRequest("PUT", transaction.reference.encode())
        except ExchangeFailed:
            return self._with_page(transaction)
        self.paid.add(transaction.reference)
        return ProviderSucceeded(transaction.reference, self.name, Source.POLL)

    def _with_page(self, transaction: Transaction) -> ProviderAccepted:
        page = OpenUrl(self.url, needs_commit=True)
        return ProviderAccepted(transaction.reference, self.name, Source.POLL, payer_action=page)


async def answers(request: HttpRequest) -> HttpResponse:
    await trio.lowlevel.checkpoint()
    return HttpResponse(200)


async def breaks_off(request: HttpRequest) -> HttpResponse:
    await trio.lowlevel.checkpoint()
    raise ExchangeFailed("It broke off.", may_have_arrived=True)


def a_harness(**members: object) -> WorkerHarness:
    return WorkerHarness(provider=CommittingProvider(**members), answers=[answers])  # type: ignore[arg-type]


async def sent_to_its_page(harness: WorkerHarness) -> None:
    await harness.create(operation=Operation.WEB_PAYIN)
    await harness.engine.submit(a_confirmation())
    await harness.worker.wait_idle()


@pytest.mark.spec("S6", "W2")
async def test_nothing_is_committed_before_the_payer_has_returned(
    autojump_clock: MockClock,
) -> None:
    async with at_work(a_harness()) as harness:
        await sent_to_its_page(harness)
        harness.worker.try_enqueue(harness.engine.work(PollProvider(REFERENCE)))
        await harness.worker.wait_idle()
        assert harness.methods == ["POST", "GET"]

        await harness.engine.submit(a_return())
        await trio.sleep(2)
        await harness.engine.submit(a_wake())
        await harness.worker.wait_idle()
        assert harness.methods == ["POST", "GET", "PUT"]
        assert harness.stage is Stage.SUCCEEDED


@pytest.mark.spec("S6")
async def test_a_commit_without_an_answer_is_repeated_by_the_next_gateway(
    autojump_clock: MockClock,
) -> None:
    engine = EngineDouble()
    first = WorkerHarness(
        engine=engine, provider=CommittingProvider(), answers=[answers, breaks_off]
    )
    async with at_work(first) as harness:
        await sent_to_its_page(harness)
        await engine.submit(a_return())
        await harness.worker.wait_idle()
        assert harness.stage is Stage.AWAITING_RESULT

    second = WorkerHarness(engine=engine, provider=CommittingProvider(), answers=[answers])
    async with at_work(second) as harness:
        await trio.sleep(60)
        await engine.submit(a_wake())
        await harness.worker.wait_idle()
        assert harness.methods == ["PUT"]
        assert harness.stage is Stage.SUCCEEDED


@pytest.mark.spec("S3", "S6")
async def test_nothing_is_committed_at_the_expiry_or_after_the_end(
    autojump_clock: MockClock,
) -> None:
    async with at_work(a_harness()) as harness:
        await sent_to_its_page(harness)
        await trio.sleep(EXPIRES_AFTER_S - 20)
        await harness.engine.submit(a_return())
        harness.worker.try_enqueue(harness.engine.work(PollProvider(REFERENCE)))
        await harness.worker.wait_idle()
        assert harness.methods[-1] == "GET"
        await harness.engine.submit(a_resolution(error_code="user_cancelled"))
        harness.worker.try_enqueue(harness.engine.work(PollEnded(REFERENCE, now())))
        await harness.worker.wait_idle()
        assert "PUT" not in harness.methods


@pytest.mark.parametrize(
    "url", ["https://evil.example/", "http://pay.example/c/1", "javascript:alert(1)"]
)
async def test_no_payer_is_sent_to_a_host_that_the_account_does_not_name(
    autojump_clock: MockClock, url: str
) -> None:
    async with at_work(a_harness(url=url)) as harness:
        await sent_to_its_page(harness)
        assert harness.stage is Stage.AWAITING_RESULT
        assert harness.engine.transaction().progress.payer_action is None

"""The worker of claims asks each provider about unconfirmed deposits, once at each time, and loses
none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from attrs import Factory, define, evolve
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import DepositClaimWoke, Input
from mmo_sansio.messages.replies import Reply
from mmo_sansio.providers.common.interface import DepositAnswer, DepositConversation, ExchangeFailed
from mmo_sansio.testing import KES, a_brand, a_deposit, numbered_reference
from mmo_sansio.values.clock import HOUR, Instant, Moment, Span, later
from mmo_sansio.values.model import DepositAnswerOutcome, DepositClaim, DepositTrust
from mmo_trio.engine.engine import DecisionFailed
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sqlite import SqliteStore
from mmo_trio.workers.providers.deposits import QUESTIONS_MAX, RETRY_DELAY_S, DepositClaimWorker
from mmo_trio.workers.providers.worker import CONVERSATION_TIMEOUT_S
from tests.support.engine_double import EngineDouble, moment, now
from tests.support.provider_double import ScriptedProvider
from tests.support.sqlite_store import StoreFile


@define
class AskedProvider(ScriptedProvider):
    """Answers questions about deposits at once."""

    outcome: DepositAnswerOutcome = DepositAnswerOutcome.COMPLETED

    def verify_deposit(self, claim: DepositClaim, *, now: Moment) -> DepositConversation:
        answer = yield HttpRequest("GET", claim.receipt.encode())
        if answer.status != 200:
            return None
        return DepositAnswer(
            self.name, claim.receipt, self.outcome, is_ours=True, amount=claim.amount
        )


@define
class StoreOfEngine:
    """A store whose claims are those that an engine in memory has decided."""

    store: SqliteStore
    engine: EngineDouble

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def due_claims(self, now: Instant, *, limit: int) -> Sequence[DepositClaim]:
        await trio.lowlevel.checkpoint()
        claims = self.engine.gateway.ledger.claims.values()
        due = [
            (each.wake_at, nth, each) for nth, each in enumerate(claims) if each.wake_at is not None
        ]
        return [each for at, _, each in sorted(due) if at <= now][:limit]


@define
class ClaimHarness:
    """A worker between an engine in memory and a provider."""

    store: Any
    engine: EngineDouble
    provider: AskedProvider = Factory(AskedProvider)
    asked: list[tuple[float, str]] = Factory(list)
    """When each question left, and the receipt."""
    answer: HttpResponse | None = HttpResponse(200)
    """None: no answer ever comes."""
    open_questions: int = 0
    most_questions: int = 0
    drain: trio.Event = Factory(trio.Event)
    worker: DepositClaimWorker = Factory(
        lambda self: DepositClaimWorker(
            self.store, self.engine.submit, {"test": self.provider}, lambda _: self.exchange, moment
        ),
        takes_self=True,
    )

    async def exchange(self, request: HttpRequest) -> HttpResponse:
        self.asked.append((trio.current_time(), request.target.decode()))
        self.open_questions += 1
        self.most_questions = max(self.most_questions, self.open_questions)
        try:
            await trio.sleep(0.1 if self.answer else CONVERSATION_TIMEOUT_S + 1)
        finally:
            self.open_questions -= 1
        if self.answer is None:
            raise ExchangeFailed("no answer", may_have_arrived=True)
        return self.answer

    async def claim(self, receipt: str, number: int = 0) -> None:
        """Receive an unsigned notification of a deposit."""
        deposit = a_deposit(
            gateway_reference=numbered_reference(number), provider_reference=receipt
        )
        trust, account = DepositTrust.UNCONFIRMED, "600966"
        await self.engine.submit(
            evolve(deposit, amount=KES(75), trust=trust, account=account, bill_reference="acme")
        )

    @property
    def deposits(self) -> Sequence[str | None]:
        """The receipts of the deposits that were booked."""
        ledger = self.engine.gateway.ledger
        return [each.progress.provider_reference for each in ledger.transactions.values()]


@asynccontextmanager
async def at_work(**members: Any) -> AsyncIterator[ClaimHarness]:
    engine = EngineDouble()
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        await store.admin.save_brands([a_brand()])
        harness = ClaimHarness(StoreOfEngine(store, engine), engine, **members)
        await nursery.start(partial(harness.worker.run, drain=harness.drain))
        yield harness
        nursery.cancel_scope.cancel()


async def test_a_deposit_is_booked_once_its_provider_has_confirmed_it(
    autojump_clock: MockClock,
) -> None:
    async with at_work() as harness:
        await harness.claim("R1")
        await trio.sleep(0.5)
        assert harness.deposits == []
        await trio.sleep(2)
        assert harness.deposits == ["R1"]
        await trio.sleep(HOUR / 1_000_000)
        assert [receipt for _, receipt in harness.asked] == ["R1"]


@pytest.mark.parametrize("answer", [HttpResponse(500), None])
async def test_without_an_answer_the_provider_is_asked_again(
    autojump_clock: MockClock, answer: HttpResponse | None
) -> None:
    async with at_work(answer=answer) as harness:
        await harness.claim("R1")
        await trio.sleep(300)
        assert [round(at) for at, _ in harness.asked] == [1, 16, 46, 106, 226]
        harness.answer = HttpResponse(200)
        await trio.sleep(600)
        assert harness.deposits == ["R1"]


async def test_a_flood_of_forged_notifications_causes_few_questions_at_once(
    autojump_clock: MockClock,
) -> None:
    async with at_work(answer=None) as harness:
        for number in range(200):
            await harness.claim(f"R{number}", number)
        await trio.sleep(60)
        assert harness.most_questions == QUESTIONS_MAX
        assert len(harness.asked) <= 4 * QUESTIONS_MAX


async def test_many_deposits_are_confirmed_as_fast_as_the_provider_answers(
    autojump_clock: MockClock,
) -> None:
    async with at_work() as harness:
        for number in range(400):
            await harness.claim(f"R{number}", number)
        await trio.sleep(4)
        assert len(harness.deposits) == 400


async def test_a_store_that_cannot_serve_loses_no_claim(autojump_clock: MockClock) -> None:
    async with at_work() as harness:
        await harness.claim("R1")
        harness.engine.errors = [StoreUnavailable("down")] * 3
        await trio.sleep(3 * RETRY_DELAY_S + 3)
        assert harness.deposits == ["R1"]


async def test_claims_of_a_provider_that_was_removed_wait(autojump_clock: MockClock) -> None:
    async with at_work() as harness:
        deposit = a_deposit(provider="gone", trust=DepositTrust.UNCONFIRMED)
        await harness.engine.submit(deposit)
        await harness.claim("R1", 1)
        await trio.sleep(5)
        assert harness.deposits == ["R1"]
        (left,) = await harness.store.due_claims(later(now(), Span(HOUR)), limit=10)
        assert left.provider == "gone"


@pytest.mark.spec("S4")
async def test_claims_that_cannot_be_decided_hold_up_no_other(autojump_clock: MockClock) -> None:
    async with at_work() as harness:
        submit, poisoned = (
            harness.engine.submit,
            {f"P{number}" for number in range(2 * QUESTIONS_MAX)},
        )

        async def cannot_decide(input_: Input) -> Reply:
            if isinstance(input_, DepositClaimWoke) and input_.receipt in poisoned:
                raise DecisionFailed("the decision failed")
            return await submit(input_)

        harness.worker.submit = cannot_decide
        for number, receipt in enumerate(sorted(poisoned)):
            await harness.claim(receipt, number)
        await harness.claim("R1", 99)
        await trio.sleep(10)
        assert harness.deposits == ["R1"]
        poisoned.clear()
        await trio.sleep(120)
        assert len(harness.deposits) == 2 * QUESTIONS_MAX + 1


async def test_a_process_that_drains_wakes_no_claim_and_ends_with_its_questions(
    autojump_clock: MockClock,
) -> None:
    async with at_work() as harness:
        await harness.claim("R1")
        await trio.sleep(1.05)
        harness.drain.set()
        await harness.claim("R2", 1)
        await trio.sleep(60)
        assert (harness.deposits, len(harness.asked)) == (["R1"], 1)

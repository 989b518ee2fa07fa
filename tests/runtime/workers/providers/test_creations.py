"""Payments that are sent at once: their submission is on record since their creation (S6)."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from attrs import evolve
from trio.testing import MockClock

from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.messages.replies import Rejected, Reply
from mmo_sansio.providers.common.operations import ProviderOperation
from mmo_sansio.testing import REFERENCE, a_brand, a_create_payment, a_method, numbered_reference
from mmo_sansio.values import clock
from mmo_sansio.values.clock import MonotonicInstant, Span
from mmo_sansio.values.model import Operation, Stage
from mmo_trio.engine.engine import Sender
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.workers.providers.account import SendRequest
from mmo_trio.workers.providers.worker import PaymentCreator
from tests.runtime.workers.providers.test_worker import (
    PlainProvider,
    WorkerHarness,
    at_work,
    hangs,
    succeeds,
)

SENDER = Sender(MonotonicInstant(0), lambda: False)
BRAND = a_brand(methods=(a_method(provider="test"),))
POLLED = ProviderOperation(
    is_idempotent=False,
    can_be_polled=True,
    poll_intervals=(Span(clock.MINUTE),),
    not_found_is_final_after=None,
)


def a_harness(
    *answers: SendRequest, conversations_max: int = 256, can_be_polled: bool = True
) -> WorkerHarness:
    operation = evolve(POLLED, can_be_polled=can_be_polled)
    offered = {
        (each.type, each.flow): operation for each in (Operation.DIRECT_PAYIN, Operation.WEB_PAYIN)
    }
    provider = PlainProvider(operations=offered)
    return WorkerHarness(
        answers=list(answers) or [succeeds], provider=provider, conversations_max=conversations_max
    )


def creator(harness: WorkerHarness) -> PaymentCreator:
    async def submit(input_: CreatePayment, _: Sender) -> Reply:
        return await harness.engine.submit(input_)

    return PaymentCreator(submit, harness.worker)


async def create(
    harness: WorkerHarness,
    number: int | None = None,
    *,
    operation: Operation = Operation.DIRECT_PAYIN,
) -> None:
    subject = REFERENCE if number is None else numbered_reference(number)
    asked = a_create_payment(subject, brand=BRAND, merchant_reference=subject, operation=operation)
    await creator(harness).create(asked, SENDER)


def steps(harness: WorkerHarness) -> list[str]:
    return [name for _, name in harness.engine.inputs]


@pytest.mark.spec("S6")
async def test_a_payment_is_sent_after_one_commit(autojump_clock: MockClock) -> None:
    async with at_work(a_harness()) as harness:
        await create(harness)
        await harness.worker.wait_idle()
        assert (harness.methods, harness.stages, harness.stage) == (
            ["POST"],
            [Stage.SUBMITTING],
            Stage.SUCCEEDED,
        )
        assert steps(harness) == ["CreatePayment", "ProviderSucceeded"]
        assert (harness.worker.counts["test"].submissions, harness.worker.active) == (1, 0)


@pytest.mark.spec("S6")
async def test_no_more_are_sent_at_once_than_conversations_are_free(
    autojump_clock: MockClock,
) -> None:
    async with at_work(a_harness(conversations_max=2)) as harness:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(create, harness, number)
        assert harness.worker.active == 2
        await create(harness, 5)  # It may not overtake those that wait.
        await harness.worker.wait_idle()
        assert steps(harness).count("BeginSubmission") == 4
        assert sorted(harness.methods) == ["POST"] * 6
        assert sorted(time for time, _ in harness.sent) == pytest.approx(
            [0, 0, 1, 1, 2, 2], abs=0.1
        )


@pytest.mark.parametrize("rejected", [True, False])
async def test_a_conversation_that_is_not_needed_is_given_back(
    rejected: bool, autojump_clock: MockClock
) -> None:
    async with at_work(a_harness(conversations_max=1)) as harness:
        if rejected:
            await create(harness)
            await harness.worker.wait_idle()
            again = a_create_payment(
                numbered_reference(2), brand=BRAND, merchant_reference=REFERENCE
            )
            reply = await creator(harness).create(again, SENDER)
            assert isinstance(reply, Rejected)
        else:
            harness.engine.errors.append(StoreUnavailable("down"))
            with pytest.raises(StoreUnavailable):
                await create(harness)
        assert harness.worker.active == 0
        await create(harness, 3)
        assert steps(harness)[-1] == "CreatePayment"
        assert harness.worker.active == 1


@pytest.mark.spec("S6")
async def test_nothing_is_sent_at_once_that_may_not_be_sent(autojump_clock: MockClock) -> None:
    harness = a_harness()
    harness.worker.is_closed = lambda provider: True
    async with at_work(harness):
        await create(harness)
        await harness.worker.wait_idle()
        assert (harness.methods, harness.stage) == ([], Stage.FAILED)


@pytest.mark.spec("S6")
async def test_nothing_is_sent_at_once_to_a_provider_that_could_not_be_polled_about_it(
    autojump_clock: MockClock,
) -> None:
    async with at_work(a_harness(can_be_polled=False)) as harness:
        await create(harness)
        await harness.worker.wait_idle()
        assert steps(harness) == ["CreatePayment", "BeginSubmission", "ProviderSucceeded"]


@pytest.mark.spec("W1")
async def test_a_web_payment_reserves_nothing(autojump_clock: MockClock) -> None:
    async with at_work(a_harness()) as harness:
        await create(harness, operation=Operation.WEB_PAYIN)
        await harness.worker.wait_idle()
        assert (harness.methods, harness.stage) == ([], Stage.AWAITING_CUSTOMER)


@pytest.mark.spec("S6")
async def test_a_slow_commit_is_part_of_the_time_for_the_conversation(
    autojump_clock: MockClock,
) -> None:
    harness = a_harness(hangs)
    harness.engine.delays_s.append(15)
    async with at_work(harness):
        await create(harness)
        await harness.worker.wait_idle()
        assert trio.current_time() == pytest.approx(20, abs=0.1)
        assert steps(harness) == ["CreatePayment", "ProviderUnreachable"]


@pytest.mark.spec("S6", "P5")
async def test_what_may_have_become_durable_unsent_is_submitted_after_all(
    autojump_clock: MockClock,
) -> None:
    harness = a_harness()

    async def commits_without_telling(input_: CreatePayment, _: Sender) -> Reply:
        await harness.engine.submit(input_)
        raise OutcomeUnknown("the commit took too long")

    async with at_work(harness):
        asked = a_create_payment(brand=BRAND)
        with pytest.raises(OutcomeUnknown):
            await PaymentCreator(commits_without_telling, harness.worker).create(asked, SENDER)
        assert (harness.stage, harness.sent) == (Stage.SUBMITTING, [])
        await trio.testing.wait_all_tasks_blocked()
        await harness.worker.wait_idle()
        assert steps(harness) == [
            "CreatePayment",
            "ProviderNeverReceived",
            "BeginSubmission",
            "ProviderSucceeded",
        ]
        assert (harness.methods, harness.stage) == (["POST"], Stage.SUCCEEDED)


@pytest.mark.spec("S6", "P5")
async def test_what_becomes_durable_only_after_the_report_that_it_is_unsent_is_submitted_too(
    autojump_clock: MockClock,
) -> None:
    """A server may carry out a commit long after its client has given up waiting for it."""
    harness = a_harness()

    async def commits_later(input_: CreatePayment, _: Sender) -> Reply:
        async def commit() -> None:
            await trio.sleep(20)
            await harness.engine.submit(input_)

        nursery.start_soon(commit)
        raise OutcomeUnknown("the commit took too long")

    async with at_work(harness), trio.open_nursery() as nursery:
        asked = a_create_payment(brand=BRAND)
        with pytest.raises(OutcomeUnknown):
            await PaymentCreator(commits_later, harness.worker).create(asked, SENDER)
        await trio.sleep(60)
        await harness.worker.wait_idle()
        assert (harness.methods, harness.stage) == (["POST"], Stage.SUCCEEDED)


@pytest.mark.spec("S6")
async def test_a_worker_that_has_ended_sends_nothing(autojump_clock: MockClock) -> None:
    harness = a_harness()
    harness.engine.delays_s.append(10)
    async with at_work(harness), trio.open_nursery() as nursery:
        nursery.start_soon(partial(create, harness))
        await trio.sleep(1)
        harness.drain.set()
    assert (harness.methods, harness.stage) == ([], Stage.SUBMITTING)
    assert harness.engine.transaction().progress.wake_at is not None

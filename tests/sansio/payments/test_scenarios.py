"""The specification's state table, row by row, and what it says about callbacks, as stories."""

from __future__ import annotations

import pytest

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.replies import Accepted, Applied, Ignored, Rejected
from mmo_sansio.testing import (
    KES,
    REFERENCE,
    START,
    FakeProvider,
    ProviderScript,
    World,
    a_confirmation,
    a_deposit,
    a_resolution,
    accepts,
    does_not_answer,
    failed,
    fails,
    never_receives,
    numbered_reference,
    succeeded,
    succeeds,
)
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Flow, Operation, Source, Status


@pytest.mark.spec("S1", "C6", "K1")
def test_a_creation_request_makes_it_pending_and_calls_nobody() -> None:
    world = World()
    reply = world.create()
    assert isinstance(reply, Accepted)
    assert reply.order.gateway_reference == REFERENCE
    assert world.transaction().status is Status.PENDING
    world.settle()
    assert world.provider.submissions == [REFERENCE]
    assert world.transaction().status is Status.PENDING
    assert world.callbacks == []


@pytest.mark.spec("S4", "K1")
def test_an_accepted_deposit_is_a_success_and_calls_back() -> None:
    world = World()
    world.receive(a_deposit())
    world.settle()
    deposit = world.transaction()
    assert (deposit.status, deposit.order.flow) == (Status.SUCCESS, Flow.PUSH)
    assert deposit.order.merchant_reference is None
    assert world.callbacks == [deposit]


@pytest.mark.spec("S4", "K1")
def test_a_failed_deposit_makes_nothing_and_calls_nobody() -> None:
    world = World()
    world.receive(a_deposit(succeeded=False))
    world.settle()
    assert world.gateway.ledger.transactions == {}
    assert world.callbacks == []


@pytest.mark.spec("S1", "S2", "K1")
def test_a_success_sets_amount_and_time_and_calls_back() -> None:
    world = World()
    world.create()
    world.advance(MINUTE)
    world.receive(succeeded(final=KES("149.50")))
    world.settle()
    paid = world.transaction()
    assert paid.status is Status.SUCCESS
    assert paid.progress.final == KES("149.50")
    assert paid.order.requested == KES(150)
    assert paid.progress.completed_at == START + MINUTE
    assert paid.progress.completion_source is Source.WEBHOOK
    assert world.callbacks == [paid]


@pytest.mark.spec("S1", "S2", "K1", "E1")
def test_a_failure_sets_code_and_message_and_calls_back() -> None:
    world = World(FakeProvider(on_submit=(fails,)))
    world.create()
    world.run()
    refused = world.transaction()
    assert refused.status is Status.FAILED
    assert refused.progress.error_code is ErrorCode.USER_INSUFFICIENT_FUNDS
    assert refused.progress.error_message
    assert refused.progress.final is None
    assert refused.progress.completion_source is Source.POLL
    assert world.callbacks == [refused]


@pytest.mark.spec("S3", "K1")
@pytest.mark.parametrize("script", [accepts, does_not_answer], ids=["pending", "silent"])
def test_three_days_without_a_result_expire(script: ProviderScript) -> None:
    world = World(FakeProvider(on_submit=(script,), on_poll=(script,)))
    world.create()
    world.advance(Span(3 * DAY - 1))
    assert world.transaction().status is Status.PENDING
    world.advance(Span(1))
    expired = world.transaction()
    assert expired.progress.error_code is ErrorCode.TRANSACTION_EXPIRED
    assert expired.progress.completion_source is Source.EXPIRY
    assert world.callbacks == [expired]


@pytest.mark.spec("S3")
def test_nobody_submits_it_and_it_expires_all_the_same() -> None:
    world = World()
    world.create()
    world.now = later(START, Span(3 * DAY))
    world.gateway.wake(now=world.now)
    assert world.transaction().progress.error_code is ErrorCode.TRANSACTION_EXPIRED
    world.settle()
    assert world.provider.submissions == []


@pytest.mark.spec("S1", "S5")
@pytest.mark.parametrize("first", [succeeds, fails], ids=["success", "failure"])
def test_an_end_is_irreversible(first: ProviderScript) -> None:
    world = World(FakeProvider(on_submit=(first,)))
    world.create()
    world.run()
    ended = world.transaction()
    world.receive(failed(error_code=ErrorCode.PROVIDER_TIMEOUT))
    world.receive(succeeded(final=KES(1)))
    world.receive(a_resolution(error_code=ErrorCode.USER_CANCELLED))
    world.receive(a_resolution())
    world.advance(Span(9 * DAY))
    assert world.transaction() == ended
    assert len(world.callbacks) == 1
    kept = [each.reason for each in world.gateway.suspense]
    assert kept == [SuspenseReason.CONFLICTING_RESULT, SuspenseReason.CONFLICTING_RESULT]


@pytest.mark.spec("S5", "S3")
def test_a_success_after_expiry_waits_for_a_person() -> None:
    world = World()
    world.create()
    world.advance(Span(3 * DAY))
    reply = world.receive(succeeded())
    assert isinstance(reply, Ignored)
    assert world.transaction().status is Status.FAILED
    assert [each.reason for each in world.gateway.suspense] == [SuspenseReason.LATE_RESULT]


@pytest.mark.spec("S6")
def test_a_crash_before_sending_submits_once() -> None:
    world = World()
    world.create()
    world.crash()
    world.settle()
    assert world.provider.submissions == [REFERENCE]


@pytest.mark.spec("S6")
def test_a_crash_after_sending_asks_and_never_sends_again() -> None:
    world = World(FakeProvider(on_submit=(does_not_answer,), on_poll=(accepts, succeeds)))
    world.create()
    world.settle()
    world.crash()
    world.run()
    assert world.provider.submissions == [REFERENCE]
    assert len(world.provider.polls) == 2
    assert world.transaction().status is Status.SUCCESS


@pytest.mark.spec("S6")
def test_what_the_provider_never_received_is_sent_again_and_no_more() -> None:
    world = World(
        FakeProvider(on_submit=(does_not_answer, accepts), on_poll=(never_receives, succeeds))
    )
    world.create()
    world.run()
    assert world.provider.submissions == [REFERENCE, REFERENCE]
    assert world.transaction().status is Status.SUCCESS


@pytest.mark.spec("S6")
def test_a_lost_question_is_asked_again() -> None:
    world = World(FakeProvider(on_poll=(succeeds,)))
    world.create()
    world.settle()
    world.now = later(world.now, Span(2 * SECOND))
    world.gateway.wake(now=world.now)
    world.gateway.take_intents()  # The process dies with the question.
    world.run()
    assert world.transaction().status is Status.SUCCESS


@pytest.mark.spec("W1", "C4")
def test_a_confirmed_page_pays() -> None:
    world = World(FakeProvider(on_submit=(succeeds,)))
    world.create(operation=Operation.WEB_PAYIN)
    world.advance(Span(29 * MINUTE))
    assert world.provider.submissions == []
    assert isinstance(world.receive(a_confirmation()), Applied)
    assert isinstance(world.receive(a_confirmation()), Ignored)
    world.run()
    assert world.provider.submissions == [REFERENCE]
    assert world.transaction().status is Status.SUCCESS


@pytest.mark.spec("W1", "E1")
def test_an_abandoned_page_times_out() -> None:
    world = World()
    world.create(operation=Operation.WEB_PAYIN)
    world.run()
    left = world.transaction()
    assert left.progress.error_code is ErrorCode.USER_TIMEOUT
    assert left.progress.completed_at == START + 30 * MINUTE
    assert left.progress.provider_data is None
    assert world.provider.submissions == []
    assert world.callbacks == [left]


@pytest.mark.spec("C12")
def test_a_reference_is_consumed_even_if_its_payment_failed() -> None:
    world = World(FakeProvider(on_submit=(fails,)))
    world.create()
    world.run()
    assert isinstance(world.create(numbered_reference(2)), Rejected)
    world.now = later(START, Span(15 * MINUTE))
    assert isinstance(world.create(numbered_reference(2)), Accepted)


@pytest.mark.spec("K2", "K3")
@pytest.mark.parametrize("outcome", DeliveryOutcome, ids=str)
def test_a_callback_never_changes_its_payment(outcome: DeliveryOutcome) -> None:
    world = World(FakeProvider(on_submit=(succeeds,)), callback_outcome=outcome)
    world.create()
    world.run()
    world.advance(HOUR)
    assert world.callbacks == [world.transaction()]


@pytest.mark.spec("S2")
def test_an_operator_ends_what_nobody_else_does() -> None:
    world = World()
    world.create()
    world.advance(HOUR)
    world.receive(a_resolution(final=KES(150)))
    world.settle()
    ended = world.transaction()
    assert (ended.status, ended.progress.completion_source) == (Status.SUCCESS, Source.MANUAL)
    assert world.callbacks == [ended]

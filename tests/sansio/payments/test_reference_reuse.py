"""Whether a merchantReference may be used again: no two pay-outs are paid or pending under one,
whatever happens (C12)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.messages.inputs import RecordLostUse
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.testing import (
    START,
    a_begin_submission,
    a_brand,
    a_create_payment,
    a_resolution,
    a_wake,
    failed,
    numbered_reference,
    succeeded,
)
from mmo_sansio.values import clock
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation, ReferenceReuse, ReusePolicy, Status

PAYIN, PAYOUT, TAX = Operation.DIRECT_PAYIN, Operation.DIRECT_PAYOUT, Operation.DIRECT_TAXPAYOUT
UNLESS_PAID, NEVER, AFTER_WINDOW = (
    ReferenceReuse.UNLESS_PAID,
    ReferenceReuse.NEVER,
    ReferenceReuse.AFTER_WINDOW,
)
PENDING, PAID, FAILED = Status.PENDING, Status.SUCCESS, Status.FAILED


def create(
    gateway: Gateway,
    number: int,
    now: Instant,
    operation: Operation,
    reuse: ReusePolicy | None = None,
) -> bool:
    """Create a payment under the one reference; return whether it was accepted."""
    brand = a_brand() if reuse is None else a_brand(reference_reuse=reuse)
    request = a_create_payment(numbered_reference(number), brand=brand, operation=operation)
    return isinstance(gateway.receive(request, now=now), Accepted)


def bring_to(gateway: Gateway, number: int, status: Status, now: Instant) -> None:
    """Let the payment of this number come to this status."""
    about = numbered_reference(number)
    gateway.receive(a_begin_submission(about), now=now)
    if status is PAID:
        gateway.receive(succeeded(about), now=now)
    elif status is FAILED:
        gateway.receive(failed(about), now=now)


@pytest.mark.spec("C12")
@pytest.mark.parametrize("operation", [PAYIN, PAYOUT, TAX])
def test_sixteen_minutes_later_a_pending_payment_is_not_repeated(operation: Operation) -> None:
    gateway = Gateway()
    assert create(gateway, 1, START, operation)
    gateway.receive(a_begin_submission(numbered_reference(1)), now=START)
    assert not create(gateway, 2, later(START, Span(16 * MINUTE)), operation)


@pytest.mark.spec("C12")
@pytest.mark.parametrize(
    ("reuse", "earlier", "is_accepted"),
    [
        (UNLESS_PAID, PENDING, False),
        (UNLESS_PAID, PAID, False),
        (UNLESS_PAID, FAILED, True),
        (NEVER, PENDING, False),
        (NEVER, PAID, False),
        (NEVER, FAILED, False),
        (AFTER_WINDOW, PENDING, False),
        (AFTER_WINDOW, PAID, True),
        (AFTER_WINDOW, FAILED, True),
    ],
)
@pytest.mark.parametrize("operation", [PAYIN, PAYOUT, TAX])
def test_after_the_window_the_brands_policy_decides(
    operation: Operation, reuse: ReferenceReuse, earlier: Status, is_accepted: bool
) -> None:
    gateway, policy = Gateway(), ReusePolicy.same_for_all(reuse)
    assert create(gateway, 1, START, operation, policy)
    bring_to(gateway, 1, earlier, START)
    edge = later(START, Span(15 * MINUTE))
    assert not create(gateway, 2, Instant(edge - 1), operation, policy), "within the window"
    assert create(gateway, 3, edge, operation, policy) is is_accepted


@pytest.mark.spec("C12")
@pytest.mark.parametrize(
    ("operation", "is_accepted"), [(PAYIN, True), (PAYOUT, False), (TAX, False)]
)
def test_by_default_only_a_pay_in_that_failed_is_tried_again(
    operation: Operation, is_accepted: bool
) -> None:
    gateway = Gateway()
    create(gateway, 1, START, PAYIN)
    bring_to(gateway, 1, FAILED, START)
    assert create(gateway, 2, later(START, HOUR), operation) is is_accepted


@pytest.mark.spec("C12")
@pytest.mark.parametrize("older", [PAID, FAILED])
def test_an_older_payment_that_was_paid_counts_as_well(older: Status) -> None:
    """The brand had chosen after_window, and has changed its mind."""
    gateway, loose = Gateway(), ReusePolicy.same_for_all(AFTER_WINDOW)
    for number, status in ((1, older), (2, FAILED), (3, FAILED)):
        now = later(START, Span(number * HOUR))
        assert create(gateway, number, now, PAYIN, loose)
        bring_to(gateway, number, status, now)
    assert create(gateway, 4, later(START, DAY), PAYIN) is (older is FAILED)


@pytest.mark.spec("C12")
def test_the_policies_are_apart_for_each_type() -> None:
    gateway, policy = Gateway(), ReusePolicy(payin=NEVER, payout=UNLESS_PAID)
    create(gateway, 1, START, PAYOUT, policy)
    bring_to(gateway, 1, FAILED, START)
    assert not create(gateway, 2, later(START, HOUR), PAYIN, policy)
    assert not create(gateway, 3, later(START, HOUR), TAX, policy)
    assert create(gateway, 4, later(START, HOUR), PAYOUT, policy)


steps = st.lists(
    st.tuples(
        st.sampled_from(["create", "create", "begin", "succeed", "fail", "resolve", "wake"]),
        st.integers(0, 11),
        st.sampled_from([1, clock.SECOND, 15 * MINUTE - 1, 16 * MINUTE, HOUR, 4 * DAY]),
        st.sampled_from([PAYIN, PAYOUT, PAYOUT, TAX]),
    ),
    max_size=40,
)
policies = st.builds(
    ReusePolicy,
    st.sampled_from(ReferenceReuse),
    st.sampled_from([UNLESS_PAID, NEVER]),
    st.sampled_from([UNLESS_PAID, NEVER]),
)


@pytest.mark.spec("C12")
@given(steps, st.lists(policies, min_size=1, max_size=3))
def test_no_history_has_two_pay_outs_that_are_paid_or_pending_under_one_reference(
    history: Sequence[tuple[str, int, int, Operation]], chosen: Sequence[ReusePolicy]
) -> None:
    """The brand may change its policy for pay-ins at any time, even to after_window, and back."""
    gateway, now = Gateway(), START
    for position, (action, target, pause, operation) in enumerate(history):
        now = later(now, Span(pause))
        about = numbered_reference(target)
        live_before = _live(gateway)
        match action:
            case "create":
                policy = chosen[position % len(chosen)]
                is_accepted = create(gateway, position, now, operation, policy)
                assert not (is_accepted and live_before and operation is not PAYIN), (
                    "a second live payment"
                )
            case "begin":
                gateway.receive(a_begin_submission(about), now=now)
            case "succeed":
                gateway.receive(succeeded(about), now=now)
            case "fail":
                gateway.receive(failed(about), now=now)
            case "resolve":
                code = ErrorCode.PROVIDER_TIMEOUT if target % 2 else None
                gateway.receive(a_resolution(about, error_code=code), now=now)
            case _:
                gateway.receive(a_wake(about), now=now)
        assert sum(each is not PAYIN.type for each in _live(gateway)) <= 1
        assert sum(each.status is PENDING for each in gateway.ledger.transactions.values()) <= 1


def _live(gateway: Gateway) -> Sequence[object]:
    """Return the types of the payments that are pending or paid."""
    return [
        each.order.type
        for each in gateway.ledger.transactions.values()
        if each.status is not FAILED
    ]


@pytest.mark.spec("C12")
@pytest.mark.parametrize("reuse", list(ReferenceReuse))
def test_the_reference_of_a_payment_that_is_missing_is_used_for_good(reuse: ReferenceReuse) -> None:
    gateway = Gateway()
    assert create(gateway, 1, START, PAYIN)
    del gateway.ledger.transactions[numbered_reference(1)]
    assert not create(
        gateway, 2, later(START, Span(400 * DAY)), PAYIN, ReusePolicy.same_for_all(reuse)
    )


@pytest.mark.spec("C12")
@pytest.mark.parametrize("reuse", [UNLESS_PAID, NEVER, AFTER_WINDOW])
@pytest.mark.parametrize("before", [None, FAILED])
def test_a_reference_of_a_payment_that_a_restored_store_lacks_is_used_for_good(
    reuse: ReferenceReuse, before: Status | None
) -> None:
    gateway, policy = Gateway(), ReusePolicy.same_for_all(reuse)
    if before is not None:
        assert create(gateway, 1, START, PAYOUT, policy)
        bring_to(gateway, 1, before, START)
    reference = a_create_payment().draft.merchant_reference
    lost = RecordLostUse(a_brand().id, reference, numbered_reference(2), "ada")
    gateway.receive(lost, now=later(START, HOUR))
    gateway.receive(lost, now=later(START, HOUR))
    assert not create(gateway, 3, later(START, Span(400 * DAY)), PAYOUT, policy)


@pytest.mark.spec("C12", "L2")
@pytest.mark.parametrize("status", [PENDING, PAID])
def test_a_payment_that_the_restored_store_has_stays_the_newest_of_its_reference(
    status: Status,
) -> None:
    gateway = Gateway()
    assert create(gateway, 1, START, PAYOUT)
    bring_to(gateway, 1, status, START)
    reference = a_create_payment().draft.merchant_reference
    gateway.receive(
        RecordLostUse(a_brand().id, reference, "a receipt", "ada"), now=later(START, HOUR)
    )
    assert gateway.ledger.references[
        a_brand().id, reference
    ].gateway_reference == numbered_reference(1)

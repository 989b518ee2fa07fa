"""Limits of a brand: its pending payments, and the amounts of a day by method and type."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.messages.replies import Accepted, Rejected, Reply
from mmo_sansio.payments.decide import reads
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.testing import (
    KES,
    START,
    a_begin_submission,
    a_brand,
    a_create_payment,
    a_method,
    a_stop,
    a_wake,
    failed,
    numbered_reference,
    succeeded,
)
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, Instant, Span, later
from mmo_sansio.values.model import Brand, BrandLimits, Limits, Operation, Status, Type

PAYIN, PAYOUT = Operation.DIRECT_PAYIN, Operation.DIRECT_PAYOUT
DAY_BEGINS = Instant(START - START % DAY)


def limited(*, pending: int | None = None, daily: dict[Type, int] | None = None) -> Brand:
    """A brand with these limits; amounts in KES."""
    sums = {type: KES(most) for type, most in (daily or {}).items()}
    method = a_method(limits={"KES": Limits(KES(10), KES(150_000), sums)})
    return a_brand(methods=(method,), limits=BrandLimits(pending_payments=pending))


def create(
    gateway: Gateway,
    number: int,
    brand: Brand,
    now: Instant,
    operation: Operation = PAYOUT,
    amount: int = 100,
) -> Reply:
    reference = numbered_reference(number)
    request = a_create_payment(
        reference,
        brand=brand,
        operation=operation,
        amount=Decimal(amount),
        merchant_reference=reference,
    )
    return gateway.receive(request, now=now)


def cause(reply: Reply) -> str | None:
    return reply.problem.segment if isinstance(reply, Rejected) else None


def test_no_more_payments_are_pending_than_the_limit() -> None:
    gateway, brand = Gateway(), limited(pending=2)
    assert [cause(create(gateway, number, brand, START)) for number in (1, 2, 3)] == [
        None,
        None,
        "brand_pending_limit",
    ]
    gateway.receive(a_begin_submission(numbered_reference(1)), now=START)
    gateway.receive(succeeded(numbered_reference(1)), now=START)
    assert cause(create(gateway, 3, brand, START)) is None
    gateway.receive(a_stop(numbered_reference(2)), now=START)
    assert cause(create(gateway, 4, brand, START)) is None
    assert cause(create(gateway, 5, brand, START)) == "brand_pending_limit"
    gateway.wake(now=later(START, Span(4 * DAY)))
    assert cause(create(gateway, 5, brand, later(START, Span(4 * DAY)))) is None


def test_the_sum_of_a_day_is_bounded_for_each_type() -> None:
    gateway, brand = Gateway(), limited(daily={Type.PAYOUT: 250})
    assert cause(create(gateway, 1, brand, DAY_BEGINS)) is None
    assert cause(create(gateway, 2, brand, DAY_BEGINS, amount=150)) is None
    refused = create(gateway, 3, brand, DAY_BEGINS, amount=10)
    assert cause(refused) == "brand_daily_limit"
    assert isinstance(refused, Rejected)
    assert refused.problem.status == 422
    assert cause(create(gateway, 4, brand, DAY_BEGINS, PAYIN, amount=5_000)) is None
    gateway.receive(a_begin_submission(numbered_reference(1)), now=DAY_BEGINS)
    gateway.receive(failed(numbered_reference(1)), now=DAY_BEGINS)
    assert cause(create(gateway, 5, brand, DAY_BEGINS, amount=101)) == "brand_daily_limit"
    assert cause(create(gateway, 5, brand, DAY_BEGINS, amount=100)) is None
    tomorrow = later(DAY_BEGINS, DAY)
    assert cause(create(gateway, 6, brand, Instant(tomorrow - 1), amount=10)) == "brand_daily_limit"
    assert cause(create(gateway, 6, brand, tomorrow, amount=250)) is None
    gateway.receive(a_stop(numbered_reference(2)), now=tomorrow)
    assert cause(create(gateway, 7, brand, tomorrow, amount=10)) == "brand_daily_limit", (
        "yesterday's counts no more"
    )


def test_a_brand_without_limits_counts_and_reads_nothing() -> None:
    gateway, brand = Gateway(), a_brand()
    create(gateway, 1, brand, START)
    assert gateway.ledger.usage == {}
    assert gateway.transaction(numbered_reference(1)).order.usage == ()
    assert reads(a_create_payment(brand=brand)).usage == frozenset()


@pytest.mark.spec("C12")
def test_a_refused_payment_leaves_its_reference_unused() -> None:
    gateway, brand = Gateway(), limited(pending=1)
    create(gateway, 1, brand, START)
    assert isinstance(create(gateway, 2, brand, START), Rejected)
    gateway.receive(a_stop(numbered_reference(1)), now=START)
    assert isinstance(create(gateway, 2, brand, later(START, Span(1))), Accepted)


steps = st.lists(
    st.tuples(
        st.sampled_from(["create", "create", "begin", "succeed", "fail", "stop", "wake"]),
        st.integers(0, 11),
        st.sampled_from([1, MINUTE, 7 * HOUR, DAY, 4 * DAY]),
    ),
    max_size=40,
)


@given(steps)
def test_counters_show_what_is_pending_and_what_was_not_lost_today(
    history: Sequence[tuple[str, int, int]],
) -> None:
    gateway, now = Gateway(), START
    brand = limited(pending=4, daily={Type.PAYOUT: 500})
    for position, (action, target, pause) in enumerate(history):
        now, about = later(now, Span(pause)), numbered_reference(target)
        match action:
            case "create":
                create(gateway, position, brand, now)
            case "begin":
                gateway.receive(a_begin_submission(about), now=now)
            case "succeed":
                gateway.receive(succeeded(about), now=now)
            case "fail":
                gateway.receive(failed(about), now=now)
            case "stop":
                gateway.receive(a_stop(about), now=now)
            case _:
                gateway.receive(a_wake(about), now=now)
        rows = gateway.ledger.transactions.values()
        assert (
            gateway.ledger.used_on("acme", "pending", 0)
            == sum(each.status is Status.PENDING for each in rows)
            <= 4
        )
        today = [each for each in rows if each.order.created_at // DAY == now // DAY]
        spent = sum(
            each.order.requested.minor for each in today if each.status is not Status.FAILED
        )
        assert (
            gateway.ledger.used_on("acme", "payout test_ke KE KES", now // DAY) == spent <= 50_000
        )

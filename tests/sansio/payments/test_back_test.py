"""A back-test of a brand's configuration counts what a plain reading of the rules counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.messages.replies import Rejected
from mmo_sansio.payments.brand_changes import (
    BackTest,
    BackTestResult,
    RecordedRequest,
    refused_request,
)
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.testing import a_create_payment
from mmo_sansio.values.clock import DAY, HOUR, Instant
from mmo_sansio.values.model import Brand, BrandLimits, Limits, Method, Operation, Type
from mmo_sansio.values.money import Money, to_money
from mmo_sansio.values.problems import Problem

NOON = Instant(1_700_000_000 * 1_000_000)
MINIMUMS, MAXIMUMS = st.integers(1, 40), st.integers(41, 100)
KES = "KES"


def money(minor: int, currency: str = KES) -> Money:
    """An amount in minor units."""
    return Money(minor, currency)


@st.composite
def methods(draw: st.DrawFn, key: str, country: str) -> Method:
    """A method with limits in one or two currencies, some of them of a day."""
    limits = {}
    for currency in draw(st.lists(st.sampled_from([KES, "UGX"]), min_size=1, unique=True)):
        daily = draw(
            st.dictionaries(st.sampled_from([Type.PAYIN, Type.PAYOUT]), st.integers(50, 400))
        )
        limits[currency] = Limits(
            money(draw(MINIMUMS), currency),
            money(draw(MAXIMUMS), currency),
            {type: money(most, currency) for type, most in daily.items()},
        )
    operations = draw(
        st.frozensets(st.sampled_from([Operation.DIRECT_PAYIN, Operation.DIRECT_PAYOUT]))
    )
    return Method(key, "sandbox", "Sandbox", country, operations, limits)


@st.composite
def brands(draw: st.DrawFn) -> Brand:
    """A brand with methods in two countries."""
    pending = draw(st.none() | st.integers(1, 4))
    chosen = (draw(methods("m", "KE")), draw(methods("m", "UG")), draw(methods("n", "KE")))
    return Brand(
        "acme",
        "Acme",
        chosen,
        enabled=draw(st.integers(0, 9)) > 0,
        limits=BrandLimits(None, None, pending),
    )


@st.composite
def requests(draw: st.DrawFn) -> Sequence[RecordedRequest]:
    """Payments of three days in the order of creation; some never end."""
    found = []
    at = NOON
    for number in range(draw(st.integers(0, 25))):
        at = Instant(at + draw(st.integers(0, 3 * HOUR)))
        ended = draw(st.none() | st.integers(0, 5 * HOUR))
        found.append(
            RecordedRequest(
                f"{number:026d}",
                at,
                draw(st.sampled_from([Operation.DIRECT_PAYIN, Operation.DIRECT_PAYOUT, None])),
                draw(st.sampled_from(["m", "n", "o"])),
                draw(st.sampled_from(["KE", "UG"])),
                money(draw(st.integers(1, 110)), draw(st.sampled_from([KES, "UGX"]))),
                None if ended is None else Instant(at + ended),
                draw(st.booleans()),
            )
        )
        if found[-1].operation is not None and draw(st.integers(0, 3)) == 0:
            found[-1] = evolve(found[-1], ended_at=at, has_failed=False, was_refused=True)
    return found


def read_plainly(brand: Brand, recorded: Sequence[RecordedRequest]) -> BackTestResult:
    """Judge each request by looking at all that were accepted before."""
    accepted: list[RecordedRequest] = []
    refused: Counter[str] = Counter()
    for request in recorded:
        if request.operation is None:
            continue
        if (reason := refusal(brand, request, accepted)) is not None:
            refused[reason] += 1
        else:
            accepted.append(request)
    sums: Counter[str] = Counter()
    for each in accepted:
        sums[each.amount.currency] += each.amount.minor
    of_refused = [each for each in accepted if each.was_refused]
    return BackTestResult(len(accepted), len(of_refused), dict(sums), dict(refused))


def refusal(
    brand: Brand, request: RecordedRequest, accepted: Sequence[RecordedRequest]
) -> str | None:
    """The first reason in the order of C9."""
    assert request.operation is not None
    type, currency, minor = request.operation.type, request.amount.currency, request.amount.minor
    if not brand.enabled:
        return "merchant_disabled"
    named = [
        each
        for each in brand.methods
        if each.key == request.method and request.operation in each.operations
    ]
    if not named:
        return "config_unsupported_payment_method"
    here = [each for each in named if each.country == request.country]
    if not here:
        return "config_unsupported_country"
    if currency not in here[0].limits:
        return "config_unsupported_currency"
    limits = here[0].limits[currency]
    if minor < limits.minimum.minor:
        return "config_method_transaction_min_limit"
    if minor > limits.maximum.minor:
        return "config_method_transaction_max_limit"
    now = request.created_at
    pending = [each for each in accepted if each.ended_at is None or each.ended_at > now]
    if brand.limits.pending_payments is not None and len(pending) >= brand.limits.pending_payments:
        return "brand_pending_limit"
    counted = [
        each.amount.minor
        for each in accepted
        if each.operation is not None
        and (each.operation.type, each.method, each.country)
        == (type, request.method, request.country)
        and each.amount.currency == currency
        and each.created_at // DAY == now // DAY
        and not (each.has_failed and each in accepted and each not in pending)
    ]
    if type in limits.daily and sum(counted) + minor > limits.daily[type].minor:
        return "brand_daily_limit"
    return None


@given(brands(), requests())
def test_a_back_test_equals_a_plain_reading_of_the_rules(
    brand: Brand, recorded: Sequence[RecordedRequest]
) -> None:
    whole = BackTest(brand)
    whole.add(recorded)
    assert whole.result == read_plainly(brand, recorded)
    in_pages = BackTest(brand)
    for each in recorded:
        in_pages.add([each])
    assert in_pages.result == whole.result


def test_a_smaller_maximum_refuses_what_is_above_it() -> None:
    method = Method(
        "m", "sandbox", "Sandbox", "KE", frozenset(Operation), {KES: Limits(money(1), money(100))}
    )
    before = Brand("acme", "Acme", (method,))
    after = evolve(before, methods=(evolve(method, limits={KES: Limits(money(1), money(50))}),))
    recorded = [
        RecordedRequest(
            f"{minor}",
            NOON,
            Operation.DIRECT_PAYIN,
            "m",
            "KE",
            money(minor),
            None,
            has_failed=False,
        )
        for minor in (50, 51, 100)
    ]
    results = []
    for brand in (before, after):
        test = BackTest(brand)
        test.add(recorded)
        results.append(test.result)
    assert results == [
        BackTestResult(3, 0, {KES: 201}, {}),
        BackTestResult(1, 0, {KES: 50}, {"config_method_transaction_max_limit": 2}),
    ]


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"amount": Decimal("5.00")}, "config_method_transaction_min_limit"),
        ({"amount": Decimal(200_000)}, "config_method_transaction_max_limit"),
        ({"operation": Operation.DIRECT_PAYOUT}, "config_unsupported_payment_method"),
    ],
)
def test_a_request_that_limits_or_flows_refused_is_kept_without_personal_data(
    changed: Mapping[str, object], cause: str
) -> None:
    input_, problem = refuse(**changed)
    refused = refused_request(input_, problem, now=NOON)
    assert refused is not None
    assert (refused.brand, refused.segment) == (input_.brand.id, cause)
    draft = input_.draft
    amount = to_money(draft.amount, draft.currency)
    assert refused.request == RecordedRequest(
        input_.gateway_reference,
        NOON,
        draft.operation,
        draft.method,
        draft.country,
        amount,
        NOON,
        False,
        True,
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "254700000007"},
        {"country": "UG"},
        {"currency": "EUR"},
        {"amount": Decimal("1.001")},
    ],
    ids=["method", "country", "currency", "decimals"],
)
def test_a_request_that_no_limits_or_flows_would_accept_is_not_kept(
    changed: Mapping[str, object],
) -> None:
    input_, problem = refuse(**changed)
    assert refused_request(input_, problem, now=NOON) is None


def refuse(**changed: Any) -> tuple[CreatePayment, Problem]:
    """A request with these members, and the problem with which it is refused."""
    made = a_create_payment(**changed)
    method = evolve(made.brand.methods[0], operations=frozenset({Operation.DIRECT_PAYIN}))
    brand = evolve(made.brand, methods=(method,))
    input_ = evolve(made, brand=brand)
    reply = decide(Ledger(), input_, now=NOON).reply
    assert isinstance(reply, Rejected), reply
    return input_, reply.problem

"""Rules that judge how providers and merchants do, and figures against the time before."""

from __future__ import annotations

import pytest
from attrs import evolve

from mmo_sansio.providers.common.account_check import SIGN_IN
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_trio.console.attention import account_concern
from mmo_trio.console.overview import (
    HealthLevel,
    PaymentStatistics,
    format_change,
    judge_health,
    payment_figures,
    sum_statistics,
    waiting_figure,
    worst_first,
)


@pytest.mark.parametrize(
    ("succeeded", "failed", "breaker", "stopped", "level"),
    [
        (0, 0, None, "", HealthLevel.QUIET),
        (9, 1, BreakerState.CLOSED, "", HealthLevel.WELL),
        (7, 3, BreakerState.CLOSED, "", HealthLevel.WEAK),
        (4, 6, BreakerState.CLOSED, "", HealthLevel.FAILING),
        (0, 9, BreakerState.CLOSED, "", HealthLevel.QUIET),
        (9, 1, BreakerState.HALF_OPEN, "", HealthLevel.WEAK),
        (9, 1, BreakerState.OPEN, "", HealthLevel.FAILING),
        (9, 1, None, "stopped by staff", HealthLevel.FAILING),
    ],
)
def test_health_follows_from_state_and_rate(
    succeeded: int, failed: int, breaker: BreakerState | None, stopped: str, level: HealthLevel
) -> None:
    statistics = PaymentStatistics("momo", succeeded + failed, succeeded, failed)
    found = judge_health("momo", "MoMo", statistics, breaker=breaker, stopped=stopped)
    assert (found.level, bool(found.text)) == (level, True)


def test_few_payments_are_too_few_to_tell_and_one_callback_is_one() -> None:
    few, weak = PaymentStatistics("a", 2, 0, 2), PaymentStatistics("b", 20, 20, 0)
    assert judge_health("a", "A", few).text == "too few to tell"
    assert judge_health("b", "B", weak, failed_callbacks=1).text == "1 callback not delivered"
    judged = judge_health("b", "B", weak, failed_callbacks=2_000)
    assert judged.text == "2,000 callbacks not delivered"


def test_what_fails_comes_first() -> None:
    well = judge_health("a", "A", PaymentStatistics("a", 50, 50, 0))
    busy = judge_health("b", "B", PaymentStatistics("b", 90, 90, 0))
    failing = judge_health("c", "C", None, stopped="on hold")
    weak = judge_health("d", "D", PaymentStatistics("d", 20, 20, 0), failed_callbacks=3)
    assert [each.key for each in worst_first([well, busy, failing, weak])] == ["c", "d", "b", "a"]


def test_figures_are_compared_with_the_time_before() -> None:
    now = sum_statistics([PaymentStatistics("1", 60, 40, 10), PaymentStatistics("2", 60, 50, 0)])
    before = PaymentStatistics("", 100, 50, 50)
    created, rate = payment_figures(now, before, "the day before")
    assert (created.value, created.change, created.is_good) == ("120", "+20 %", None)
    assert (rate.value, rate.change, rate.is_good) == ("90.0 %", "+40.0 points", True)
    nothing = payment_figures(now, PaymentStatistics(""), "the day before")
    assert [(each.change, each.note) for each in nothing] == [("", ""), ("", "")]
    assert (format_change(5, 5), format_change(5, 10)) == ("no change", "-50 %")


def test_a_few_payments_before_are_told_and_give_no_percentage() -> None:
    now = PaymentStatistics("", 208, 150, 50)
    created, rate = payment_figures(now, PaymentStatistics("", 2, 1, 1), "the day before")
    assert (created.change, created.note) == ("", "2 the day before")
    assert (rate.change, rate.note, rate.is_good) == ("", "1 of 2 the day before", None)


def test_what_does_worse_comes_first_whoever_is_busier() -> None:
    rates = {"a": (45, 5), "b": (40, 10), "c": (75, 25), "d": (60, 40), "e": (8, 2)}
    found = [
        judge_health(key, key, PaymentStatistics(key, good + bad, good, bad))
        for key, (good, bad) in rates.items()
    ]
    assert [each.key for each in worst_first(found)] == ["d", "c", "b", "e", "a"]


SIGN_IN_FAILS = AccountFinding(
    "momo", SIGN_IN, AccountState.UNKNOWN, "HTTP 500", "The token service does not work."
)


def test_a_failing_sign_in_comes_before_every_success_rate() -> None:
    well, poor = PaymentStatistics("momo", 90, 90, 0), PaymentStatistics("momo", 90, 10, 80)
    for state, level in (
        (AccountState.REFUSED, HealthLevel.FAILING),
        (AccountState.UNKNOWN, HealthLevel.WEAK),
    ):
        concern = account_concern([evolve(SIGN_IN_FAILS, state=state)])
        assert concern is not None
        health = judge_health("momo", "MoMo", well, concern=concern)
        assert (health.level, health.text) == (level, "sign-in fails")
    refused = account_concern([evolve(SIGN_IN_FAILS, state=AccountState.REFUSED)])
    assert judge_health("momo", "MoMo", poor, concern=refused).text == "sign-in fails"


def test_an_account_that_works_or_was_never_asked_needs_nobody() -> None:
    works = evolve(SIGN_IN_FAILS, state=AccountState.WORKS)
    assert account_concern([works, evolve(works, state=AccountState.UNKNOWN, code="")]) is None


def test_less_that_waits_is_better() -> None:
    fewer = waiting_figure("Pending", 3, 8, "page")
    assert (fewer.value, fewer.change, fewer.is_good) == ("3", "-5", True)
    assert waiting_figure("Pending", 9, 8, "page").is_good is False
    assert waiting_figure("Pending", 8, 8, "page").change == "no change"

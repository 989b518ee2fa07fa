"""Each operator's books are the gateway's successes and its suspense book, to the unit, whatever is
lost, late, told twice, refused, contradicted or killed. A world is its seed: each operator gets
some of 100 payments, and each of its operations of 25."""

from __future__ import annotations

import logging
from collections import Counter
from itertools import count
from typing import Any

import pytest
import structlog
from attrs import evolve
from mmo_provider_pawapay import wire as pawapay_wire
from mmo_provider_pawapay.wire import operation_id

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.payments import decide
from mmo_sansio.payments.decision import Decision, ignore
from mmo_sansio.payments.suspense import record_in_suspense
from mmo_sansio.providers.airtel_money.results import AirtelPayment
from mmo_sansio.providers.common.interface import PaymentReports
from mmo_sansio.providers.mpesa_daraja import notifications as daraja_notifications
from mmo_sansio.providers.mpesa_daraja import requests as daraja_requests
from mmo_sansio.providers.mtn_momo import adapter as mtn_adapter
from mmo_sansio.providers.mtn_momo.adapter import reference_id
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import DepositClaim, Operation, Transaction
from tests.support.effort import by_effort
from tests.support.operator_forger import FORGERIES
from tests.support.operator_kinds import OPERATORS
from tests.support.operator_statement import check
from tests.support.operator_world import World, open_world
from tests.support.reversing_world import ReversingWorld, check_reversals

pytestmark = pytest.mark.long

PLAYED = by_effort(["mtn"], [*OPERATORS])
WORLDS = by_effort(3, 10)
PAYMENTS = 100
KILLS = 12
HAPPENS = (
    "forged result",
    "repeated notification",
    "AnswerAfter",
    "AnswerInstead",
    "LoseAnswer",
    "LoseRequest",
    "callback lost",
    "callback told again",
    "decided after the expiry",
    "expired",
    "killed between record and request",
    "killed between sending and knowing",
    "not connected",
    "payin web failed",
    "payin web succeeded",
    "payout direct failed",
    "payout direct succeeded",
    "request late",
    "request lost",
)
"""What has to have happened in some world, so that the worlds prove something."""
HAPPENS_THERE = {
    "airtel": ("contradicted",),
    "mpesa": (
        "API operators refused",
        "contradicted",
        "forged receipts in the suspense book",
        "deposits",
        "deposits in the suspense book",
        "forgeries in the suspense book",
        "paid past the prompt",
        "payments past the prompt in the suspense book",
        *FORGERIES,
        "left to a person",
        "payin qr failed",
        "payin qr succeeded",
        "tax direct failed",
        "tax direct succeeded",
    ),
    "pawapay": ("contradicted",),
    "pawapay, page": ("approved", "came back", "came back unpaid", "declined"),
    "pawapay, code": ("code given",),
}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """Suppress the thousands of log lines of these runs."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def played(name: str, seed: int, payments: int = PAYMENTS) -> World:
    return open_world(OPERATORS[name], seed, payments=payments, kills=KILLS)


@pytest.mark.parametrize("name", PLAYED)
@pytest.mark.spec("S2", "S3", "S4", "S5", "S6")
def test_an_operators_books_are_the_gateways_to_the_unit(name: str) -> None:
    happened: Counter[str] = Counter()
    for seed in range(WORLDS):
        world = played(name, seed)
        check(world)
        happened += world.tally
    direct = ("payin direct failed", "payin direct succeeded")
    is_elsewhere = OPERATORS[name].confirms_elsewhere
    here = [each for each in HAPPENS if not (is_elsewhere and each in direct)]
    expected = (*here, *HAPPENS_THERE.get(name, ()), *by_effort([], ["never decided"]))
    assert [each for each in expected if not happened[each]] == []


@pytest.mark.parametrize(
    ("name", "operation"),
    [(name, each) for name, operator in OPERATORS.items() for each in operator.operations],
)
@pytest.mark.spec("S2", "S3", "S5", "S6")
def test_the_books_of_one_operation_agree_as_well(name: str, operation: Operation | None) -> None:
    operator = evolve(OPERATORS[name], operations=(operation,))
    for seed in range(by_effort(1, WORLDS)):
        check(open_world(operator, 100 + seed, payments=PAYMENTS // 4, kills=KILLS // 4))


@pytest.mark.parametrize("name", by_effort(["mtn", "wave"], [*OPERATORS]))
@pytest.mark.spec("S5", "S6")
def test_what_went_back_is_what_the_reversals_say_to_the_unit(name: str) -> None:
    happened: Counter[str] = Counter()
    for seed in range(by_effort(1, WORLDS)):
        world = ReversingWorld(OPERATORS[name], 200 + seed)
        world.play(PAYMENTS // 2, KILLS)
        check(world)
        check_reversals(world)
        happened += world.tally
    expected = ("asked back", "killed", "reversal succeeded")
    assert [each for each in expected if not happened[each]] == []


# Worlds that can't see what is wrong prove nothing.


def makes_up_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a new X-Reference-Id each time, so that a repeated request is another payment."""
    numbers = count()
    monkeypatch.setattr(mtn_adapter, "reference_id", lambda _: reference_id(str(next(numbers))))


def makes_up_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Submit under a new id each time, so that a repeated request is another payment."""
    numbers = count()
    monkeypatch.setattr(
        pawapay_wire, "operation_id", lambda _: operation_id(f"{next(numbers):026d}")
    )


def repeats_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Submit every unknown pay-out again, under a new name."""
    numbers = count()
    monkeypatch.setattr(
        daraja_requests, "conversation_id", lambda _: reference_id(str(next(numbers)))
    )
    monkeypatch.setattr(PaymentReports, "unreachable", lambda self, _: self.never_received())


def fails_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        PaymentReports, "unreachable", lambda self, _: self.failed(ErrorCode.PROVIDER_TIMEOUT)
    )


def fails_what_airtel_leaves_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        AirtelPayment, "unknown", lambda self, _: self.failed(ErrorCode.PROVIDER_TIMEOUT)
    )


def trusts_confirmations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daraja_notifications, "_judged_deposit", lambda account, deposit: deposit)


def forgets_payments_past_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(
        input_: Any, reason: SuspenseReason, about: Transaction | None, *, now: Moment
    ) -> Decision:
        if isinstance(input_, DepositClaim) and reason is SuspenseReason.CONFLICTING_DEPOSIT:
            return ignore("Never mind.", about)
        return record_in_suspense(input_, reason, about, now=now)

    monkeypatch.setattr("mmo_sansio.payments.rules.deposits.record_in_suspense", forgetful)


def lets_answers_count_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer_always(rules: decide.Rules, *decided: Any, now: Moment) -> Decision:
        return rules.decide(*decided, now=now)

    monkeypatch.setattr(decide, "_answer_once", answer_always)


def believes_any_payer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mmo_sansio.payments.rules.deposits._is_paid_beside", lambda *_: False)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("name", "plant", "seed", "seen"),
    [
        ("mtn", makes_up_names, 0, "was paid twice"),
        ("mpesa", repeats_what_it_does_not_know, 0, "of seed"),
        ("mtn", fails_what_it_does_not_know, 0, "is reported failed, and was paid"),
        ("airtel", fails_what_airtel_leaves_open, 0, "is reported failed, and was paid"),
        ("pawapay", makes_up_ids, 0, "was paid twice"),
        ("mpesa", trusts_confirmations, 0, "of seed"),
        ("mpesa", lets_answers_count_twice, 3, "of seed"),
        ("mpesa", believes_any_payer, 5, "of seed 5 was paid by another"),
        ("mpesa", forgets_payments_past_prompts, 2, "of own accord in seed 2 is not in the books"),
    ],
)
def test_these_worlds_can_see_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, name: str, plant: object, seed: int, seen: str
) -> None:
    assert callable(plant)
    plant(monkeypatch)
    world = played(name, seed, payments=40)
    with pytest.raises(AssertionError, match=seen):
        check(world)

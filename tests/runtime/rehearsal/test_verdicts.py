"""What a step has shown is judged by what was promised."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from mmo_sansio.messages.inputs import ProviderReport
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.providers.common.rehearsal import AskUnknown, MakePayment
from mmo_sansio.testing import World
from mmo_sansio.testing import builders as a
from mmo_sansio.testing.world import FakeProvider, fails, succeeds
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation, Transaction
from mmo_trio.rehearsal.verdicts import (
    Verdict,
    judge_answer,
    judge_callback,
    judge_findings,
    judge_payment,
    judge_unknown,
)

TEXTS: dict[str, Any] = {"name": "prompt", "does": "", "promises": "", "page": ""}
PAID = MakePayment(
    **TEXTS,
    operation=Operation.DIRECT_PAYIN,
    country="KE",
    amount=a.KES(150),
    msisdn="+254700000200",
)
REFUSED = evolve(PAID, refused_as=(ErrorCode.USER_INSUFFICIENT_FUNDS,))
OTHERWISE = evolve(PAID, refused_as=(ErrorCode.USER_CANCELLED,))


def ended(script: object) -> Transaction:
    world = World(FakeProvider(on_submit=(script,)))  # type: ignore[arg-type]
    world.create()
    world.run()
    return world.transaction()


@pytest.mark.parametrize(
    ("step", "script", "held"),
    [
        (PAID, succeeds, True),
        (PAID, fails, False),
        (REFUSED, fails, True),
        (REFUSED, succeeds, False),
        (OTHERWISE, fails, False),
    ],
)
def test_a_payment_has_to_end_as_promised(step: MakePayment, script: object, held: bool) -> None:
    assert (judge_payment(step, ended(script)).verdict is Verdict.HELD) is held


@pytest.mark.parametrize(
    ("states", "verdict"),
    [
        ((AccountState.WORKS, AccountState.WARNED), Verdict.HELD),
        ((AccountState.WORKS, AccountState.UNKNOWN), Verdict.HELD),
        ((AccountState.WORKS, AccountState.REFUSED), Verdict.DIFFERS),
        ((AccountState.UNKNOWN,), Verdict.DIFFERS),
        ((), Verdict.NOT_TRIED),
    ],
)
def test_an_account_has_to_be_refused_nothing(
    states: tuple[AccountState, ...], verdict: Verdict
) -> None:
    findings = [AccountFinding("p", "part", state, "1", "words") for state in states]
    assert judge_findings(findings).verdict is verdict


@pytest.mark.parametrize(
    ("script", "report", "held"),
    [
        (succeeds, a.succeeded(), True),
        (succeeds, a.succeeded(final=a.KES(150)), True),
        (succeeds, a.succeeded(final=a.KES(151)), False),
        (succeeds, a.unreachable(), False),
        (fails, a.failed(error_code=ErrorCode.USER_INSUFFICIENT_FUNDS), True),
        (fails, a.failed(error_code=ErrorCode.USER_CANCELLED), False),
        (fails, a.succeeded(), False),
    ],
)
def test_a_further_answer_has_to_be_the_same(
    script: object, report: ProviderReport, held: bool
) -> None:
    assert (judge_answer(report, ended(script)).verdict is Verdict.HELD) is held


@pytest.mark.parametrize(
    ("is_final", "report", "held"),
    [
        (True, a.never_received(), True),
        (True, a.unreachable(), False),
        (False, a.unreachable(), True),
        (False, a.cannot_tell(), True),
        (False, a.succeeded(), False),
        (False, a.failed(), False),
        (False, a.never_received(), False),
    ],
)
def test_what_was_never_sent_has_to_be_unknown(
    is_final: bool, report: ProviderReport, held: bool
) -> None:
    step = AskUnknown(**TEXTS, of="prompt", is_final=is_final)
    assert (judge_unknown(step, report).verdict is Verdict.HELD) is held


@pytest.mark.parametrize(
    ("statuses", "held"), [((), False), ((200,), True), ((503, 200), True), ((401,), False)]
)
def test_a_callback_has_to_come_and_to_be_taken(statuses: tuple[int, ...], held: bool) -> None:
    assert (judge_callback(statuses).verdict is Verdict.HELD) is held

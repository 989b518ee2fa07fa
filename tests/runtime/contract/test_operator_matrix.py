"""Every operator, every flow, every course of events: merchant API, adapter, simulator, and back to
the merchant, over sockets. The courses are data in `operator_matrix.py`, and stand as a table in
docs/internals/operators.md."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import frozen

from mmo_sansio.values.clock import SECOND
from mmo_simulators.common.faults import PlannedFault
from tests.support.merchant import TIMEOUT_S
from tests.support.operator_gateway import OperatorGateway, run_operator_gateway
from tests.support.operator_matrix import (
    AFTER_EXPIRY,
    EXPIRED,
    LATE_STEPS_MAX,
    OPERATORS,
    SUCCESS,
    Course,
    Operator,
    Way,
)
from tests.support.operator_matrix_page import table
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = pytest.mark.long

PATIENCE = {"answer_within_s": "1"}


@frozen
class Payment:
    """One that has begun."""

    operation: str
    course: Course

    @property
    def name(self) -> str:
        """What a failing test calls it."""
        return f"{self.operation}: {self.course.name}"


PAGE = Path(__file__).parents[3] / "docs/internals/operators.md"


def test_the_page_shows_every_course() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), f"The table is now:\n{table()}"


@pytest.mark.spec("C1", "C2", "C4", "C5", "E1", "K1", "S2", "S3", "S5", "S6", "T3")
@pytest.mark.parametrize("operator", OPERATORS, ids=[each.kind for each in OPERATORS])
async def test_whatever_happens_the_books_agree_and_the_merchant_hears_it_once(
    tmp_path: Path, operator: Operator
) -> None:
    simulator = operator.make()
    async with run_operator_gateway(
        tmp_path,
        kind=operator.kind,
        simulator=simulator,
        market=operator.market,
        options={**operator.options(simulator), **PATIENCE},
    ) as operated:
        if operator.has_portal:
            portal = {"account": "collection", "callback_url": operated.hook_url()}
            simulator.open_accounts([portal])
        began = {}
        every = [(way, each) for way in operator.ways for each in way.courses]
        for number, (way, each) in enumerate(every):
            msisdn = operator.payer(simulator, number)
            began[await begin(operated, way, each, msisdn)] = Payment(way.operation, each)
        found = await ended(operated, list(began), step_s=40, steps=8)
        found |= await ended(operated, began.keys() - found, step_s=900, steps=9)
        before_expiry = {name for name, each in began.items() if each.course.ends != EXPIRED}
        found |= await ended(
            operated, before_expiry - found.keys(), step_s=900, steps=LATE_STEPS_MAX
        )
        await operated.running.advance(f"{AFTER_EXPIRY // SECOND}s")
        with trio.fail_after(HANGS_AFTER_S):
            found |= await ended(operated, began.keys() - found, step_s=1, steps=sys.maxsize)
        await operated.running_simulator.advance(AFTER_EXPIRY // SECOND)
        suspended = {name for name, each in began.items() if each.course.is_suspended}
        suspense = await suspended_results(operated, len(suspended))
        received = Counter(each.gateway_reference for each in operated.running.received)
        outcome = [(each.name, *came_to(found[name])) for name, each in began.items()]
        assert outcome == [(each.name, *expected(each.course)) for each in began.values()]
        assert received == dict.fromkeys(began, 1)
        assert suspense == suspended
        check_books(operated, began)


async def begin(operated: OperatorGateway, way: Way, course: Course, msisdn: str) -> str:
    """A payment that has met what is in store for it: its gatewayReference."""
    planned = [PlannedFault(way.at, each) for each in course.faults]
    operated.simulator.faults.plan(planned)
    reference = await operated.pay(
        way.operation, msisdn=msisdn, reconciliationReference="PRN1234XN"
    )
    with trio.fail_after(TIMEOUT_S):
        while True:
            book = operated.simulator.snapshot()["payments"]
            is_taken = any(reference.endswith(each["reference"] or "?") for each in book)
            if is_taken if course.is_taken else not any(each.times for each in planned):
                return reference
            await trio.sleep(0.01)


async def ended(
    operated: OperatorGateway, references: Collection[str], *, step_s: int, steps: int
) -> dict[str, Any]:
    """Those that end while so much time passes."""
    found: dict[str, Any] = {}
    for _ in range(steps):
        for each in references:
            if each not in found:
                now = await operated.running.merchant.status(each)
                found |= {each: now} if now["status"] != "pending" else {}
        if len(found) == len(references):
            break
        await operated.advance(step_s)
        await trio.sleep(0.05)
    return found


async def suspended_results(operated: OperatorGateway, count: int) -> set[str]:
    """The payments of which results stand in the suspense book, once there are so many: a report
    and the operator's answer about it are an entry each."""
    with trio.fail_after(TIMEOUT_S):
        while True:
            seen = await operated.running.seen("suspense")
            suspended = {each["gatewayReference"] for each in seen}
            if len(suspended) >= count:
                reasons = {each["reason"] for each in seen}
                assert reasons <= {"late_result", "unproved_success"}, seen
                return suspended
            await operated.advance(60)
            await trio.sleep(0.05)


def expected(course: Course) -> tuple[str, str | None, str | None]:
    """Status, errorCode and the operator's own code."""
    is_success = course.ends == SUCCESS
    return *(("success", None) if is_success else ("failed", course.ends)), course.native


def came_to(found: dict[str, Any]) -> tuple[str, str | None, str | None]:
    """The same of a transaction."""
    data = found["providerData"] or {}
    return found["status"], found["errorCode"], data.get("errorCode")


def check_books(operated: OperatorGateway, began: Mapping[str, Payment]) -> None:
    """The operator has paid what it should, each once and no other."""
    paid = Counter(
        name
        for each in operated.simulator.snapshot()["payments"]
        if each["result"] == "success"
        for name in began
        if name.endswith(each["reference"])
    )
    assert paid == dict.fromkeys((name for name, each in began.items() if each.course.is_paid), 1)

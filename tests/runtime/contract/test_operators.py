"""Real operators through real sockets: merchant API, adapter, simulator, and back to the merchant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from mmo_sansio.http import HttpResponse
from mmo_trio.simulators.base import (
    AnswerInstead,
    CallBack,
    EndWith,
    Fault,
    LoseAnswer,
    LoseRequest,
    Planned,
)
from mmo_trio.simulators.mtn import (
    API_KEY,
    API_USER,
    COLLECTION_KEY,
    DISBURSEMENT_KEY,
    MtnSimulator,
)
from mmo_trio.storage.base import ClosedProvider

from .merchant import PATIENCE_S, ask
from .operators import Market, Operated, operating

MOMO = {
    "market": "sandbox",
    "collection_subscription_key": COLLECTION_KEY,
    "collection_api_user": API_USER,
    "collection_api_key": API_KEY,
    "disbursement_subscription_key": DISBURSEMENT_KEY,
    "disbursement_api_user": API_USER,
    "disbursement_api_key": API_KEY,
}
BOTH = pytest.mark.parametrize(
    ("operation", "kind"),
    [("direct/payin", "requesttopay"), ("direct/payout", "transfer")],
    ids=["pay-in", "pay-out"],
)


@pytest.fixture
async def momo(tmp_path: Path) -> AsyncIterator[Operated]:
    async with operating(
        tmp_path,
        kind="mtn_momo",
        simulator=MtnSimulator(),
        market=Market("UG", "EUR", "46733123999"),
        options=MOMO,
    ) as operated:
        yield operated


def paid(operated: Operated) -> list[tuple[str, str]]:
    """Reference and result of every payment in the operator's book."""
    return [(each["reference"], each["result"]) for each in operated.simulator.book()["payments"]]


@pytest.mark.spec("S2", "S6", "K1")
@BOTH
async def test_a_payment_succeeds_and_the_merchant_hears_of_it(
    momo: Operated, operation: str, kind: str
) -> None:
    reference = await momo.pay(operation)
    done = await momo.ended(reference)
    assert done["status"] == "success"
    assert done["finalAmount"] == {"value": 150, "currency": "EUR"}
    assert done["completionSource"] == "poll"  # Its notification was a hint only.
    assert paid(momo) == [(reference, "success")]
    assert (await momo.running.callback_for(reference)).gateway_reference == reference


@pytest.mark.spec("S6")
@BOTH
@pytest.mark.parametrize(
    "fault",
    [LoseRequest(), LoseAnswer(), AnswerInstead(HttpResponse(401)), CallBack(()), CallBack((0, 0))],
    ids=["request lost", "answer lost", "token refused", "no callback", "two callbacks"],
)
async def test_whatever_is_lost_it_is_paid_once(
    momo: Operated, operation: str, kind: str, fault: Fault
) -> None:
    momo.simulator.faults.plan([Planned(kind, fault)])
    reference = await momo.pay(operation)
    done = await momo.ended(reference)
    assert [each for each, result in paid(momo) if result == "success"] == (
        [reference] if done["status"] == "success" else []
    )
    assert len(paid(momo)) <= 1
    if not isinstance(fault, LoseRequest):
        assert done["status"] == "success"


@pytest.mark.spec("S2", "E1")
async def test_a_failure_is_told_in_our_words(momo: Operated) -> None:
    momo.simulator.faults.plan([Planned("requesttopay", EndWith("NOT_ENOUGH_FUNDS"))])
    done = await momo.ended(await momo.pay())
    assert (done["status"], done["errorCode"]) == ("failed", "user_insufficient_funds")


@pytest.mark.spec("S5", "S6")
async def test_who_does_not_know_the_token_is_not_heard(momo: Operated) -> None:
    for path in ("operator/0123", "nobody/0123", "operator/0123/01K5"):
        answer = await ask(
            f"{momo.running.ready.api}/hooks/{path}", method="PUT", headers={}, body=b"{}"
        )
        assert answer.status == 404
    assert await momo.running.seen("suspense") == []


@pytest.mark.spec("E1", "S6")
async def test_a_closed_provider_is_sent_nothing_that_moves_money(momo: Operated) -> None:
    pending = await momo.pay()
    async with momo.running.storage.beside() as administration:
        closed = ClosedProvider("operator", 1, "amina", "out of order")
        assert await administration.close_provider(closed)
        with trio.fail_after(PATIENCE_S):
            while (await momo.ended(await momo.pay()))["status"] != "failed":
                pass
        book = paid(momo)
        done = await momo.ended(await momo.pay())
        assert (done["status"], done["errorCode"]) == ("failed", "provider_unavailable")
        assert (await momo.ended(pending))["status"] == "success"
        assert [each for each in paid(momo) if each not in book] == []
        assert await administration.open_provider("operator")
        with trio.fail_after(PATIENCE_S):
            while (await momo.ended(await momo.pay()))["status"] != "success":
                pass

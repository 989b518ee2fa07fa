"""How a payment whose payer needs a code stands for him."""

from __future__ import annotations

import pytest

from mmo_sansio.testing import START, a_transaction
from mmo_sansio.values.clock import HOUR, MINUTE, Instant, Span, later
from mmo_sansio.values.model import Flow, Page, Stage
from mmo_sansio.values.payer_actions import EnterCode
from mmo_trio.pages.payment.page import PayerStatus, payer_status

CLOSES_AT = later(START, HOUR)


@pytest.mark.spec("W1")
@pytest.mark.parametrize(
    ("stage", "code", "now", "status"),
    [
        (Stage.AWAITING_CUSTOMER, None, later(START, Span(20 * MINUTE)), PayerStatus.CODE),
        (Stage.AWAITING_CUSTOMER, None, CLOSES_AT, PayerStatus.CLOSED),
        (Stage.CREATED, "1234", later(START, Span(20 * MINUTE)), PayerStatus.SENDING),
        (Stage.AWAITING_RESULT, "1234", later(START, Span(20 * MINUTE)), PayerStatus.SLOW),
    ],
)
def test_who_takes_long_to_get_a_code_is_not_told_that_the_shop_waits(
    stage: Stage, code: str | None, now: Instant, status: PayerStatus
) -> None:
    asked, page = EnterCode(code=code), Page("token", CLOSES_AT)
    transaction = a_transaction(
        stage, flow=Flow.WEB, page=page, payer_action=asked, submitted_at=START
    )
    assert payer_status(transaction, now=now) is status

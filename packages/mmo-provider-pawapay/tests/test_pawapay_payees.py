"""Of which operator a number probably is, as pawaPay predicts it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pawapay_samples import NAME, an_account
from tests.support.reversals import LOST, json_answer

from mmo_sansio.providers import (
    ExchangeFailed,
    HttpRequest,
    HttpResponse,
    PayeePredicted,
    PayeeReport,
    PayeeUnanswered,
    PayeeUnknown,
    drive,
)
from mmo_sansio.testing import START
from mmo_sansio.values.clock import Moment

NUMBER = "+260763456789"
PREDICTION = {"country": "ZMB", "provider": "MTN_MOMO_ZMB", "phoneNumber": "260763456789"}
"""https://docs.pawapay.io/v2/api-reference/toolkit/predict-provider"""


def ask(
    answer: HttpResponse | ExchangeFailed, **options: Any
) -> tuple[PayeeReport, list[HttpRequest]]:
    sent: list[HttpRequest] = []

    def exchange(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        if isinstance(answer, ExchangeFailed):
            raise answer
        return answer

    inquiry = an_account(**options).ask_payee(NUMBER, "", now=Moment.at(START))
    return drive(inquiry, exchange), sent


def test_the_number_is_sent_alone() -> None:
    report, (request,) = ask(json_answer(200, PREDICTION), market="MTN_MOMO_ZMB")
    assert report == PayeePredicted(NAME, "MTN_MOMO_ZMB", is_served=True)
    assert request.method == "POST"
    assert request.target.endswith(b"/v2/predict-provider")
    assert json.loads(request.body) == {"phoneNumber": "260763456789"}
    assert request.value(b"authorization")


def test_a_number_of_another_operator_is_told() -> None:
    report, _ = ask(json_answer(200, PREDICTION), market="AIRTEL_OAPI_ZMB")
    assert report == PayeePredicted(NAME, "MTN_MOMO_ZMB", is_served=False)


def test_an_invalid_number_is_of_nobody() -> None:
    reason = {"failureReason": {"failureCode": "INVALID_PHONE_NUMBER", "failureMessage": "no"}}
    assert ask(json_answer(400, reason))[0] == PayeeUnknown(NAME)


@pytest.mark.parametrize(
    "answer",
    [
        LOST,
        json_answer(400, {"failureReason": {"failureCode": "INVALID_INPUT"}}),
        json_answer(500, PREDICTION),
        json_answer(200, {**PREDICTION, "phoneNumber": "260763456780"}),
        json_answer(200, {**PREDICTION, "provider": None}),
        HttpResponse(200, (), b"<html>"),
    ],
)
def test_anything_else_tells_nothing(answer: HttpResponse | ExchangeFailed) -> None:
    assert isinstance(ask(answer)[0], PayeeUnanswered)

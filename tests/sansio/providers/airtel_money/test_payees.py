"""The name behind a number, as Airtel's user enquiry tells it."""

from __future__ import annotations

from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed, drive
from mmo_sansio.testing import START
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.payees import PayeeNamed, PayeeReport, PayeeUnanswered, PayeeUnknown
from tests.support.airtel_conversation import an_adapter, json_answer
from tests.support.reversals import LOST

NUMBER = "+256752000000"


def told(
    *, code: str = "DP02200000001", success: bool = True, status: int = 200, **members: Any
) -> HttpResponse:
    """An answer in the form that two public clients have in their tests."""
    data = {
        "is_barred": False,
        "grade": "SUBS",
        "first_name": "Jane",
        "last_name": "Doe",
        "registration": {"status": "SUBS"},
        "msisdn": "752000000",
        "is_pin_set": True,
        **members,
    }
    states = {
        "response_code": code,
        "code": str(status),
        "success": success,
        "result_code": "ESB000010",
        "message": "SUCCESS",
    }
    return json_answer({"data": data, "status": states}, status)


def ask(
    answer: HttpResponse | ExchangeFailed, number: str = NUMBER
) -> tuple[PayeeReport, list[HttpRequest]]:
    sent: list[HttpRequest] = []

    def exchange(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        if isinstance(answer, ExchangeFailed):
            raise answer
        return answer

    inquiry = an_adapter().ask_payee(number, "Jane Doe", now=Moment.at(START))
    return drive(inquiry, exchange), sent


def test_the_user_is_asked_for_by_the_national_number() -> None:
    report, (request,) = ask(told())
    assert report == PayeeNamed("airtel_ug", "Jane Doe", is_barred=False)
    assert request == HttpRequest(
        "GET",
        b"https://openapi.airtel.ug/standard/v1/users/752000000",
        (
            (b"content-type", b"application/json"),
            (b"accept", b"*/*"),
            (b"x-country", b"UG"),
            (b"x-currency", b"UGX"),
        ),
    )


def test_a_barred_account_is_told() -> None:
    assert ask(told(is_barred=True))[0] == PayeeNamed("airtel_ug", "Jane Doe", is_barred=True)
    assert ask(told(is_barred="no"))[0] == PayeeNamed("airtel_ug", "Jane Doe", is_barred=None)


@pytest.mark.parametrize("status", [200, 400, 404])
def test_nobody_has_the_number(status: int) -> None:
    answer = told(code="DP02200000002", success=False, status=status)
    assert ask(answer)[0] == PayeeUnknown("airtel_ug")


@pytest.mark.parametrize("number", ["752000000", 752000000, "256752000000", "12****89"])
def test_the_number_in_the_answer_may_have_any_form(number: object) -> None:
    assert isinstance(ask(told(msisdn=number))[0], PayeeNamed)


@pytest.mark.parametrize(
    "answer",
    [
        LOST,
        told(code="DP02200000000", success=False),
        told(code="DP02200000002", success=False, status=500),
        told(success=False),
        told(status=500),
        told(msisdn="752000001"),
        told(first_name=None, last_name=""),
        HttpResponse(200, (), b"[]"),
    ],
)
def test_anything_else_tells_nothing(answer: HttpResponse | ExchangeFailed) -> None:
    assert isinstance(ask(answer)[0], PayeeUnanswered)


def test_a_number_of_another_country_is_not_asked_for() -> None:
    report, sent = ask(LOST, "+254708374149")
    assert isinstance(report, PayeeUnanswered)
    assert sent == []

"""The name behind a number, as MTN's basic user information tells it."""

from __future__ import annotations

from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed, drive
from mmo_sansio.testing import START
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.payees import PayeeNamed, PayeeReport, PayeeUnanswered, PayeeUnknown
from tests.sansio.providers.mtn_momo.test_adapter import NOT_FOUND_BODY, a_provider
from tests.support.reversals import LOST, json_answer

NUMBER = "+256772123456"
SAMPLE = {
    "sub": "0",
    "name": "Sand Box",
    "given_name": "Sand",
    "family_name": "Box",
    "birthdate": "1976-08-13",
    "locale": "sv_SE",
    "gender": "MALE",
    "updated_at": 1676609351,
}
"""The published sample of the operator's SDK for Android."""


def ask(
    answer: HttpResponse | ExchangeFailed, **options: Any
) -> tuple[PayeeReport, list[HttpRequest]]:
    sent: list[HttpRequest] = []

    def exchange(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        if isinstance(answer, ExchangeFailed):
            raise answer
        return answer

    inquiry = a_provider(**options).ask_payee(NUMBER, "Jane Doe", now=Moment.at(START))
    return drive(inquiry, exchange), sent


def test_the_holder_is_asked_for_with_the_product_that_pays_out() -> None:
    report, (request,) = ask(json_answer(200, SAMPLE))
    assert report == PayeeNamed("mtn_ug", "Sand Box")
    assert (request.method, request.body) == ("GET", b"")
    assert request.target.endswith(
        b"/disbursement/v1_0/accountholder/msisdn/256772123456/basicuserinfo"
    )
    assert request.value(b"ocp-apim-subscription-key") == b"SECRET-disbursement"


def test_an_account_without_pay_outs_asks_with_collection() -> None:
    keys = ("subscription_key", "api_user", "api_key")
    _, (request,) = ask(LOST, **{f"disbursement_{key}": None for key in keys})
    assert b"/collection/v1_0/accountholder/" in request.target


def test_the_whole_name_counts_where_its_parts_are_not_told() -> None:
    assert ask(json_answer(200, {"name": "Sand Box"}))[0] == PayeeNamed("mtn_ug", "Sand Box")


def test_only_mtns_own_word_makes_a_number_unknown() -> None:
    assert ask(json_answer(404, NOT_FOUND_BODY))[0] == PayeeUnknown("mtn_ug")
    proxy = HttpResponse(404, (), b"<html>Not found</html>")
    assert isinstance(ask(proxy)[0], PayeeUnanswered)


@pytest.mark.parametrize(
    "answer",
    [
        LOST,
        json_answer(500, SAMPLE),
        json_answer(200, {"given_name": "", "name": None}),
        HttpResponse(200, (), b"not JSON"),
    ],
)
def test_anything_else_tells_nothing(answer: HttpResponse | ExchangeFailed) -> None:
    assert isinstance(ask(answer)[0], PayeeUnanswered)


def test_a_name_that_no_store_could_hold_hides_no_account() -> None:
    told = {"given_name": "Sand\0", "family_name": "Box\ud800", "name": "\0"}
    assert ask(json_answer(200, told))[0] == PayeeNamed("mtn_ug", "Sand\ufffd Box\ufffd")

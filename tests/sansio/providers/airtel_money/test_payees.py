"""The name behind a number, as Airtel's user enquiry tells it: `answers.txt` has its answers."""

from __future__ import annotations

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.providers.common.interface import drive
from mmo_sansio.testing import START
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.payees import PayeeUnanswered
from tests.sansio.providers.airtel_money.test_adapter import HEADERS
from tests.support.airtel_conversation import an_adapter


def test_the_user_is_asked_for_by_the_national_number() -> None:
    request = next(an_adapter().ask_payee("+256752000000", "Jane Doe", now=Moment.at(START)))
    target = b"https://openapi.airtel.ug/standard/v1/users/752000000"
    assert request == HttpRequest("GET", target, HEADERS)


def test_a_number_of_another_country_is_not_asked_for() -> None:
    inquiry = an_adapter().ask_payee("+254708374149", "Jane Doe", now=Moment.at(START))
    report = drive(inquiry, lambda request: 1 / 0)  # type: ignore[arg-type,return-value]
    assert isinstance(report, PayeeUnanswered)

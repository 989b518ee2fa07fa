"""The name behind a number, as MTN's basic user information tells it; `answers.txt` has more."""

from __future__ import annotations

from mmo_sansio.providers.common.interface import drive
from mmo_sansio.testing import START
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.payees import PayeeNamed
from tests.sansio.providers.mtn_momo.test_adapter import NO_DISBURSEMENT, a_provider
from tests.support.reversals import json_answer

NUMBER = "+256772123456"


def test_the_holder_is_asked_for_with_the_product_that_pays_out() -> None:
    request = next(a_provider().ask_payee(NUMBER, "Jane Doe", now=Moment.at(START)))
    assert (request.method, request.body) == ("GET", b"")
    assert request.target.endswith(
        b"/disbursement/v1_0/accountholder/msisdn/256772123456/basicuserinfo"
    )
    assert request.value(b"ocp-apim-subscription-key") == b"SECRET-disbursement"


def test_an_account_without_pay_outs_asks_with_collection() -> None:
    provider = a_provider(**NO_DISBURSEMENT)
    request = next(provider.ask_payee(NUMBER, "Jane Doe", now=Moment.at(START)))
    assert b"/collection/v1_0/accountholder/" in request.target


def test_a_name_that_no_store_could_hold_hides_no_account() -> None:
    told = {"given_name": "Sand\0", "family_name": "Box\ud800", "name": "\0"}
    inquiry = a_provider().ask_payee(NUMBER, "Jane Doe", now=Moment.at(START))
    report = drive(inquiry, lambda request: json_answer(200, told))
    assert report == PayeeNamed("mtn_ug", "Sand\ufffd Box\ufffd")

"""The list of payments to the shortcode (Pull Transactions): what is asked, and what its rows come
to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import UnmatchedNotified
from mmo_sansio.providers.common.interface import DepositReport, ExchangeFailed, drive
from mmo_sansio.providers.mpesa_daraja.adapter import PAGES_MAX
from mmo_sansio.testing.builders import KES, START
from mmo_sansio.values.clock import HOUR, Span, later
from mmo_sansio.values.model import DepositTrust, Party
from tests.sansio.providers.mpesa_daraja.test_adapter import adapter

ROW = {
    "transactionId": "RKL51ZDR4F",
    "trxDate": "2026-11-21T10:13:00Z",
    "msisdn": 722000000,
    "sender": "JANE",
    "transactiontype": "c2b-pay-bill-debit",
    "billreference": "ACC-7",
    "amount": "168.00",
    "organizationname": "TEST SHOP",
}
NOTHING = {
    "ResponseRefID": "1",
    "ResponseCode": "1001",
    "ResponseMessage": "None",
    "Response": "[[]]",
}


def page(*rows: object) -> dict[str, Any]:
    return {
        "ResponseRefID": "1",
        "ResponseCode": "1000",
        "ResponseMessage": "Success",
        "Response": [list(rows)],
    }


def listed(
    *answers: object, status: int = 200
) -> tuple[Sequence[DepositReport | UnmatchedNotified], list[Any]]:
    """What a list with these pages comes to, and the requests; the last page repeats."""
    asked: list[Any] = []

    def exchange(request: HttpRequest) -> HttpResponse:
        assert request.target == b"https://sandbox.safaricom.co.ke/pulltransactions/v1/query"
        answer = answers[min(len(asked), len(answers) - 1)]
        asked.append(json.loads(request.body))
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return HttpResponse(status, (), body)

    provider = adapter(pull_number="0722000000")
    return drive(provider.list_deposits(START, later(START, Span(HOUR))), exchange), asked


@pytest.mark.spec("S4")
def test_a_row_is_a_confirmed_deposit_to_the_shortcode_that_was_asked_for() -> None:
    found, asked = listed(page(ROW), NOTHING)
    party = Party("ACC-7", "722000000", "JANE")
    assert found == (
        DepositReport(
            "kenya", "RKL51ZDR4F", "174379", "ACC-7", KES(168), party, DepositTrust.LISTED
        ),
    )
    assert {each["ShortCode"] for each in asked} == {"174379"}
    assert [each["OffSetValue"] for each in asked] == ["0", "1"]
    begin, end = asked[0]["StartDate"], asked[0]["EndDate"]
    assert (len(begin), begin[10], begin[:11], end[13:]) == (
        19,
        " ",
        end[:11],
        begin[13:],
    )  # An hour of one day.


@pytest.mark.parametrize(
    "pages", [[page(ROW, ROW)], [page(ROW), page(ROW)], [{**page(), "Response": [ROW]}]]
)
def test_a_row_counts_once_however_often_and_deep_it_stands(pages: list[object]) -> None:
    found, asked = listed(*pages)
    assert len(found) == 1
    assert len(asked) == 2


def test_pages_are_read_until_one_has_nothing_new() -> None:
    rows = [{**ROW, "transactionId": f"RKL{number:07d}"} for number in range(5)]
    found, asked = listed(page(*rows[:2]), page(*rows[2:4]), page(rows[4]), NOTHING)
    assert len(found) == 5
    assert [each["OffSetValue"] for each in asked] == ["0", "2", "4", "5"]


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "changes",
    [
        {"transactiontype": "b2c-payment"},
        {"transactiontype": None},
        {"transactionId": ""},
        {"transactionId": "no receipt"},
        {"amount": "much"},
        {"amount": "-5.00"},
        {"amount": None},
        {"billreference": ["ACC-7"]},
    ],
)
def test_what_is_not_certainly_a_payment_is_left_to_a_person(changes: dict[str, Any]) -> None:
    [found], _ = listed(page({**ROW, **changes}), NOTHING)
    assert isinstance(found, UnmatchedNotified)
    assert "organizationname" in found.content
    [found], _ = listed(page("a row of text"), NOTHING)
    assert isinstance(found, UnmatchedNotified)


@pytest.mark.parametrize("status", [200, 500])
def test_an_empty_list_is_one_whatever_its_status(status: int) -> None:
    found, asked = listed(NOTHING, status=status)
    assert (found, len(asked)) == ((), 1)


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, b"<html>"),
        (200, {**page(), "Response": "[[]]"}),
        (200, {"errorCode": "400.002.02"}),
        (500, page(ROW)),
        (503, b"{}"),
    ],
)
def test_an_answer_that_is_no_list_is_asked_for_again(status: int, answer: object) -> None:
    with pytest.raises(ExchangeFailed):
        listed(answer, status=status)


@pytest.mark.spec("S5")
def test_a_list_without_end_is_left_to_a_person_after_its_first_pages() -> None:
    pages = [page({**ROW, "transactionId": f"RKL{number:07d}"}) for number in range(PAGES_MAX + 1)]
    found, asked = listed(*pages)
    assert (len(asked), len(found)) == (PAGES_MAX, PAGES_MAX + 1)
    assert isinstance(found[-1], UnmatchedNotified)

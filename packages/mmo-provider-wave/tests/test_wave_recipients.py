"""Whether a name is the one of a number's wallet, as Wave compares it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mmo_provider_wave.signatures import HEADER
from tests.support.reversals import LOST, json_answer
from wave_samples import API_KEY, MSISDN, NAME, an_account

from mmo_sansio.providers import (
    ExchangeFailed,
    HttpRequest,
    HttpResponse,
    PayeeCompared,
    PayeeReport,
    PayeeUnanswered,
    drive,
)
from mmo_sansio.testing import START
from mmo_sansio.values.clock import Moment


def ask(
    answer: HttpResponse | ExchangeFailed, name: str = "Fatou Ndiaye", **options: Any
) -> tuple[PayeeReport, HttpRequest]:
    sent: list[HttpRequest] = []

    def exchange(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        if isinstance(answer, ExchangeFailed):
            raise answer
        return answer

    number = MSISDN.removeprefix("+")
    report = drive(an_account(**options).ask_payee(number, name, now=Moment.at(START)), exchange)
    (request,) = sent
    return report, request


def told(match: object) -> HttpResponse:
    return json_answer(200, {"within_limits": True, "name_match": match})


@pytest.mark.parametrize(
    ("match", "matches"), [("MATCH", True), ("NO_MATCH", False), ("NAME_NOT_KNOWN", None)]
)
def test_a_name_is_compared(match: str, matches: bool | None) -> None:
    report, request = ask(told(match))
    assert report == PayeeCompared(NAME, matches)
    assert request.method == "POST"
    assert request.target.endswith(b"/v1/verify_recipient/")
    assert request.value(b"authorization") == f"Bearer {API_KEY}".encode()
    assert json.loads(request.body) == {"mobile": MSISDN, "name": "Fatou Ndiaye"}


def test_without_a_name_only_the_number_is_sent() -> None:
    _, request = ask(told("NAME_NOT_KNOWN"), "")
    assert json.loads(request.body) == {"mobile": MSISDN}


def test_the_question_is_signed_where_the_key_demands_it() -> None:
    _, request = ask(told("MATCH"), signing_secret="wave_sn_AKS_secret")
    assert request.value(HEADER)


@pytest.mark.parametrize(
    "answer",
    [
        LOST,
        told("SOMETHING_NEW"),
        told(None),
        told(["MATCH"]),
        json_answer(404, {"code": "not-found", "message": "no"}),
        json_answer(500, {"name_match": "MATCH"}),
        HttpResponse(200, (), b"<html>"),
    ],
)
def test_anything_else_tells_nothing(answer: HttpResponse | ExchangeFailed) -> None:
    assert isinstance(ask(answer)[0], PayeeUnanswered)

"""Whether a name is the one of a number's wallet, as Wave compares it: `answers.txt` has its
answers."""

from __future__ import annotations

import json
from typing import Any

from mmo_provider_wave.signatures import HEADER
from wave_samples import API_KEY, MSISDN, an_account

from mmo_sansio.providers import (
    HttpRequest,
)
from mmo_sansio.testing import START
from mmo_sansio.values.clock import Moment


def question(name: str = "Fatou Ndiaye", **options: Any) -> HttpRequest:
    number = MSISDN.removeprefix("+")
    return next(an_account(**options).ask_payee(number, name, now=Moment.at(START)))


def test_a_name_is_sent_with_the_number() -> None:
    request = question()
    assert request.method == "POST"
    assert request.target.endswith(b"/v1/verify_recipient/")
    assert request.value(b"authorization") == f"Bearer {API_KEY}".encode()
    assert json.loads(request.body) == {"mobile": MSISDN, "name": "Fatou Ndiaye"}


def test_without_a_name_only_the_number_is_sent() -> None:
    assert json.loads(question("").body) == {"mobile": MSISDN}


def test_the_question_is_signed_where_the_key_demands_it() -> None:
    assert question(signing_secret="wave_sn_AKS_secret").value(HEADER)

"""The steps that each kind of provider declares for its rehearsal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.providers.common.interface import Provider, resume
from mmo_sansio.providers.common.rehearsal import (
    AskAccount,
    AskAgain,
    AskUnknown,
    AwaitCallback,
    GiveBack,
    MakePayment,
    Rehearsal,
    RehearsalImpossible,
    RehearsalStep,
)
from mmo_sansio.testing.builders import START
from mmo_sansio.values.clock import Moment
from tests.support.captures import KINDS, Capture

DOCS = Path(__file__).parents[4] / "docs"
OPERATORS = ("mpesa_daraja", "mtn_momo", "airtel_money", "pawapay")
NUMBERS = {"airtel_money": "+256752000000"}
PRODUCTION = {
    "mpesa_daraja": {"base_url": None},
    "mtn_momo": {"market": "mtnuganda"},
    "airtel_money": {"base_url": "https://openapi.airtel.ug"},
    "pawapay": {"base_url": None},
}
SANDBOX = {
    "mpesa_daraja": {"base_url": "https://sandbox.safaricom.co.ke", "payout_shortcode": None},
    "mtn_momo": {"market": "sandbox"},
    "airtel_money": {"base_url": "https://openapiuat.airtel.ug"},
    "pawapay": {"base_url": "https://api.sandbox.pawapay.io"},
}


def rehearsal_of(kind: str) -> Rehearsal:
    rehearsal = KINDS[kind].rehearsal
    assert rehearsal is not None
    return rehearsal


def adapter_of(kind: str, account: object) -> Provider:
    return Capture(kind, "", {"account": account}).open_adapter()


def steps_of(kind: str) -> Sequence[RehearsalStep]:
    return rehearsal_of(kind).steps(adapter_of(kind, SANDBOX[kind]), NUMBERS.get(kind))


def host_of(kind: str, account: object) -> str:
    steps = rehearsal_of(kind).steps(adapter_of(kind, account), "+256752000000")
    asked = next(each for each in steps if isinstance(each, AskAccount))
    request = resume(asked.begin(Moment.at(START)))
    assert isinstance(request, HttpRequest)
    return request.target.decode().split("/")[2]


@pytest.mark.parametrize("kind", OPERATORS)
def test_a_rehearsal_tries_all_that_an_operators_page_promises(kind: str) -> None:
    steps = steps_of(kind)
    assert {type(each) for each in steps} == {
        AskAccount,
        MakePayment,
        AwaitCallback,
        AskAgain,
        AskUnknown,
        GiveBack,
    }
    payments = [each for each in steps if isinstance(each, MakePayment)]
    assert {each.operation.type for each in payments} == {"payin", "payout"}
    assert [each.name for each in payments if each.refused_as] == ["refusal"]


@pytest.mark.parametrize("kind", OPERATORS)
def test_a_step_names_a_heading_that_exists_and_an_earlier_step(kind: str) -> None:
    names: list[str] = []
    for step in steps_of(kind):
        page, _, heading = step.page.partition("#")
        text = (DOCS / page).read_text(encoding="utf-8")
        plain = {
            re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-")
            for each in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        }
        assert heading in plain, step.page
        assert re.fullmatch("[a-z_]+", step.name)
        assert step.name not in names
        if not isinstance(step, AskAccount | MakePayment):
            assert step.of in names
        names.append(step.name)


@pytest.mark.parametrize("kind", OPERATORS)
def test_only_the_operators_sandbox_and_this_machine_are_without_real_money(kind: str) -> None:
    rehearsal = rehearsal_of(kind)
    assert rehearsal.is_sandbox(host_of(kind, SANDBOX[kind]))
    assert not rehearsal.is_sandbox(host_of(kind, PRODUCTION[kind]))
    assert rehearsal.is_sandbox("127.0.0.1")
    for host in ("", "proxy.momoapi.mtn.co.rw", "sandbox.safaricom.co.ke.example"):
        assert not rehearsal.is_sandbox(host)


@pytest.mark.parametrize(
    ("kind", "account"),
    [
        ("airtel_money", {}),
        ("mtn_momo", {"market": "mtnuganda"}),
        ("mtn_momo", {"market": "mtnelsewhere", "base_url": "https://mtn.example"}),
        ("pawapay", {"market": "ORANGE_SEN"}),
    ],
)
def test_an_account_without_test_numbers_is_not_rehearsed(
    kind: str, account: dict[str, str]
) -> None:
    with pytest.raises(RehearsalImpossible):
        rehearsal_of(kind).steps(adapter_of(kind, account), None)

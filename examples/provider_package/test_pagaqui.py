"""Pagaqui's adapter keeps every adapter's promises, and reads what its operator says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mmo_pagaqui import PAGAQUI

from mmo_sansio import (
    MINUTE,
    Moment,
    ProviderSucceeded,
    ProviderUnreachable,
    Transaction,
    later,
)
from mmo_sansio.providers import (
    WEB_PAYIN,
    HttpRequest,
    HttpResponse,
    OpenUrl,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderReport,
    drive,
)
from mmo_sansio.testing import ADAPTER_CHECKS, REFERENCE, START, AdapterCase, AdapterCheck

OPTIONS = {
    "base_url": "https://api.pagaqui.example",
    "api_key": "SECRET-api-key",
    "payer_hosts": "pay.pagaqui.example *.pagaqui.example",
}
CASE = AdapterCase(PAGAQUI, OPTIONS, country="SN", currency="XOF", msisdn="+221771234567")
PROVIDER = CASE.open_adapter()
PAGE = "https://pay.pagaqui.example/1"


def payment() -> Transaction:
    return CASE.transaction(WEB_PAYIN, "1500")


def said(status: int, **members: Any) -> HttpResponse:
    return HttpResponse(status, (), json.dumps({"id": REFERENCE, **members}).encode())


def polled(answer: HttpResponse) -> ProviderReport:
    now = Moment.at(later(START, MINUTE))
    return drive(PROVIDER.poll(payment(), now=now), lambda request: answer)


@pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_every_adapters_promises(check: AdapterCheck) -> None:
    check(CASE)


def test_the_operator_is_told_where_to_send_the_payer_and_the_result() -> None:
    sent: list[HttpRequest] = []

    def exchange(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        return said(200, state="open", page=PAGE)

    report = drive(PROVIDER.submit(payment(), now=Moment.at(START)), exchange)
    assert getattr(report, "payer_action", None) == OpenUrl(PAGE)
    told = json.loads(sent[0].body)
    assert (told["amount"], told["currency"]) == ("1500", "XOF")
    assert told["return_to"].startswith("https://pages.example/pay/")
    hinted = PROVIDER.read_notification(
        HttpRequest("POST", told["notify_to"].encode(), (), b'{"state":"paid"}')
    )
    assert isinstance(hinted, ProviderHinted)
    assert (hinted.gateway_reference, hinted.says_paid) == (REFERENCE, True)


def test_paid_and_not_found() -> None:
    paid = polled(said(200, state="paid", amount="1500", currency="XOF", receipt="Q-1"))
    assert isinstance(paid, ProviderSucceeded)
    assert (paid.provider_reference, paid.final) == ("Q-1", payment().order.requested)
    doubtful = polled(said(200, state="paid", amount="1500.5", currency="XOF", receipt="Q-1"))
    assert isinstance(doubtful, ProviderUnreachable)
    assert doubtful.evidence is not None
    assert isinstance(polled(said(404, code="no-such-checkout")), ProviderNeverReceived)

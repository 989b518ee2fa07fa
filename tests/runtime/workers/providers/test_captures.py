"""Each capture of a real operator leads to what its file says."""

from __future__ import annotations

from typing import Any

import pytest

from mmo_sansio.values.model import Status
from tests.support.captures import Capture, CapturedOperator, PlayedPayment, read_captures

MEMBERS = {
    *("seen", "source", "date", "replaced", "assumed", "operation", "payment", "account"),
    *("answers", "callbacks", "leads_to", "simulated"),
}
CASES = read_captures()


@pytest.mark.parametrize("capture", CASES, ids=[each.id for each in CASES])
def test_a_capture_names_its_source_and_what_was_replaced(capture: Capture) -> None:
    assert capture.document.keys() <= MEMBERS
    assert all(capture.document[name] for name in ("seen", "source", "date", "replaced"))


@pytest.mark.spec("E1", "S2", "S5", "S6")
@pytest.mark.parametrize("capture", CASES, ids=[each.id for each in CASES])
def test_what_an_operator_was_seen_to_say_leads_to_what_it_meant(capture: Capture) -> None:
    played = PlayedPayment(capture, CapturedOperator(capture))
    played.play()
    assert_leads_to(played, capture.document["leads_to"])


def assert_leads_to(played: PlayedPayment, wanted: dict[str, Any]) -> None:
    """Fail where the payment has come to something else than the capture's file says."""
    progress = played.payment.progress
    assert played.payment.status is Status(wanted["status"])
    if "errorCode" in wanted:
        codes = wanted["errorCode"]
        assert progress.error_code in (codes if isinstance(codes, list) else [codes])
    assert progress.provider_data is not None
    found = {
        "providerErrorCode": progress.provider_data.error_code,
        "providerReference": progress.provider_reference,
        "fee": progress.provider_data.fee and progress.provider_data.fee.text,
        "submissions": progress.submissions,
        "suspense": [entry.reason for entry in played.world.gateway.suspense],
    }
    told = {name: value for name, value in wanted.items() if name in found}
    assert {name: found[name] for name in told} == told
    assert played.took_s <= wanted["within_s"]

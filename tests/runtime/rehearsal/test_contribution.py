"""A capture is about one payment, and names what the submission names by placeholders."""

from __future__ import annotations

from typing import Any

from mmo_sansio.providers.common.rehearsal import MakePayment
from mmo_sansio.testing import World
from mmo_sansio.testing import builders as a
from mmo_sansio.testing.builders import REFERENCE
from mmo_sansio.testing.world import FakeProvider, succeeds
from mmo_sansio.values.model import Operation
from mmo_trio.rehearsal.contribution import Place, capture_document

STEP = MakePayment(
    name="prompt",
    does="",
    promises="",
    page="",
    operation=Operation.DIRECT_PAYIN,
    country="KE",
    amount=a.KES(150),
    msisdn="+254700000200",
)
PLACE = Place("kind", "sandbox.example", "2026-11-29", "mmo 0.1.0", {"market": "sandbox"})
OWN_ID, OTHER = "c72025f5-5cd1-4630-99e4-8ba4722fad56", a.numbered_reference(2)
HOOK = "https://hooks.invalid/hooks/0123456789abcdef"


def said(offset_ms: int, call: str, body: Any, answer: Any) -> dict[str, Any]:
    method, target = call.split(" ")
    line = {"from": "gateway", "offsetMs": offset_ms, "method": method, "body": body}
    told = {"answer": {"status": 200, "headers": {}, "body": answer}} if answer else {}
    return {**line, "target": f"https://sandbox.example{target}", "headers": {}, **told}


def document(*lines: dict[str, Any], is_interrupted: bool = False) -> Any:
    world = World(FakeProvider(on_submit=(succeeds,)))
    world.create()
    world.run()
    return capture_document(
        STEP,
        world.transaction(),
        lines,
        str,
        PLACE,
        is_interrupted=is_interrupted,
        others=(OTHER,),
    )


SUBMISSION = said(
    100, "POST /v1/pay", {"payId": OWN_ID, "url": HOOK, "name": REFERENCE}, {"status": "TAKEN"}
)
QUESTION = said(5_100, f"GET /v1/pay/{OWN_ID}", "", {"id": OWN_ID, "of": [REFERENCE, "PROV-1"]})


def test_a_capture_names_what_the_submission_names_by_placeholders() -> None:
    assert document(SUBMISSION, QUESTION)["answers"] == {
        "POST /v1/pay": [{"status": 200, "body": {"status": "TAKEN"}}],
        "GET /v1/pay/": [
            {"status": 200, "body": {"id": "{sent.payId}", "of": ["{reference}", "PROV-1"]}}
        ],
    }


def test_a_capture_has_no_sign_in_and_nothing_about_another_payment() -> None:
    token = said(0, "POST /token", "", {"access_token": "[secret]"})
    other = said(50, "GET /v1/pay/x", "", {"of": OTHER})
    assert document(token, SUBMISSION, other, QUESTION) == document(SUBMISSION, QUESTION)


def test_an_answer_that_was_lost_is_lost_in_the_capture_and_said() -> None:
    lost = said(100, "POST /v1/pay", {"payId": OWN_ID}, None)
    capture = document(lost, QUESTION, is_interrupted=True)
    assert capture["answers"]["POST /v1/pay"] == [{"lost": True}]
    assert "interrupted" in capture["assumed"]
    assert "assumed" not in document(SUBMISSION)


def test_a_callback_follows_the_request_that_named_its_address() -> None:
    line = {"from": "operator", "offsetMs": 3_200, "method": "POST", "headers": {}}
    told = {**line, "target": HOOK, "body": {"id": OWN_ID}, "suffix": ""}
    elsewhere = {**told, "target": f"{HOOK}f", "suffix": f"/{REFERENCE}"}
    expected = {"after": "POST /v1/pay", "after_s": 3, "body": {"id": "{sent.payId}"}}
    assert document(SUBMISSION, told, elsewhere)["callbacks"] == [
        {**expected, "to": "url"},
        {**expected, "to": "/{reference}"},
    ]


def test_a_capture_says_what_the_payment_came_to() -> None:
    capture = document(SUBMISSION, QUESTION)
    assert capture["leads_to"] == {
        "status": "success",
        "providerReference": "PROV-1",
        "within_s": 300,
    }
    assert capture["source"] == "`mmo providers rehearse` of mmo 0.1.0 with sandbox.example"
    assert (capture["date"], capture["account"]) == ("2026-11-29", {"market": "sandbox"})

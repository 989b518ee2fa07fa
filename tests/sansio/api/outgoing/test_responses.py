"""What a merchant is answered: creations, look-ups and refusals (C6, C7, G5, L1, P1)."""

from __future__ import annotations

import pytest
from attrs import evolve

from mmo_sansio.api.outgoing import creation_response, look_up_response, transaction_object
from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.model import Operation
from mmo_sansio.values.problems import Problem
from tests.support.api_requests import (
    BRAND,
    NOW,
    SETTINGS,
    TOKEN,
    ULID,
    body,
    call,
    document,
    problem_of,
    refusal_document,
    request,
    text,
)


def answered(answer: HttpResponse | Problem) -> HttpResponse:
    """The answer, which must be no refusal."""
    assert isinstance(answer, HttpResponse), answer
    return answer


def created(operation: Operation, **changes: object) -> HttpResponse:
    target = f"/gateway/mmo/v2/{operation}/mpesa_ke".encode()
    given = call(request(text(body(operation, **changes)), target=target))
    return answered(creation_response(Gateway().receive(given, now=Instant(NOW)), SETTINGS))


@pytest.mark.spec("C6", "C7", "G5")
@pytest.mark.parametrize("operation", Operation)
def test_a_creation_is_answered_with_its_references(operation: Operation) -> None:
    answer = created(operation)
    assert answer.status == 200
    assert answer.value(b"content-type") == b"application/json"
    expected = {
        "status": "pending",
        "gatewayReference": ULID,
        "merchantReference": "order-1",
        "reconciliationReference": (
            "tax-2026-11" if operation is Operation.DIRECT_TAXPAYOUT else "order-1"
        ),
        "createdAt": "2026-11-21T08:34:56+00:00",
    }
    if operation is Operation.WEB_PAYIN:
        expected["pageUrl"] = f"https://pay.example/pay/{TOKEN}"
        expected["pageOpenMode"] = "redirect"
    assert list(document(answer).items()) == list(expected.items())


@pytest.mark.spec("C6", "C7")
def test_references_are_echoed_as_they_are() -> None:
    references = {
        "merchantReference": ' é"\\/\U0001f600\u2028',
        "reconciliationReference": "b" * 255,
    }
    answer = document(created(Operation.QR_PAYIN, **references))
    assert {name: answer[name] for name in references} == references


@pytest.mark.spec("T2", "G5")
def test_the_creation_time_is_the_transactions_cut_to_seconds() -> None:
    gateway = Gateway()
    replied = creation_response(gateway.receive(call(request()), now=Instant(NOW)), SETTINGS)
    answer = document(answered(replied))
    shown = document(HttpResponse(200, (), transaction_object(gateway.transaction(ULID))))
    assert shown["createdAt"] == "2026-11-21T08:34:56.123456Z"
    assert answer["createdAt"] == shown["createdAt"][:19] + "+00:00"


@pytest.mark.spec("C12", "P2")
def test_row_81_a_reference_used_before_is_a_422() -> None:
    gateway = Gateway()
    gateway.receive(call(request()), now=Instant(NOW))
    again = evolve(call(request()), gateway_reference=ULID[:-1] + "W")
    refused = creation_response(gateway.receive(again, now=later(Instant(NOW), Span(1))), SETTINGS)
    assert isinstance(refused, Problem)
    assert refused.status == 422
    said = refusal_document(refused)
    assert said["errorCode"] == "merchant_transactionid_duplicate"
    assert said["type"] == "https://docs.example/errors/merchant_transactionid_duplicate"


@pytest.mark.spec("C12")
def test_row_85_an_invalid_body_comes_before_a_duplicate() -> None:
    gateway = Gateway()
    gateway.receive(call(request()), now=Instant(NOW))
    assert problem_of(text(body(country=...))).status == 400


def test_a_creation_has_no_other_reply() -> None:
    with pytest.raises(AssertionError):
        creation_response(Ignored("why"), SETTINGS)


@pytest.mark.spec("L1", "L2", "T4")
def test_a_look_up_is_answered_with_the_stored_object() -> None:
    stored = b'{"value":1.10, "x" : 1}'
    answer = answered(look_up_response(stored))
    assert (answer.status, answer.body) == (200, stored)
    assert answer.value(b"content-type") == b"application/json"


@pytest.mark.spec("L1", "L2", "P1")
def test_a_look_up_that_finds_nothing_is_a_404() -> None:
    refused = look_up_response(None)
    assert isinstance(refused, Problem)
    assert refused.status == 404
    assert refusal_document(refused)["errorCode"] == "not_found"


@pytest.mark.spec("P1", "C9")
def test_all_faults_are_listed_in_the_order_of_the_fields() -> None:
    problem = problem_of(
        text(
            {
                "merchantReference": "\0",
                "labels": {"b": [], "a": "x" * 1_001},
                "amount": {"currency": "x", "value": "1"},
                "payer": {"email": "x", "firstName": 1, "msisdn": "1"},
                "resultUrl": "https://10.0.0.1/",
            }
        )
    )
    said = refusal_document(problem)
    assert [each["field"] for each in said["errors"]] == [
        "amount.value",
        "amount.currency",
        "payer.id",
        "payer.msisdn",
        "payer.firstName",
        "payer.email",
        "country",
        "resultUrl",
        "merchantReference",
        "labels.b",
        "labels.a",
    ]
    assert said["detail"] == said["errors"][0]["detail"]
    assert said["status"] == 400


@pytest.mark.spec("A5")
def test_settings_do_not_show_the_cursor_key() -> None:
    assert "cursor key of tests" not in repr(SETTINGS)
    assert TOKEN not in repr(call(request(), brand=BRAND))

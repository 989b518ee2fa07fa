"""What a merchant's developer reads when a member of a request is wrong: its name, and what would
be right (P1)."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from mmo_sansio.api.incoming.creation_body import FieldErrors, Members
from mmo_sansio.values.model import Operation
from mmo_sansio.values.problems import ProblemError
from tests.support.api_requests import body, call, request, text

CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"amount": ...}, "amount", "is required."),
    ({"amount": 5}, "amount", "must be an object."),
    ({"amount__value": ...}, "amount.value", "is required."),
    (
        {"amount__value": "150"},
        "amount.value",
        "must be a number, such as 150.00 without quotation marks.",
    ),
    ({"amount__value": 0}, "amount.value", "must be greater than 0."),
    ({"amount__currency": ...}, "amount.currency", "is required."),
    (
        {"amount__currency": "EURO"},
        "amount.currency",
        "must be an ISO 4217 code: three letters, such as KES.",
    ),
    ({"payer": ...}, "payer", "is required."),
    (
        {"payer__msisdn": "07 00"},
        "payer.msisdn",
        "must be digits that begin with the country's code, with or without a leading '+'.",
    ),
    ({"payer__email": "a@"}, "payer.email", "must be an e-mail address, such as ada@shop.example."),
    (
        {"resultUrl": "http://m.example/"},
        "resultUrl",
        "can't be used. The URL must begin with https://, as callbacks only travel encrypted.",
    ),
    (
        {"successRedirectUrl": "javascript:x"},
        "successRedirectUrl",
        "can't be used. A redirect URL can't have the scheme javascript: use https.",
    ),
    (
        {"merchantReference": "."},
        "merchantReference",
        "may not be '.' or '..', as no URL reaches them.",
    ),
    ({"labels": 5}, "labels", "must be an object."),
    ({"labels": {"a": {}}}, "labels.a", "must be a string, a number, true, false or null."),
    ({"labels": {"": 1}}, "labels", "has a key that may not be empty."),
    ({"labels": {str(each): 1 for each in range(11)}}, "labels", "must have at most 10 entries."),
]


@pytest.mark.spec("P1")
@pytest.mark.parametrize(("changes", "field", "words"), CASES, ids=lambda each: str(each)[:40])
def test_a_fault_names_its_field_and_says_what_would_be_right(
    changes: dict[str, Any], field: str, words: str
) -> None:
    operation = Operation.WEB_PAYIN if "successRedirectUrl" in changes else Operation.DIRECT_PAYIN
    target = f"/gateway/mmo/v2/{operation}/mpesa_ke".encode()
    with pytest.raises(ProblemError) as refused:
        call(request(text(body(operation, **changes)), target=target))
    problem = refused.value.problem
    assert [(each.field, each.detail) for each in problem.errors] == [(field, f"'{field}' {words}")]
    assert problem.detail == f"'{field}' {words}"


@pytest.mark.spec("M4")
def test_a_label_may_be_a_number_of_forty_characters() -> None:
    number = "1" * 40
    raw = text(body(labels={"n": 0})).replace(b'{"n": 0}', f'{{"n": {number}}}'.encode())
    assert call(request(raw)).draft.labels == f'{{"n":{number}}}'


@pytest.mark.spec("G7", "G8")
def test_a_text_is_refused_for_each_control_character_and_for_no_other_character() -> None:
    refused = []
    for code_point in range(sys.maxunicode + 1):
        errors = FieldErrors()
        members = Members({"id": f"u{chr(code_point)}"}, errors)
        members.text("id", max_length=2)
        members.optional_text("id", max_length=2)
        if errors.errors:
            assert len(errors.errors) == 2
            refused.append(code_point)
    assert refused == [*range(0x20), *range(0x7F, 0xA0)]

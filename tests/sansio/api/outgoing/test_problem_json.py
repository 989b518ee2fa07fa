"""Every refusal becomes one kind of document."""

from __future__ import annotations

import json

import pytest

from mmo_sansio.api.outgoing import problem_response
from mmo_sansio.values.problems import (
    METHOD_NOT_ALLOWED,
    PROBLEM_TYPES,
    UNAVAILABLE,
    VALIDATION_FAILED,
    FieldError,
    ProblemType,
)

DOCS = "https://docs.example/errors"


@pytest.mark.spec("G3", "P1", "P2")
@pytest.mark.parametrize("cause", PROBLEM_TYPES, ids=lambda cause: cause.segment)
def test_a_problem_becomes_a_problem_document(cause: ProblemType) -> None:
    answer = problem_response(cause.problem("What happened."), DOCS, "abc-01")
    assert answer.status == cause.status
    assert answer.value(b"content-type") == b"application/problem+json"
    assert list(json.loads(answer.body).items()) == [
        ("type", f"{DOCS}/{cause.segment}"),
        ("title", cause.title),
        ("status", cause.status),
        ("detail", "What happened."),
        ("errorCode", cause.error_code),
        ("instance", "urn:x-request-id:abc-01"),
    ]


@pytest.mark.spec("P1")
def test_a_request_without_an_id_is_no_instance() -> None:
    assert "instance" not in json.loads(
        problem_response(PROBLEM_TYPES[0].problem("No."), DOCS).body
    )


@pytest.mark.spec("P1")
def test_field_faults_are_listed_in_their_order() -> None:
    faults = FieldError("amount.value", "Too small."), FieldError("payer", "Missing é \ud800.")
    answer = problem_response(VALIDATION_FAILED.problem("Too small.", *faults), DOCS)
    assert json.loads(answer.body)["errors"] == [
        {"field": "amount.value", "detail": "Too small."},
        {"field": "payer", "detail": "Missing é \ud800."},
    ]


@pytest.mark.spec("P4")
def test_a_405_names_the_methods_and_a_503_the_seconds() -> None:
    answer = problem_response(METHOD_NOT_ALLOWED.problem("No.", allow="GET, HEAD"), DOCS)
    assert answer.value(b"allow") == b"GET, HEAD"
    assert answer.value(b"retry-after") is None
    unavailable = problem_response(UNAVAILABLE.problem("Later."), DOCS)
    assert unavailable.value(b"retry-after") == b"2"
    assert unavailable.value(b"allow") is None

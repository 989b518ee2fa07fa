"""No code without its page: causes of refusals and reasons of failures, each with who acts and what
to do."""

from __future__ import annotations

import json

import pytest

from mmo_sansio.api.docs.error_pages import GUIDANCE, ErrorPage, error_pages
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.problems import PROBLEM_TYPES, ProblemType

DOCS = "https://docs.example/errors"
PAGES = error_pages(DOCS)


@pytest.mark.spec("P1", "P2", "P4", "E1")
def test_every_code_has_one_page_and_none_has_two() -> None:
    codes = [each.segment for each in PROBLEM_TYPES] + [each.value for each in ErrorCode]
    assert list(PAGES) == codes
    assert len(set(codes)) == len(codes)
    assert set(GUIDANCE) == set(PROBLEM_TYPES)


@pytest.mark.spec("E1")
@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.code)
def test_a_page_says_what_happened_who_acts_and_what_to_do(page: ErrorPage) -> None:
    for words in (page.meaning, page.advice):
        assert words.endswith("."), words
        assert words[0].isupper(), words
    assert page.who_acts in {"merchant", "payer", "staff", "nobody"}
    assert json.loads(page.example_text) == page.example


@pytest.mark.spec("P1")
@pytest.mark.parametrize("cause", PROBLEM_TYPES, ids=lambda cause: cause.segment)
def test_an_example_is_a_problem_document_of_that_cause(cause: ProblemType) -> None:
    example = PAGES[cause.segment].example
    assert example["type"] == f"{DOCS}/{cause.segment}"
    assert (example["status"], example["errorCode"]) == (cause.status, cause.error_code)
    assert ("errors" in example) == (cause.segment == "validation_failed")


@pytest.mark.spec("E1")
@pytest.mark.parametrize("code", ErrorCode)
def test_an_example_of_a_failure_says_what_the_transaction_says(code: ErrorCode) -> None:
    assert PAGES[code].example == {
        "status": "failed",
        "errorCode": code,
        "errorMessage": EXPLANATIONS[code].meaning,
    }

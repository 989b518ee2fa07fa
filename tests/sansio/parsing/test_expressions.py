"""No regular expression of the core takes more time than its text is long."""

from __future__ import annotations

import re

import pytest

import mmo_sansio
from tests.support.expressions import FoundExpression, find_expressions, superlinear_text

BUILT_FROM_VALUES = {
    "mmo_sansio.providers.common.redaction": (r"(?<!\w)s3cret(?!\w)", r"(?<!\w)1234(?!\w)")
}
"""Examples of the expressions that functions build, by module."""

EXPRESSIONS = find_expressions(mmo_sansio, BUILT_FROM_VALUES)


def test_every_expression_is_found() -> None:
    places = {each.place for each in EXPRESSIONS}
    assert len(places) > 40
    assert {"mmo_sansio.http.messages._FIELD_LINE", "mmo_sansio.values.clock._TIMESTAMP"} <= places
    methods = {each.place: each.methods for each in EXPRESSIONS}
    assert methods["mmo_sansio.http.request_head._HEAD"] == ("fullmatch",)
    assert methods["mmo_sansio.http.request_head._FORBIDDEN_BYTE"] == ("search",)


@pytest.mark.parametrize("found", EXPRESSIONS, ids=lambda each: each.place)
def test_an_expression_takes_time_in_proportion_to_the_text(found: FoundExpression) -> None:
    assert superlinear_text(found) is None


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"^(host|upgrade):[ \t]*([^\r]*?)[ \t]*\r$", "search"),
        (r"([+-]?)0*([0-9]+)", "fullmatch"),
        (r"[^\s@]+@[^\s@]+", "sub"),
        (r"(?:a+)+b", "match"),
        (r"(a|ab)*c", "search"),
        (r'"(?:[^"\\]|\\.)*"', "findall"),
        (r"\s+$", "search"),
        (r"(\w+\s?)*;", "fullmatch"),
    ],
)
def test_this_test_finds_a_slow_expression(pattern: str, method: str) -> None:
    slow = FoundExpression("here", re.compile(pattern, re.MULTILINE), (method,))
    assert superlinear_text(slow) is not None

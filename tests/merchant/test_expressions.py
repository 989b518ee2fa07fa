"""No regular expression of merchants' programs takes more time than its text is long."""

from __future__ import annotations

import pytest

import mmo_merchant
from tests.support.expressions import FoundExpression, find_expressions, superlinear_text

EXPRESSIONS = find_expressions(mmo_merchant, {})


def test_every_expression_is_found() -> None:
    places = {each.place for each in EXPRESSIONS}
    assert {
        "mmo_merchant.api.gap_closing._HTTP_DATE",
        "mmo_merchant.reconciliation.statement_file._FEE",
    } <= places


@pytest.mark.parametrize("found", EXPRESSIONS, ids=lambda each: each.place)
def test_an_expression_takes_time_in_proportion_to_the_text(found: FoundExpression) -> None:
    assert superlinear_text(found) is None

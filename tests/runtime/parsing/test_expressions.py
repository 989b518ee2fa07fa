"""No regular expression of the shell takes more time than its text is long."""

from __future__ import annotations

import pytest

import mmo_trio
from tests.support.expressions import FoundExpression, find_expressions, superlinear_text

BUILT_FROM_VALUES = {
    "mmo_trio.brands.file": (
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        r"[^\x00-\x20\x7f-\x9f/]([^\x00-\x1f\x7f-\x9f/]{0,98}[^\x00-\x20\x7f-\x9f/])?",
        r"[A-Z]{2}",
        r"#[0-9A-Fa-f]{6}",
    ),
    "mmo_simulators.operators.mpesa.forms": (r"[A-Za-z0-9]{1,20}",),
    "mmo_simulators.common.operator_routes": (
        r"/(?P<product>[^/]+)/v1_0/account/balance/(?P<currency>[^/]+)",
    ),
}
"""Examples of the expressions that functions build, by module."""

EXPRESSIONS = find_expressions(mmo_trio, BUILT_FROM_VALUES)


def test_every_expression_is_found() -> None:
    places = {each.place for each in EXPRESSIONS}
    assert len(places) > 30
    assert {"mmo_trio.settings.values._DURATION", "mmo_trio.system.display_text._EMAIL"} <= places


@pytest.mark.parametrize("found", EXPRESSIONS, ids=lambda each: each.place)
def test_an_expression_takes_time_in_proportion_to_the_text(found: FoundExpression) -> None:
    assert superlinear_text(found) is None

"""No regular expression takes more time than its text is long, whichever package has it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import mmo_provider_pawapay
import mmo_provider_wave
import pytest

import mmo_merchant
import mmo_sansio
import mmo_simulators
import mmo_trio
from tests.support.expressions import FoundExpression, find_expressions, superlinear_text

PACKAGES = (
    mmo_sansio,
    mmo_trio,
    mmo_merchant,
    mmo_simulators,
    mmo_provider_pawapay,
    mmo_provider_wave,
)
BUILT_FROM_VALUES = {
    "mmo_sansio.providers.common.redaction": (r"(?<!\w)s3cret(?!\w)", r"(?<!\w)1234(?!\w)"),
    "mmo_merchant.tables.csv_rows": (
        r'(?>"(?:[^"]|"")*+"|="[^"\r\n]*+"|[^"\r\n,]*+)'
        r'(?:,(?>"(?:[^"]|"")*+"|="[^"\r\n]*+"|[^"\r\n,]*+))*+[\r\n]*+',
    ),
    "mmo_merchant.tables.numbers": (
        r"(?P<sign>[+-]?)(?P<whole>[1-9][0-9]{0,2}(?P<separator>[ ',])[0-9]{3}"
        r"(?:(?P=separator)[0-9]{3})*+|[0-9]++)(?:\.(?P<decimals>[0-9]++))?",
    ),
    "mmo_trio.brands.file": (
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        r"[^\x00-\x20\x7f-\x9f/]([^\x00-\x1f\x7f-\x9f/]{0,98}[^\x00-\x20\x7f-\x9f/])?",
        r"[A-Z]{2}",
        r"#[0-9A-Fa-f]{6}",
    ),
    "mmo_simulators.operators.pawapay.request_checks": (r"260[0-9]{7,12}",),
    "mmo_simulators.operators.mpesa.forms": (r"[A-Za-z0-9]{1,20}",),
    "mmo_simulators.common.operator_routes": (
        r"/(?P<product>[^/]+)/v1_0/account/balance/(?P<currency>[^/]+)",
    ),
}
"""Examples of the expressions that functions build, by module."""


@cache
def expressions() -> Sequence[FoundExpression]:
    """Return all of them. Parsing each module takes seconds, so no process does it that only
    collects tests."""
    return [found for package in PACKAGES for found in find_expressions(package, BUILT_FROM_VALUES)]


def test_every_expression_is_found() -> None:
    methods = {found.place: found.methods for found in expressions()}
    assert len(methods) > 100
    assert methods["mmo_sansio.http.request_head._HEAD"] == ("fullmatch",)
    assert methods["mmo_sansio.http.request_head._FORBIDDEN_BYTE"] == ("search",)
    assert {
        "mmo_sansio.http.messages._FIELD_LINE",
        "mmo_sansio.values.clock._TIMESTAMP",
        "mmo_trio.settings.values._DURATION",
        "mmo_trio.system.display_text._EMAIL",
        "mmo_merchant.api.gap_closing._HTTP_DATE",
        "mmo_merchant.reconciliation.statement_file._FEE",
    } <= methods.keys()
    packages = {place.partition(".")[0] for place in methods}
    assert packages == {package.__name__ for package in PACKAGES}


@pytest.mark.parametrize("package", [package.__name__ for package in PACKAGES])
def test_an_expression_takes_time_in_proportion_to_the_text(package: str) -> None:
    slow = {
        found.place: superlinear_text(found)
        for found in expressions()
        if found.place.startswith(f"{package}.")
    }
    assert slow == dict.fromkeys(slow)


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

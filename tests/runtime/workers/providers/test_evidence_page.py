"""What an adapter rests on is marked as observed, documented, reported, assumed or unknown."""

from __future__ import annotations

import re
import runpy
from enum import Enum

import pytest

from mmo_sansio.providers.registry import PROVIDER_KINDS
from tests.support.captures import Capture
from tests.support.evidence import OPERATORS, ROOT, Mark, Operator

INNER = [operator for operator in OPERATORS if operator.kind in PROVIDER_KINDS]


def test_the_page_of_evidence_is_up_to_date() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "make_evidence.py"))["page"]()
    written = (ROOT / "docs" / "providers" / "evidence.md").read_text(encoding="utf-8")
    assert written == drawn, "run: PYTHONPATH=src:. python docs/make_evidence.py"


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.kind)
def test_a_statement_names_its_source_and_month(operator: Operator) -> None:
    for statement in operator.statements:
        assert statement.source, statement.says
        day = r"-[0-3][0-9]" if statement.mark is Mark.OBSERVED else ""
        assert re.fullmatch(rf"20[0-9]{{2}}-[01][0-9]{day}", statement.date), statement.says


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.kind)
def test_what_is_still_unknown_is_listed(operator: Operator) -> None:
    assert Mark.UNKNOWN in {statement.mark for statement in operator.statements}


@pytest.mark.parametrize("operator", INNER, ids=lambda operator: operator.kind)
def test_a_default_is_the_one_that_its_statement_names(operator: Operator) -> None:
    account = Capture(operator.kind, "", {}).open_adapter().account  # type: ignore[attr-defined]
    for statement in operator.statements:
        if statement.option is None:
            continue
        assert statement.option in {option.name for option in PROVIDER_KINDS[operator.kind].options}
        value = getattr(account, statement.attribute or statement.option)
        default = value.value if isinstance(value, Enum) else value
        assert default == statement.default, statement.option


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.kind)
def test_the_operators_page_leads_to_its_evidence(operator: Operator) -> None:
    page = (ROOT / "docs" / "providers" / f"{operator.kind}.md").read_text(encoding="utf-8")
    anchor = operator.title.lower().replace(" ", "-")
    assert f"(evidence.md#{anchor})" in page

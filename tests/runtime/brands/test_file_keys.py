"""The page about `brands.toml` is made from the keys that its reader knows, and its example uses
each of them."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from attrs import fields

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.values.fields import Field
from mmo_sansio.values.model import Brand, BrandLimits, Method, PageAppearance, Type
from mmo_trio.brands.file import (
    BRAND_FIELDS,
    BRAND_LIMIT_FIELDS,
    METHOD_FIELDS,
    METHOD_LIMIT_FIELDS,
    PAGE_FIELDS,
    field_names,
    parse_brands,
)
from mmo_trio.settings import SettingsError

DOCS = Path(__file__).parents[3] / "docs"
RULES = EgressRules()


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "brands.md").read_text(encoding="utf-8")


def test_the_page_says_what_the_reader_takes(page: str) -> None:
    made = runpy.run_path(str(DOCS / "make_brands.py"))["page"]()
    assert page == made, "run: PYTHONPATH=src python docs/make_brands.py"
    for each in (
        *BRAND_FIELDS,
        *BRAND_LIMIT_FIELDS,
        *METHOD_FIELDS,
        *METHOD_LIMIT_FIELDS,
        *PAGE_FIELDS,
    ):
        assert (
            f"| `{each.name}` | {each.kind.name} | {each.default_words} | {each.meaning} |" in page
        )


def test_the_example_of_the_page_is_read_and_uses_every_key(page: str) -> None:
    [text] = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [read] = parse_brands(text, source="brands.toml", providers={"mpesa": "M-Pesa"}, rules=RULES)
    [table] = tomllib.loads(text)["brand"]
    [method] = table["method"]
    assert set(table) == set(field_names(BRAND_FIELDS)) - {"api_keys", "enabled"}
    assert set(method) == set(field_names(METHOD_FIELDS))
    assert (
        set(table["limits"])
        == set(field_names(BRAND_LIMIT_FIELDS))
        == {each.name for each in fields(BrandLimits)}
    )
    assert set(table["page"]) == set(field_names(PAGE_FIELDS)) - {"logo"}
    assert set(method["limits"]["KES"]) <= set(field_names(METHOD_LIMIT_FIELDS))
    assert read.brand.push_result_url == "https://pay.acme.example/deposits"
    assert read.brand.methods[0].push_accounts == ("174379/ACME", "174380")


@pytest.mark.parametrize(
    ("model", "table", "apart"),
    [
        (Brand, BRAND_FIELDS, {"api_keys"}),
        (BrandLimits, BRAND_LIMIT_FIELDS, set()),
        (PageAppearance, PAGE_FIELDS, set()),
        (Method, METHOD_FIELDS, {"provider_title"}),
    ],
)
def test_each_attribute_of_the_model_has_a_field(
    model: Any, table: tuple[Field, ...], apart: set[str]
) -> None:
    assert {each.attribute for each in table} ^ {each.name for each in fields(model)} == apart


def test_each_key_of_the_page_is_known_and_no_other() -> None:
    def fault(line: str) -> str:
        text = f'[[brand]]\nid = "acme"\nname = "Acme"\n{line}\n'
        with pytest.raises(SettingsError) as refusal:
            parse_brands(text, source="brands.toml", providers={}, rules=RULES)
        return str(refusal.value)

    assert "there is no such key" in fault("colour = 1")
    assert "there is no such key" in fault("limits.colour = 1")
    for key in field_names(BRAND_FIELDS):
        if key not in ("id", "name"):
            assert "there is no such key" not in fault(f"{key} = 1.5")
    for key in field_names(METHOD_FIELDS):
        assert "there is no such key" not in fault(f"[[brand.method]]\n{key} = 1.5")
    assert {f"daily_{each.value}" for each in Type} < set(field_names(METHOD_LIMIT_FIELDS))

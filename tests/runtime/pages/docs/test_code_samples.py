"""The examples in five languages, as texts; `nox -s outside` runs all of them."""

from __future__ import annotations

import ast
import json
from decimal import Decimal
from html import unescape
from re import sub

import pytest

from mmo_sansio.api.docs.openapi import openapi_document
from mmo_trio.pages.docs.code_samples import LANGUAGES, ExampleRequest, json_text, python_sample
from mmo_trio.pages.docs.markup import LEXERS, highlighted
from mmo_trio.pages.docs.openapi_view import EndpointView, build_reference

DOCUMENT = openapi_document(
    base_url="https://pay.example", error_docs_url="https://docs.example/errors"
)
ENDPOINTS = build_reference(DOCUMENT).endpoints


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.name)
def test_the_python_is_the_request(endpoint: EndpointView) -> None:
    (call,) = [
        each
        for each in ast.walk(ast.parse(python_sample(endpoint.example)))
        if isinstance(each, ast.Call) and ast.unparse(each.func).startswith("requests.")
    ]
    given = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    assert ast.unparse(call.func) == f"requests.{endpoint.method.lower()}"
    assert ast.literal_eval(call.args[0]) == endpoint.example.url
    assert given.get("params", {}) == endpoint.example.query
    body = None if endpoint.example.body is None else json.loads(json_text(endpoint.example.body))
    assert given.get("json") == body
    assert ("headers" in given) == (endpoint.example.api_key is not None)
    assert given["timeout"] > 0


def test_every_creation_has_a_reference_of_its_own() -> None:
    references = [each.example.body["merchantReference"] for each in ENDPOINTS if each.example.body]
    assert len(references) == len(set(references)) == 5


def test_an_answer_repeats_the_references_of_its_request() -> None:
    for endpoint in ENDPOINTS:
        if endpoint.example.body:
            answer = json.loads(endpoint.response_example)
            assert answer["merchantReference"] == endpoint.example.body["merchantReference"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.name)
def test_colouring_changes_no_letter(endpoint: EndpointView, language: str) -> None:
    code = LANGUAGES[language].write(endpoint.example)
    assert unescape(sub(r"<i class=[a-z]>|</i>", "", highlighted(code, language))) == code


def test_code_is_escaped() -> None:
    code = '{"a": "</i><script>alert(1)</script>"}'
    for language in LEXERS:
        assert "<script>" not in highlighted(code, language)


def test_json_for_people_is_the_same_json() -> None:
    value = {
        "text": 'a "quoted" \\ text',
        "amount": Decimal("150.00"),
        "none": None,
        "list": [{"a": 1}],
        "empty": {},
        "no": [],
    }
    text = json_text(value)
    assert json.loads(text, parse_float=Decimal) == value
    assert "150.00" in text
    assert json.loads(json_text({"true": True, "line": "a\nb"})) == {"true": True, "line": "a\nb"}


def test_a_quotation_mark_in_a_value_stays_within_it() -> None:
    body = {"id": 'a"b\\c', "x": 1}
    sample = python_sample(ExampleRequest("POST", "https://pay.example/", {}, "key", body))
    (call,) = [
        each
        for each in ast.walk(ast.parse(sample))
        if isinstance(each, ast.Dict) and len(each.keys) == 2
    ]
    assert ast.literal_eval(call) == body
